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

// Step is what is known about a step without running it.
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

// Mutate makes a chain of mutators. They run in order, each seeing the edits of those before; the first that refuses or
// fails ends the chain. as makes the view that the steps work on. All steps are enforced, see WithModes.
func Mutate[T any](as func(*document.Document) *T, mutators []Mutator[T]) Chain {
	c := Chain{mutates: true}
	for _, m := range mutators {
		c.steps = append(c.steps, step{Step{m.Name, m.Doc, m.Gate, Enforce, m.Needs},
			func(ctx context.Context, req *Request) (field.ErrorList, error) {
				return blame(m.Run(ctx, req, as(req.Object)))
			}, nil})
	}
	return c
}

// Validate makes a chain of validators. All of them run, and are enforced, see WithModes. It panics if a validator with a Commit is not the
// last: that is a mistake in the program, and chains are made when it starts.
func Validate[T any](as func(*document.Document) *T, validators []Validator[T]) Chain {
	var c Chain
	for i, v := range validators {
		s := step{Step{v.Name, v.Doc, v.Gate, Enforce, v.Needs}, on(as, v.Run), nil}
		if v.Commit != nil {
			mustCommitLast(v, len(validators)-1-i)
			s.commit, c.commits = on(as, v.Commit), true
		}
		c.steps = append(c.steps, s)
	}
	return c
}

// mustCommitLast panics unless a validator with a Commit stands where it may, and can run on dry runs, too.
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

// on runs a check on the view of what a request is about.
func on[T any](as func(*document.Document) *T, check func(context.Context, *Request, *T) (field.ErrorList, error)) func(context.Context, *Request) (field.ErrorList, error) {
	return func(ctx context.Context, req *Request) (field.ErrorList, error) {
		return check(ctx, req, as(req.Subject()))
	}
}

// Gated is the chain without the steps whose gate is not open.
func (c Chain) Gated(open func(gate.Name) bool) Chain {
	c.steps = slices.DeleteFunc(slices.Clone(c.steps), func(s step) bool { return !open(s.Gate) })
	return c
}

// WithModes is the chain with its steps in the modes that a policy sets.
func (c Chain) WithModes(modes Modes) Chain {
	c.steps = slices.Clone(c.steps)
	for i := range c.steps {
		c.steps[i].Mode = modes.Of(c.steps[i].Name)
	}
	return c
}

// Commits reports whether the chain has a check with a Commit, and so must be registered as having side effects. One that Gated left out
// counts, too: opening its gate takes no other registration.
func (c Chain) Commits() bool { return c.commits }

// Mutates reports whether the chain may give a patch.
func (c Chain) Mutates() bool { return c.mutates }

// Steps are the steps in order.
func (c Chain) Steps() []Step {
	steps := make([]Step, len(c.steps))
	for i, s := range c.steps {
		steps[i] = s.Step
	}
	return steps
}

// Result is what a chain came to. No problems: the request is allowed.
type Result struct {
	Problems []Problem
	Steps    []StepResult
}

// Problem is one reason to refuse a request.
type Problem struct {
	Step string
	*field.Error
}

// StepResult is what one step did.
type StepResult struct {
	Name    string
	Mode    Mode
	Changed bool
	// WouldChange tells that the step would change the object if its mode let it.
	WouldChange bool
	// Refused is why the step refuses, or would refuse if its mode let it.
	Refused  field.ErrorList
	Duration time.Duration
}

// Changed names the steps that changed the object, in order.
func (r Result) Changed() []string {
	var names []string
	for _, s := range r.Steps {
		if s.Changed {
			names = append(names, s.Name)
		}
	}
	return names
}

// After is called when a step is done; it may read the request's object as it is then.
type After func(*Request, StepResult)

// Run runs the chain on the request's object. An error is our own failure, wrapped with the step's name. after may be nil.
func (c Chain) Run(ctx context.Context, req *Request, after After) (Result, error) {
	var result Result
	for _, s := range c.steps {
		if s.Mode == Off || s.commit != nil && len(result.Problems) > 0 {
			continue // what is refused anyway is not committed
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

// errDropped makes Try drop the edits of a step that refused or only rehearses.
var errDropped = errors.New("dropped")

// attempt runs one step, keeps its edits if it succeeds, and says aloud what its mode keeps it from doing.
func (s step) attempt(ctx context.Context, req *Request) (StepResult, error) {
	start := time.Now()
	done := StepResult{Name: s.Name, Mode: s.Mode}
	var failure error
	subject := req.Subject()
	before, said := subject.Edits(), req.voice.copy()
	_ = subject.Try(func() error {
		done.Refused, failure = s.how(req)(ctx, req)
		if err := unreadable(req); err != nil {
			done.Refused, failure = field.ErrorList{err}, nil
		}
		done.Changed = subject.Edits() != before
		if failure != nil || len(done.Refused) > 0 || s.Mode == DryRun {
			done.WouldChange = done.Changed && failure == nil && len(done.Refused) == 0
			done.Changed, req.voice = false, said
			return errDropped
		}
		return nil
	})
	s.rehearse(req, done)
	done.Duration = time.Since(start)
	return done, failure
}

// how returns the function that a step runs: it commits only what will happen, and only where its verdict counts.
func (s step) how(req *Request) func(context.Context, *Request) (field.ErrorList, error) {
	if s.commit != nil && !req.DryRun && s.Mode == Enforce {
		return s.commit
	}
	return s.run
}

// rehearse reports what a step would have done in mode enforce.
func (s step) rehearse(req *Request, done StepResult) {
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

// inShort is what the audit log is told of problems.
func inShort(problems field.ErrorList) string {
	more := len(problems) - maxProblems
	text := problems[:min(len(problems), maxProblems)].ToAggregate().Error()
	if more > 0 {
		text += fmt.Sprintf(" and %d more problems", more)
	}
	return Shorten(text, maxProblem*maxProblems)
}

// blame sorts a mutator's error: a *field.Error is the user's, anything else ours.
func blame(err error) (field.ErrorList, error) {
	if user, ok := errors.AsType[*field.Error](err); ok {
		return field.ErrorList{user}, nil
	}
	return nil, err
}

// unreadable is the first part of the request's objects that has the wrong JSON type.
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
