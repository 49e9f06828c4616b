package playground

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
)

// maxInstances is the number of instances kept: a user changes the object more often than the policy and the cluster.
const maxInstances = 8

// instance is usher with the cluster, the policy and the gates of an input.
type instance struct {
	suite.Instance
	routes  []admit.Route
	objects []*unstructured.Unstructured // of the cluster, and those of the input that count as stored
	pool    *review.Pool
	answers []review.GivenAnswer
	missing review.MissingRecorder // what steps have asked for that is not known
	slips   []Problem              // in the policy and the cluster, which are used all the same
}

// instances keeps the instances that were used last.
type instances struct {
	suites  suite.List
	answers []review.GivenAnswer
	pool    review.Pool
	mu      sync.Mutex // one person types
	last    []keyed
}

type keyed struct {
	key      [sha256.Size]byte
	instance *instance
}

// facts returns what the page says about usher.
func (w *instances) facts() facts {
	suites := w.suites
	f := facts{Policy: string(suites.Schema().DefaultYAML())}
	for _, g := range suites.Gates() {
		f.Gates = append(f.Gates, fmt.Sprintf("%s=%t", g.Name, !g.Default))
	}
	f.Suites = suites.Names()
	for _, r := range suites.Table(suite.NoPolicy, gate.Defaults(suites.Gates())) {
		f.Paths = append(f.Paths, r.Path)
	}
	return f
}

// of returns the instance of an input, or what is wrong with its policy, gates or cluster.
func (w *instances) of(ctx context.Context, in Input) (*instance, []Problem) {
	given := in.stored()
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", in.Policy, in.Cluster, in.Gates, given))
	if i := slices.IndexFunc(w.last, func(k keyed) bool { return k.key == key }); i >= 0 {
		found := w.last[i]
		w.last = append(slices.Delete(w.last, i, i+1), found)
		return found.instance, nil
	}
	made, problems := w.open(ctx, in, given)
	if len(problems) > 0 {
		return nil, problems
	}
	if len(w.last) == maxInstances {
		w.last = slices.Delete(w.last, 0, 1)
	}
	w.last = append(w.last, keyed{key, made})
	return made, nil
}

func (w *instances) open(ctx context.Context, in Input, given []manifest.Object) (*instance, []Problem) {
	suites := w.suites
	gates, err := suites.ParseGates(strings.TrimSpace(in.Gates))
	if err != nil {
		return nil, []Problem{{Tab: "gates", Text: strings.TrimPrefix(err.Error(), "--feature-gates: ")}}
	}
	text := []byte(in.Policy)
	if strings.TrimSpace(in.Policy) == "" {
		text = suites.Schema().DefaultYAML()
	}
	policy, wrong := policyfile.Parse(ctx, text, suites.Schema())
	if len(wrong) > 0 {
		return nil, policyProblems(in.Policy, wrong)
	}
	made := &instance{missing: review.MissingRecorder{Remedy: ", which stands neither beside the object nor under Cluster; add it"}}
	from := suite.Source{Manifests: map[string][]byte{"cluster": []byte(in.Cluster)}, Given: given, Missing: made.missing.Missing}
	if made.Instance, err = suite.Load(suite.Setup{Suites: suites, Policy: policy, Gates: gates, Cluster: from}); err != nil {
		return nil, clusterProblems(err)
	}
	made.routes, made.pool, made.answers = made.Routes(), &w.pool, w.answers
	stored, _ := manifest.Read("cluster", []byte(in.Cluster)) // what cannot be read is a problem of Load
	made.slips = slipsOf(in, policy, requests.SlipsIn(stored, suites))
	made.objects = review.Objects(append(stored, given...))
	return made, nil
}

// run decides about an input.
func (w *instances) run(ctx context.Context, in Input) Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return Answer{} // the page has gone while another input was decided about
	}
	began := time.Now()
	instance, problems := w.of(ctx, in)
	if len(problems) > 0 {
		return Answer{Problems: problems}
	}
	a := instance.run(ctx, in)
	a.Micros = time.Since(began).Microseconds()
	return a
}

// run reviews the objects of an input.
func (w *instance) run(ctx context.Context, in Input) (a Answer) {
	options, err := in.options()
	if err != nil {
		return Answer{Problems: []Problem{{Tab: "old", Text: err.Error()}}}
	}
	catalogue := requests.NewCatalogue(w.Suites.Table(suite.NoPolicy, w.Gates))
	documents := requests.Read("-", strings.NewReader(in.Object))
	documents = w.withPods(documents, options)
	chooser := review.Chooser{Routes: review.Explained(w.of(in.Path)), Path: onlyPath(in.Path), Answers: w.answers, Setting: onPage}
	cluster := review.Cluster{Objects: w.objects, Routes: chooser.Routes, Path: chooser.Path, All: true}
	if chooser.In, err = w.pool.Open(ctx, cluster, documents, options); err != nil {
		return Answer{Problems: clusterProblems(err)}
	}
	a.Problems = slices.Clone(w.slips)
	ledger := review.NewLedger()
	for _, d := range documents {
		if tooDeep(d.JSON) {
			a.Problems = append(a.Problems, Problem{Tab: "object", Line: d.Line,
				Text: fmt.Sprintf("it has more than %d lists and mappings in one another", maxDepth)})
			continue
		}
		body, err := requests.AsReview(d, options, catalogue)
		if err != nil {
			a.Problems = append(a.Problems, Problem{Tab: "object", Line: cmp.Or(lineIn(err.Error()), d.Line), Text: err.Error()})
			continue
		}
		choice, err := chooser.Choose(body)
		if err != nil {
			a.Problems = append(a.Problems, Problem{Tab: "object", Text: err.Error()})
			continue
		}
		w.missing.TakeUnknown() // what was asked before
		choice.Documents, choice.TakeUnknown, choice.Ledger = true, w.missing.TakeUnknown, ledger
		a.Objects = append(a.Objects, objectOf(d, in.Object, body, review.Run(ctx, d, body, choice, requests.Types(w.Suites))))
	}
	slices.SortStableFunc(a.Objects, func(x, y Object) int {
		return slices.Index(worstFirst, x.Report.Verdict) - slices.Index(worstFirst, y.Report.Verdict)
	})
	return a
}

// worstFirst is the order in which objects are shown.
var worstFirst = []report.Verdict{report.Denied, report.Invalid, report.Errored, report.NotJudged, report.Allowed, report.Skipped}

// of returns the routes of a suite, or all.
func (w *instance) of(suiteOrPath string) []admit.Route {
	if suiteOrPath == "" || strings.HasPrefix(suiteOrPath, "/") {
		return w.routes
	}
	return slices.DeleteFunc(slices.Clone(w.routes), func(r admit.Route) bool { return r.Suite != suiteOrPath })
}

// onlyPath returns the only path to call, or "".
func onlyPath(suiteOrPath string) string {
	if strings.HasPrefix(suiteOrPath, "/") {
		return suiteOrPath
	}
	return ""
}
