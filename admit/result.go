package admit

import (
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Result is the result of running a chain. The request is allowed if there are no problems.
type Result struct {
	Problems []Problem
	Steps    []StepResult
}

// Problem is one reason to refuse a request.
type Problem struct {
	Step string
	*field.Error
}

// StepResult is the result of one step.
type StepResult struct {
	Name string
	Mode Mode
	// Override is the override that set the mode, or nil.
	Override *Override
	Changed  bool
	// WouldChange is set if the step would have changed the object in another mode.
	WouldChange bool
	// Refused holds the step's reasons to refuse the request, whatever its mode.
	Refused field.ErrorList
	// Why has the step's lines of Request.Explain if the chain is Explained.
	Why      []string
	Duration time.Duration
}

// Changed returns the names of the steps that changed the object, in order.
func (r Result) Changed() []string {
	var names []string
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Changed {
			if names == nil {
				names = make([]string, 0, len(r.Steps)-i)
			}
			names = append(names, s.Name)
		}
	}
	return names
}

// PanicError is the failure of a step that panicked.
type PanicError struct {
	Cause any
	Stack []byte
}

func (e *PanicError) Error() string { return "panic: " + CauseOfPanic(e.Cause) }

// CauseOfPanic returns the text of a panic if it is one of the Go runtime. Any other may quote the object under review,
// and the stack says where it comes from.
func CauseOfPanic(cause any) string {
	if err, ok := cause.(runtime.Error); ok {
		return err.Error()
	}
	return "see the stack"
}

func problems(s StepResult) []Problem {
	list := make([]Problem, len(s.Refused))
	for i, err := range s.Refused {
		list[i] = Problem{s.Name, err}
	}
	return list
}
