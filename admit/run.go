package admit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// After is called when a step has ended; it may read the request's object in its current state.
type After func(*Request, StepResult)

// Run runs the chain on the request's object. An error is our own failure, wrapped with the step's name; a step that
// panics is a PanicError. after may be nil.
func (c Chain) Run(ctx context.Context, req *Request, after After) (Result, error) {
	result := Result{Steps: make([]StepResult, 0, len(c.steps))}
	req.explanation.wanted, req.explanation.hidingValues, req.steps = c.explained, c.hidingValues, c.steps
	req.pods = c.pods
	for _, s := range c.steps {
		if s.Idle || s.commit != nil && len(result.Problems) > 0 {
			continue // a request that is refused anyway is not committed
		}
		if err := ctx.Err(); err != nil {
			return result, fmt.Errorf("%s: not begun: %w", s.Name, err)
		}
		override, err := s.override(req)
		if err != nil {
			return result, fmt.Errorf("%s: %w", s.Name, err)
		}
		if s.Mode == Off && override == nil {
			continue
		}
		done, err := s.attempt(ctx, req, override)
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

// override sets the step's mode for a request, and returns the override that decides it, or nil. Each use of an
// override is audited.
func (s *step) override(req *Request) (*Override, error) {
	mode, o, err := s.resolve(req)
	if o == nil || err != nil {
		return nil, err
	}
	s.Mode = mode
	req.Audit("override."+s.Name, o.Name)
	return o, nil
}

// errDropped makes Try drop the edits of a step that refused the request or is in mode dryrun.
var errDropped = errors.New("dropped")

// attempt runs one step, keeps its edits if it succeeds, and reports what its mode prevented. The mode is the
// override's, if there is one.
func (s step) attempt(ctx context.Context, req *Request, override *Override) (StepResult, error) {
	start := time.Now()
	done := StepResult{Name: s.Name, Mode: s.Mode, Override: override}
	if s.Mode == Off {
		done.Why = req.takeWhy(done)
		return done, nil
	}
	var failure error
	subject := req.Subject()
	before, saved := subject.Edits(), req.notes.copy()
	_ = subject.Try(func() error {
		done.Refused, failure = s.call(ctx, req)
		// An object that cannot be decoded is the user's fault, even if the step has failed because of it.
		if err := req.Unreadable(); err != nil && !isBug(failure) {
			done.Refused, failure = field.ErrorList{err}, nil
		}
		done.Changed = subject.Edits() != before
		if s.mutates && req.Explained() && failure == nil && len(done.Refused) == 0 {
			req.explainChanges(subject.Changes())
		}
		if failure != nil || len(done.Refused) > 0 || s.Mode == DryRun {
			done.WouldChange = done.Changed && failure == nil && len(done.Refused) == 0
			done.Changed, req.notes = false, saved
			return errDropped
		}
		return nil
	})
	done.Why = req.takeWhy(done)
	s.reportUnenforced(req, done)
	done.Duration = time.Since(start)
	return done, failure
}

// errEdited is the failure of a validator that edits: the edit would never be in the patch, so the check saw an object
// that is not stored.
var errEdited = errors.New("edited the object; a validator must not")

// call runs the step's function. A panic, or an edit by a validator, is our own failure.
func (s step) call(ctx context.Context, req *Request) (refused field.ErrorList, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			refused, err = nil, &PanicError{cause, debug.Stack()}
		}
	}()
	before := edits(req)
	refused, err = s.runFunc(req)(ctx, req)
	if err == nil && !s.mutates && edits(req) != before {
		return nil, errEdited
	}
	return refused, err
}

// edits returns the number of edits on all documents of the request.
func edits(req *Request) (n int) {
	for _, d := range [...]*document.Document{req.Object, req.OldObject, req.Review} {
		if d != nil {
			n += d.Edits()
		}
	}
	return n
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
		s.warn(req, done)
		req.Audit("would-deny."+s.Name, inShort(done.Refused))
	case len(done.Refused) > 0 && s.Mode == DryRun:
		req.Audit("would-deny."+s.Name, inShort(done.Refused))
	case done.WouldChange:
		req.Audit("would-change."+s.Name, "true")
	}
}

// isBug reports whether a failure is a step's mistake that no object excuses.
func isBug(err error) bool {
	_, panicked := errors.AsType[*PanicError](err)
	return panicked || errors.Is(err, errEdited)
}

// Classify splits the error of a mutator, or of what a validator shares with one: a *field.Error is the user's fault, any other error is ours.
func Classify(err error) (field.ErrorList, error) {
	if user, ok := errors.AsType[*field.Error](err); ok {
		return field.ErrorList{user}, nil
	}
	return nil, err
}

// Unreadable returns the error of the first part of the request's objects that has the wrong JSON type, or nil.
func (r *Request) Unreadable() *field.Error {
	for _, d := range []*document.Document{r.Object, r.OldObject} {
		if d == nil {
			continue
		}
		if wrong, ok := errors.AsType[*field.Error](d.Err()); ok {
			return wrong
		}
	}
	return nil
}

// Mutates reports whether the chain may return a patch.
func (c Chain) Mutates() bool { return c.mutates }

// Mutate makes a chain of mutators. They run in order, and each sees the edits of those before it; the first that
// refuses or fails ends the chain. view makes the view that the steps work on. All steps are in mode enforce; see
// WithModes.
func Mutate[T any](view func(*document.Document) *T, mutators []Mutator[T]) Chain {
	c := Chain{mutates: true}
	for _, m := range mutators {
		c.steps = append(c.steps, step{
			Step:    Step{Name: m.Name, Doc: m.Doc, Gate: m.Gate, Mode: Enforce, Needs: m.Needs, Section: m.Section, Idle: m.Idle},
			mutates: true,
			run: func(ctx context.Context, req *Request) (field.ErrorList, error) {
				return Classify(m.Run(ctx, req, view(req.Object)))
			},
		})
	}
	return c
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

// resolve returns the mode of the step for a request, and the override that sets it, or nil.
func (s *step) resolve(req *Request) (Mode, *Override, error) {
	if s.overriding != nil {
		if mode, o, err := s.overriding(req); o != nil || err != nil {
			return mode, o, err
		}
	}
	return s.Mode, nil, nil
}
