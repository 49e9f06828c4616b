package admit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/gate"
)

// Step describes a step.
type Step struct {
	Name, Doc string
	Gate      gate.Name
	Mode      Mode
	Needs     []string // as in Mutator
	Section   Section  // as in Mutator
	Idle      bool     // as in Mutator
	For       []Match  // as in Validator
}

// Section is the section of the policy file that a step obeys: a config.Section, or nil for a step that has none, because it
// obeys objects of the cluster, or rules that are fixed.
type Section interface{ SectionName() string }

// SectionName returns the name of the step's section of the policy file; "" if it has none.
func (s Step) SectionName() string {
	if s.Section == nil {
		return ""
	}
	return s.Section.SectionName()
}

// Chain is an ordered list of steps on one kind of object.
type Chain struct {
	mutates bool
	commits bool
	steps   []step

	explained bool // the results of the steps say why
	// hidingValues: what they say of changes has no values.
	hidingValues bool
	pods         PodRoutes // see ForPods
}

type step struct {
	Step
	mutates bool
	run     func(context.Context, *Request) (field.ErrorList, error)
	commit  func(context.Context, *Request) (field.ErrorList, error) // as in Validator; nil for most steps

	overriding Overriding // nil if no override is about the step
	ofPods     bool       // as in Validator
}

// Validate makes a chain of validators. All of them run, in mode enforce or in their own; see WithModes. It panics if a validator with
// a Commit is not the last one: this is a programming error, and chains are made at startup.
func Validate[T any](view func(*document.Document) *T, validators []Validator[T]) Chain {
	var c Chain
	for i, v := range validators {
		s := step{
			Step: Step{Name: v.Name, Doc: v.Doc, Gate: v.Gate, Mode: cmp.Or(v.Mode, Enforce), Needs: v.Needs, Section: v.Section, Idle: v.Idle, For: v.For},
			run:  onSubject(view, v.For, v.Run), ofPods: v.OfPods,
		}
		if v.Commit != nil {
			mustCommitLast(v, len(validators)-1-i)
			s.commit, c.commits = onSubject(view, v.For, v.Commit), true
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

// onSubject returns a function that runs a check on the view of the request's subject, if the check judges such requests.
func onSubject[T any](
	view func(*document.Document) *T, judged []Match, check func(context.Context, *Request, *T) (field.ErrorList, error),
) func(context.Context, *Request) (field.ErrorList, error) {
	return func(ctx context.Context, req *Request) (field.ErrorList, error) {
		if judged != nil && !covers(judged, req) {
			req.Explain("the step does not judge %s of %s", string(req.Operation), req.ResourceName())
			return nil, nil
		}
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
	return c.with(func(s *step) {
		if mode, set := modes[s.Name]; set {
			s.Mode = mode
		}
	})
}

// with returns the chain with all steps changed.
func (c Chain) with(change func(*step)) Chain {
	c.steps = slices.Clone(c.steps)
	for i := range c.steps {
		change(&c.steps[i])
	}
	return c
}

// Uncommitted returns the chain without what lasts beyond a request: where a check has a Commit, its Run gives the
// verdict, as on a dry run.
func (c Chain) Uncommitted() Chain {
	return c.with(func(s *step) {
		if s.commit != nil {
			s.commit = s.run
		}
	})
}

// Commits reports whether the chain has a check with a Commit, and so must be registered as having side effects. Checks
// left out by Gated count, too, so that the registration does not depend on the gates.
func (c Chain) Commits() bool { return c.commits }

// Steps returns the steps in order.
func (c Chain) Steps() []Step {
	steps := make([]Step, len(c.steps))
	for i, s := range c.steps {
		steps[i] = s.Step
	}
	return steps
}

// PodRoutes are the routes that the steps of a suite may ask about pods.
type PodRoutes struct {
	// Own are those of the suite itself. Steps that commit do not judge: what they decide depends on the moment.
	Own []Route
	// Before are mutating routes of suites that the API server calls before it. What one of them refuses is for the steps of
	// its own suite to say.
	Before []Route
	// Called reports whether the API server would call one of Before for a request.
	Called func(Route, *Request) (bool, error)
}

// ForPods returns the chain with routes that its steps can ask about pods, see Request.PodRoutes.
func (c Chain) ForPods(routes PodRoutes) Chain {
	routes.Own = slices.Clone(routes.Own)
	for i := range routes.Own {
		routes.Own[i].Chain = routes.Own[i].Chain.withoutCommits()
	}
	c.pods = routes
	return c
}

// withoutCommits returns the chain with the steps that commit idle.
func (c Chain) withoutCommits() Chain {
	return c.with(func(s *step) { s.Idle = s.Idle || s.commit != nil })
}

// PodRoutes returns the routes of the running chain that its steps can ask about pods.
func (r *Request) PodRoutes() PodRoutes { return r.pods }
