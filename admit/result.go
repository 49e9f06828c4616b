package admit

import (
	"fmt"
	"runtime"
	"strings"
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

// warn warns of what the step would refuse in mode enforce.
func (s step) warn(req *Request, done StepResult) {
	begin := "would be denied by " + s.Name
	if s.ofPods {
		begin = "its pods would be denied"
	}
	begin += done.Override.exempts()
	for _, p := range done.Refused[:min(len(done.Refused), maxWarned)] {
		req.Warnf("%s", abridge(fmt.Sprintf("%s: %s", begin, p), warningLength))
	}
	if more := len(done.Refused) - maxWarned; more > 0 {
		req.Warnf("%s: and %d more reasons", begin, more)
	}
}

// inShort returns the paths and types of problems for the audit log, without values.
func inShort(problems field.ErrorList) string {
	var texts []string
	for _, p := range problems[:min(len(problems), maxAudited)] {
		texts = append(texts, RuleOf(p))
	}
	if more := len(problems) - maxAudited; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// The maximum numbers of problems in an audit annotation, and of problems of a step that become warnings.
const maxAudited, maxWarned = 10, 3

// abridge cuts text to at most n characters, and keeps its end: a problem begins with its field and ends with its rule.
func abridge(text string, n int) string {
	all := []rune(text)
	if len(all) <= n {
		return text
	}
	return string(all[:n/2-1]) + "…" + string(all[len(all)-n/2:])
}
