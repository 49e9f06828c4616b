package policytest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	kyaml "sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/yamlnode"
)

// Cover returns what results show of the steps, the policies and the refusals. A part of a policy is shown if some case would
// have another result without it, so all cases are run again for each part until one differs.
func (p Program) Cover(ctx context.Context, results []Result) Coverage {
	w := p.newInstances(ctx)
	defer w.pool.Close()
	coverer := coverer{instances: w, byPolicy: map[string]*policyTree{}}
	broken := 0
	for _, r := range results {
		if r.got != nil {
			coverer.add(r)
		} else {
			broken++
		}
	}
	w.make(coverer.settings)
	c := Coverage{Policies: []PolicyShare{}, Steps: stepsOf(results, w.made), Refusals: refusalsOf(results, w.made)}
	coverer.measure()
	for _, tree := range coverer.trees {
		c.Policies = append(c.Policies, tree.share())
		c.NotMeasured = append(c.NotMeasured, tree.notMeasured()...)
	}
	if broken > 0 {
		c.NotMeasured = append(c.NotMeasured, fmt.Sprintf("%d of %d cases, which could not be run", broken, len(results)))
	}
	return c
}

// coverer measures the coverage of policies.
type coverer struct {
	*instances
	settings []setting
	trees    []*policyTree
	byPolicy map[string]*policyTree // by their text
}

// part is a part of a policy that can be left out.
type part struct {
	path  []any // keys and indices
	leaf  bool  // no part of it can be left out
	shown bool
}

// add adds the result of a case to its policy's.
func (c *coverer) add(r Result) {
	s, err := c.settingOf(r.Case)
	if err != nil {
		return
	}
	if !slices.Contains(c.settings, s) {
		c.settings = append(c.settings, s)
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
		tree.addParts(c.instances, tree.value, nil)
		c.byPolicy[s.policy] = tree
		c.trees = append(c.trees, tree)
	}
	tree.results[s] = append(tree.results[s], r)
}

// remarks are keys of overrides whose values are only shown; texts are keys of refusal texts; unmeasured are sections that
// cases cannot show.
var (
	remarks    = []string{"ticket", "reason"}
	texts      = []string{"message", "messageExpression"}
	unmeasured = map[string]string{"limits": "how many reviews are decided in a second: each case is reviewed alone"}
)

// child is a member of a mapping or an element of a list.
type child struct {
	path  []any
	value any
}

// measure finds out which parts a case shows. Clusters are opened once for all policies.
func (c *coverer) measure() {
	c.eachPlace(c.settings, func(at place, opened opened, err error) {
		if err != nil {
			return // the results say so
		}
		for _, tree := range c.trees {
			for _, p := range tree.parts {
				for under, results := range tree.results {
					if p.shown || under.place != at {
						continue
					}
					other := under
					other.policy = tree.without(p.path)
					p.shown = c.differs(c.under(other, opened), results, p.isText())
				}
			}
		}
	})
}

// isText reports whether a part is a text of refusals.
func (p *part) isText() bool {
	key, _ := p.path[len(p.path)-1].(string)
	return slices.Contains(texts, key)
}

// differs reports whether some case has another result in an instance, in its substance or also in its texts.
func (c *coverer) differs(w *instance, results []Result, withTexts bool) bool {
	if w.err != nil {
		return false
	}
	var found atomic.Bool
	each(len(results), func(i int) {
		if found.Load() {
			return
		}
		r, err := newRun(c.ctx, w, results[i].Case)
		if err != nil || !equal(visible(r.got, withTexts), visible(results[i].got, withTexts)) {
			found.Store(true)
		}
	})
	return found.Load()
}

// visible returns what can be expected of a result, without steps that did nothing. Without texts, it has no messages: a rule
// that is quoted in the refusal of another is not shown by it.
func visible(got map[string]any, withTexts bool) map[string]any {
	only := maps.Clone(got)
	steps, _ := got["steps"].(map[string]any)
	only["steps"] = sortedSteps(nil, steps)
	if withTexts {
		return only
	}
	warnings, _ := got["warnings"].([]any)
	only["message"], only["warnings"] = "", json.Number(fmt.Sprint(len(warnings)))
	var causes []any
	list, _ := got["causes"].([]any)
	for _, each := range list {
		cause, _ := each.(map[string]any)
		causes = append(causes, []any{cause["reason"], cause["field"]})
	}
	only["causes"] = causes
	return only
}
