package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/document"
	"usher.dev/usher/gate"
)

// Step describes a step.
type Step struct {
	Name, Doc string
	Gate      gate.Name
	Mode      Mode
	Needs     []string // as in Mutator
}

// Chain is an ordered list of steps on one kind of object.
type Chain struct {
	mutates bool
	commits bool
	steps   []step
}

type step struct {
	Step
	run    func(context.Context, *Request) (field.ErrorList, error)
	commit func(context.Context, *Request) (field.ErrorList, error) // as in Validator; nil for most steps
}

// Mutate makes a chain of mutators. They run in order, and each sees the edits of those before it; the first that
// refuses or fails ends the chain. view makes the view that the steps work on. All steps are in mode enforce; see
// WithModes.
func Mutate[T any](view func(*document.Document) *T, mutators []Mutator[T]) Chain {
	c := Chain{mutates: true}
	for _, m := range mutators {
		c.steps = append(c.steps, step{Step{m.Name, m.Doc, m.Gate, Enforce, m.Needs},
			func(ctx context.Context, req *Request) (field.ErrorList, error) {
				return classify(m.Run(ctx, req, view(req.Object)))
			}, nil})
	}
	return c
}

// Validate makes a chain of validators. All of them run, in mode enforce; see WithModes. It panics if a validator with
// a Commit is not the last one: this is a programming error, and chains are made at startup.
func Validate[T any](view func(*document.Document) *T, validators []Validator[T]) Chain {
	var c Chain
	for i, v := range validators {
		s := step{Step{v.Name, v.Doc, v.Gate, Enforce, v.Needs}, onSubject(view, v.Run), nil}
		if v.Commit != nil {
			mustCommitLast(v, len(validators)-1-i)
			s.commit, c.commits = onSubject(view, v.Commit), true
		}
		c.steps = append(c.steps, s)
	}
	return c
}

// mustCommitLast panics unless a validator with a Commit is the last one and also has a Run, for dry runs.
func mustCommitLast[T any](v Validator[T], after int) {
	switch {
	case after > 0:
		panic(fmt.Sprintf("admit.Validate: %s has a Commit, but %d more follow in the list: it would remember a request that one of them "+
			"refuses; make it the last of the list, and the only one with a Commit", v.Name, after))
	case v.Run == nil:
		panic(fmt.Sprintf("admit.Validate: %s has a Commit but no Run: on dry runs, and in modes other than enforce, Run gives the verdict; "+
			"set it, too", v.Name))
	}
}

// onSubject returns a function that runs a check on the view of the request's subject.
func onSubject[T any](
	view func(*document.Document) *T, check func(context.Context, *Request, *T) (field.ErrorList, error),
) func(context.Context, *Request) (field.ErrorList, error) {
	return func(ctx context.Context, req *Request) (field.ErrorList, error) {
		return check(ctx, req, view(req.Subject()))
	}
}

// Gated returns the chain without the steps whose gates are off.
func (c Chain) Gated(enabled func(gate.Name) bool) Chain {
	c.steps = slices.DeleteFunc(slices.Clone(c.steps), func(s step) bool { return !enabled(s.Gate) })
	return c
}

// WithModes returns the chain with its steps in the modes that a policy sets.
func (c Chain) WithModes(modes Modes) Chain {
	c.steps = slices.Clone(c.steps)
	for i := range c.steps {
		c.steps[i].Mode = modes.Of(c.steps[i].Name)
	}
	return c
}

// Commits reports whether the chain has a check with a Commit, and so must be registered as having side effects. Checks
// left out by Gated count, too, so that the registration does not depend on the gates.
func (c Chain) Commits() bool { return c.commits }

// Mutates reports whether the chain may return a patch.
func (c Chain) Mutates() bool { return c.mutates }

// Steps returns the steps in order.
func (c Chain) Steps() []Step {
	steps := make([]Step, len(c.steps))
	for i, s := range c.steps {
		steps[i] = s.Step
	}
	return steps
}

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
	Name    string
	Mode    Mode
	Changed bool
	// WouldChange is set if the step would have changed the object in another mode.
	WouldChange bool
	// Refused holds the step's reasons to refuse the request, whatever its mode.
	Refused  field.ErrorList
	Duration time.Duration
}

// Changed returns the names of the steps that changed the object, in order.
func (r Result) Changed() []string {
	var names []string
	for _, s := range r.Steps {
		if s.Changed {
			names = append(names, s.Name)
		}
	}
	return names
}

// After is called when a step has ended; it may read the request's object in its current state.
type After func(*Request, StepResult)

// Run runs the chain on the request's object. An error is our own failure, wrapped with the step's name. after may be nil.
func (c Chain) Run(ctx context.Context, req *Request, after After) (Result, error) {
	var result Result
	for _, s := range c.steps {
		if s.Mode == Off || s.commit != nil && len(result.Problems) > 0 {
			continue // a request that is refused anyway is not committed
		}
		if err := ctx.Err(); err != nil {
			return result, fmt.Errorf("%s: not begun: %w", s.Name, err)
		}
		done, err := s.attempt(ctx, req)
		if err != nil {
			return result, fmt.Errorf("%s: %w", s.Name, err)
		}
		result.Steps = append(result.Steps, done)
		if after != nil {
			after(req, done)
		}
		if len(done.Refused) > 0 && s.Mode == Enforce {
			result.Problems = append(result.Problems, problems(done)...)
			if c.mutates {
				break
			}
		}
	}
	if changed := result.Changed(); len(changed) > 0 && len(result.Problems) == 0 {
		req.Audit("changed", strings.Join(changed, ","))
	}
	return result, nil
}

func problems(s StepResult) []Problem {
	list := make([]Problem, len(s.Refused))
	for i, err := range s.Refused {
		list[i] = Problem{s.Name, err}
	}
	return list
}

// errDropped makes Try drop the edits of a step that refused the request or is in mode dryrun.
var errDropped = errors.New("dropped")

// attempt runs one step, keeps its edits if it succeeds, and reports what its mode prevented.
func (s step) attempt(ctx context.Context, req *Request) (StepResult, error) {
	start := time.Now()
	done := StepResult{Name: s.Name, Mode: s.Mode}
	var failure error
	subject := req.Subject()
	before, saved := subject.Edits(), req.notes.copy()
	_ = subject.Try(func() error {
		done.Refused, failure = s.runFunc(req)(ctx, req)
		// An object that cannot be decoded is the user's fault, even if the step has failed because of it.
		if err := unreadable(req); err != nil {
			done.Refused, failure = field.ErrorList{err}, nil
		}
		done.Changed = subject.Edits() != before
		if failure != nil || len(done.Refused) > 0 || s.Mode == DryRun {
			done.WouldChange = done.Changed && failure == nil && len(done.Refused) == 0
			done.Changed, req.notes = false, saved
			return errDropped
		}
		return nil
	})
	s.reportUnenforced(req, done)
	done.Duration = time.Since(start)
	return done, failure
}

// runFunc returns the function to run: Commit only if the request is no dry run and the step is in mode enforce.
func (s step) runFunc(req *Request) func(context.Context, *Request) (field.ErrorList, error) {
	if s.commit != nil && !req.DryRun && s.Mode == Enforce {
		return s.commit
	}
	return s.run
}

// reportUnenforced reports what the step would have done in mode enforce.
func (s step) reportUnenforced(req *Request, done StepResult) {
	switch {
	case len(done.Refused) > 0 && s.Mode == Warn:
		req.Warnf("would be denied by %s: %s", s.Name, done.Refused[0])
		req.Audit("would-deny."+s.Name, inShort(done.Refused))
	case len(done.Refused) > 0 && s.Mode == DryRun:
		req.Audit("would-deny."+s.Name, inShort(done.Refused))
	case done.WouldChange:
		req.Audit("would-change."+s.Name, "true")
	}
}

// inShort returns the text about problems for the audit log.
func inShort(problems field.ErrorList) string {
	more := len(problems) - maxProblems
	text := problems[:min(len(problems), maxProblems)].ToAggregate().Error()
	if more > 0 {
		text += fmt.Sprintf(" and %d more problems", more)
	}
	return Shorten(text, maxProblem*maxProblems)
}

// classify splits a mutator's error: a *field.Error is the user's fault, any other error is ours.
func classify(err error) (field.ErrorList, error) {
	if user, ok := errors.AsType[*field.Error](err); ok {
		return field.ErrorList{user}, nil
	}
	return nil, err
}

// unreadable returns the error of the first part of the request's objects that has the wrong JSON type, or nil.
func unreadable(req *Request) *field.Error {
	for _, d := range []*document.Document{req.Object, req.OldObject} {
		if d == nil {
			continue
		}
		if wrong, ok := errors.AsType[*field.Error](d.Err()); ok {
			return wrong
		}
	}
	return nil
}
