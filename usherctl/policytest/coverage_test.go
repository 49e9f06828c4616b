package policytest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/validators"
)

// coveredPolicy has a part that nothing sees, and a section without which an override would be forbidden.
const coveredPolicy = `names: {denied: [bad, worse]}
labelRules: [{name: team, label: team, required: true, pattern: "[a-z]+"}]
modes: {image-rules: warn}
overrides: [{name: o, steps: [image-rules], selector: {matchLabels: {a: b}}, mode: warn, reason: why}]
`

// work counts the runs of steps: for the API server, and without it.
type work struct{ asked, alone atomic.Int64 }

func (w *work) suite() suite.Suite {
	counted := func(p *config.Policy, q admit.Questions) []admit.Validator[admit.Pod] {
		all := validators.Pods(p, q)
		for i, run := range all {
			all[i].Run = func(ctx context.Context, r *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
				if _, asked := endpoints.RequestInfoFrom(ctx); asked {
					w.asked.Add(1)
				} else {
					w.alone.Add(1)
				}
				return run.Run(ctx, r, pod)
			}
		}
		return all
	}
	return suite.Suite{Name: "core", Collections: func(suite.Options) []cluster.Declared {
		return []cluster.Declared{cluster.Namespaces, cluster.LimitRanges}
	},
		Routes: func(e suite.Env) []admit.Route {
			return []admit.Route{{Path: "/validate-pods", Suite: "core", For: admit.Pods(admissionv1.Create),
				Call:  admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 10},
				Chain: suite.Validate(e, admit.AsPod, counted)}}
		}}
}

// TestCoverage: the API server judges nothing again, and steps run at most once for each part and each case that passes. What cannot be judged is said: a
// case that does not pass, a part that is needed, and parts and steps without which a recorded case cannot be run again.
func TestCoverage(t *testing.T) {
	var cases []string
	for _, c := range []string{"web, labels: {team: a}}=allowed", "web2, labels: {team: b}}=allowed", "bad, labels: {team: a}}=denied", "none}=denied", "digits, labels: {team: a1}}=denied", "wrong}=allowed"} {
		pod, verdict, _ := strings.Cut(c, "=")
		cases = append(cases, "manifest: {apiVersion: v1, kind: Pod, metadata: {name: "+pod+", spec: {containers: [{name: app, image: nginx}]}}\nexpect: {verdict: "+verdict+"}\n")
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(coveredPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	found, problems := Read("case.yaml", []byte(strings.Join(cases, "---\n")))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var done work
	p := Program{Suites: suite.List{done.suite()}, SuiteNames: []string{"core"}, Config: file}
	results := p.Run(t.Context(), found, func(int) {})
	plain := done.asked.Load()
	c := p.Cover(t.Context(), results)
	const parts, passing, steps = 15, 5, 2 // of the policy: 13 and two steps
	if plain == 0 || done.asked.Load() != plain || done.alone.Load() > parts*passing*steps {
		t.Errorf("%d runs of steps for the API server without coverage, %d with it, and %d more", plain, done.asked.Load(), done.alone.Load())
	}
	if missing := strings.Join(c.Policies[0].Missing, "; "); !strings.Contains(missing, "names.denied[worse]") || strings.Contains(missing, "pattern") {
		t.Errorf("missing: %s", missing)
	}
	for _, text := range []string{"1 of 6 cases, which do not pass", file + ":3  modes, without which the policy is invalid"} {
		if !slices.Contains(c.NotMeasured, text) {
			t.Errorf("%q is not among %q", text, c.NotMeasured)
		}
	}
	results = results[4:5] // without its call, and with an object that cannot be sent
	results[0].Report.Calls[0].Review, results[0].Report.After = nil, []byte("{")
	c = p.Cover(t.Context(), results)
	for _, text := range []string{"step label-rules under " + file + ": without it ", file + ":2  labelRules: without it "} {
		if !slices.ContainsFunc(c.NotMeasured, func(said string) bool { return strings.HasPrefix(said, text) }) {
			t.Errorf("%q begins none of %q", text, c.NotMeasured)
		}
	}
	if c.Policies[0].All != 0 || slices.Contains(c.Steps.Missing, "label-rules") {
		t.Errorf("what is not judged counts: %+v", c)
	}
}
