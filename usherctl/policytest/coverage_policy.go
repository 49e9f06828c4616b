package policytest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	kyaml "sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/yamlnode"
)

// Cover returns what results cover of the steps and the policies: a part is covered if some case fails without it. Only steps run
// again, on the requests that were recorded, and for each part until a case fails.
func (p Program) Cover(ctx context.Context, results []Result) Coverage {
	w := p.newInstances(ctx)
	defer w.close()
	coverer := coverer{instances: w, byPolicy: map[string]*policyTree{}}
	failed := 0
	for _, r := range results {
		if r.Report.Verdict == report.Passed {
			coverer.add(r)
		} else {
			failed++
		}
	}
	coverer.measure()
	c, steps := Coverage{Policies: []PolicyShare{}}, map[string]bool{}
	for _, tree := range coverer.trees {
		c.Policies = append(c.Policies, tree.share())
		c.NotMeasured = append(c.NotMeasured, tree.notMeasured()...)
		for _, p := range tree.parts {
			if p.step != "" && !p.unjudged() {
				steps[p.step] = steps[p.step] || p.shown
			}
		}
	}
	if c.Steps = shareOf(steps); failed > 0 {
		c.NotMeasured = append(c.NotMeasured, fmt.Sprintf("%d of %d cases, which do not pass", failed, len(results)))
	}
	return c
}

// coverer measures the coverage of policies.
type coverer struct {
	*instances
	trees    []*policyTree
	byPolicy map[string]*policyTree // by their text
}

// part is a part of a policy that can be left out.
type part struct {
	path  []any // keys and indices; of a step none
	step  string
	leaf  bool // no part of it can be left out
	shown bool
	err   error // the reason that it is not known whether a case covers it
}

// unjudged reports whether the steps could not run without a part: it counts neither as covered nor as not covered.
func (p *part) unjudged() bool { return !p.shown && p.err != nil }

// add adds the result of a case to its policy's.
func (c *coverer) add(r Result) {
	s, err := c.settingOf(r.Case)
	if err != nil {
		return
	}
	tree := c.byPolicy[s.policy]
	if tree == nil {
		tree = &policyTree{text: s.policy, file: cmp.Or(c.policyFile(r.Case), "the embedded policy"), results: map[setting][]Result{}}
		raw, err := kyaml.YAMLToJSON([]byte(s.policy))
		if err == nil {
			tree.value, err = requests.DecodeJSON(raw)
		}
		if tree.lines = yamlnode.Parse([]byte(s.policy)); err != nil {
			return
		}
		tree.addParts(c.instances, tree.value, nil, false)
		c.byPolicy[s.policy] = tree
		c.trees = append(c.trees, tree)
	}
	tree.results[s] = append(tree.results[s], r)
}

// remarks are keys of overrides whose values are only shown; unmeasured are sections that cases cannot show.
var (
	remarks    = []string{"ticket", "reason"}
	unmeasured = map[string]string{"limits": "how many reviews are decided in a second: each case is reviewed alone"}
)

// child is a member of a mapping or an element of a list.
type child struct {
	path  []any
	value any
}

// measure finds out which parts a case covers.
func (c *coverer) measure() {
	for _, tree := range c.trees {
		for under, results := range tree.results {
			was := c.under(under)
			tree.addSteps(was)
			for _, p := range tree.parts {
				acts := func(r Result) bool { return r.acts(p.step) }
				if other := under; !p.shown && (p.step == "" || slices.ContainsFunc(results, acts)) {
					other.policy = tree.removed(p)
					var err error
					p.shown, err = c.fails(was, c.under(other), results)
					p.err = cmp.Or(p.err, err)
				}
			}
		}
	}
}

// fails reports whether some of the cases that passed in an instance fails in another one. The error is that of a case that could not run there.
func (c *coverer) fails(was, now *instance, results []Result) (bool, error) {
	if now.err != nil {
		return false, now.err
	}
	var found atomic.Bool
	errs := make([]error, len(results))
	each(len(results), func(i int) {
		if found.Load() {
			return
		}
		again := run{c: results[i].Case}
		if again.report, errs[i] = now.replay(c.ctx, was, results[i]); errs[i] != nil {
			return
		}
		if again.got, errs[i] = actual(again.report); errs[i] == nil && len(again.compare()) > 0 {
			found.Store(true)
		}
	})
	return found.Load(), cmp.Or(errs...)
}
