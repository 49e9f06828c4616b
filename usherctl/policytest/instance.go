package policytest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
)

// Program configures runs of cases. The fields from Config on are defaults for cases.
type Program struct {
	Suites suite.List
	// Command is the command with its flags, which reports name with more of them.
	Command string

	// Warn, if set, is called for each valid policy of a run, with its file.
	Warn func(file string, policy *config.Policy)

	Config, Cluster, Answers, Gates string
	SuiteNames                      []string
	Now                             time.Time // of cases without at
}

// setting holds the configuration of a case. Cases with the same setting share an instance.
type setting struct {
	place
	policy, suites, answers string
	at                      time.Time
}

// place is the part of a setting that must be equal to share an opened cluster.
type place struct{ cluster, gates string }

// instance is the program under a setting. It remembers nothing of a request, so that the order of cases does not matter.
type instance struct {
	opened
	routes    []admit.Route
	notCalled func(admit.Route, *admit.Request) string
	answers   []review.GivenAnswer
	pool      *review.Pool
	err       error
}

// opened is an instance with a cluster, and what is asked of that.
type opened struct {
	suite.Instance
	catalogue requests.Catalogue
	kinds     review.Kinds
	steps     []string                     // all that there are
	objects   []*unstructured.Unstructured // of the cluster
	missing   *questions
	err       error
}

// questions is what steps have asked for that is not in an opened cluster. One case at a time asks.
type questions struct {
	sync.Mutex
	review.MissingRecorder
}

// instances are the instances that have been made, and what they share.
type instances struct {
	Program
	ctx      context.Context
	schema   config.Schema
	policies map[string]*config.Policy
	problems map[string]error
	opened   map[place]opened
	pool     *review.Pool
	judge    *engine.Engine // of what policies add to pods; nil until one adds something
	// shipped returns why the shipped webhook configurations keep requests from routes, see review.Shipped.
	shipped func(routes []admit.Route, clusterDir string) (func(admit.Route, *admit.Request) string, error)
}

func (p Program) newInstances(ctx context.Context) *instances {
	return &instances{Program: p, ctx: ctx, schema: p.Suites.Schema(), policies: map[string]*config.Policy{}, problems: map[string]error{},
		opened: map[place]opened{}, pool: &review.Pool{}, shipped: review.Shipped()}
}

// settingOf returns the setting of a case. The policy is the content of its file.
func (w *instances) settingOf(c *Case) (s setting, err error) {
	s = setting{place: place{w.Cluster, w.Gates}, suites: strings.Join(w.SuiteNames, ","), answers: w.Answers, at: w.Now}
	file := w.policyFile(c)
	if c.Answers != "" {
		s.answers = c.find(c.Answers)
	}
	if c.Cluster != "" {
		s.cluster = filepath.Clean(c.find(c.Cluster))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Gates)) {
		s.gates += fmt.Sprintf(",%s=%t", name, c.Gates[name])
	}
	if len(c.Suites) > 0 {
		s.suites = strings.Join(c.Suites, ",")
	}
	if !c.at.IsZero() {
		s.at = c.at
	}
	text, err := config.Content(file, w.schema)
	if err != nil {
		return s, fmt.Errorf("config: %w", err)
	}
	s.policy = string(text)
	if _, known := w.policies[s.policy]; !known && w.Warn != nil {
		if policy, err := w.policy(s.policy); err == nil {
			w.Warn(cmp.Or(file, "embedded default"), policy)
		}
	}
	return s, nil
}

// policyFile returns the policy file of a case; "" for the embedded policy.
func (w *instances) policyFile(c *Case) string {
	if c.Config != "" {
		return c.find(c.Config)
	}
	return w.Config
}

// open returns the instance with a cluster that a directory stands for, without a policy. Each is opened once.
func (w *instances) open(at place) opened {
	o, known := w.opened[at]
	if !known {
		o.err = w.read(at, &o)
		w.opened[at] = o
	}
	return o
}

func (w *instances) read(at place, o *opened) error {
	gates, err := w.Suites.ParseGates(at.gates)
	if err != nil {
		return err
	}
	o.missing = &questions{MissingRecorder: review.MissingRecorder{Remedy: ", which is in no file of the case's cluster: cluster names a directory " +
		"with manifests"}}
	o.catalogue, o.kinds = requests.NewCatalogue(w.Suites.Table(suite.NoPolicy, gates)), requests.Types(w.Suites)
	o.steps, _ = w.Suites.Steps()
	o.Instance, err = suite.Load(suite.Setup{Suites: w.Suites, Gates: gates, Cluster: suite.Source{Dir: at.cluster, Missing: o.missing.Missing}})
	if err != nil || at.cluster == "" {
		return err
	}
	found, err := manifest.ReadDir(at.cluster)
	if err != nil {
		return err
	}
	o.objects = review.Objects(found)
	if err := requests.SlipsIn(found, w.Suites).Err(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// under returns the instance of a setting.
func (w *instances) under(s setting) *instance {
	made := &instance{opened: w.open(s.place), pool: w.pool}
	if made.err = made.opened.err; made.err != nil {
		return made
	}
	made.Now = func() time.Time { return s.at }
	if made.Policy, made.err = w.policy(s.policy); made.err != nil {
		return made
	}
	var err error
	if made.Suites, err = w.Suites.Named(strings.Split(s.suites, ",")); err != nil {
		made.err = fmt.Errorf("suites: %s", strings.TrimPrefix(err.Error(), "--suite "))
		return made
	}
	if made.answers, err = review.ReadAnswers(s.answers); err != nil {
		made.err = fmt.Errorf("answers: %w", err)
		return made
	}
	made.routes = made.Routes()
	for i := range made.routes {
		made.routes[i].Chain = made.routes[i].Chain.Uncommitted()
	}
	made.notCalled, made.err = w.shipped(made.routes, s.cluster)
	return made
}

// policy parses the content of a policy file, each content once.
func (w *instances) policy(text string) (*config.Policy, error) {
	if policy, known := w.policies[text]; known {
		return policy, w.problems[text]
	}
	policy, problems := config.Parse([]byte(text), w.schema)
	if len(problems) == 0 && len(policy.Trials()) > 0 {
		problems = w.trials(policy)
	}
	w.policies[text] = policy
	if len(problems) > 0 {
		var lines []string
		for _, problem := range problems {
			lines = append(lines, problem.Error())
		}
		w.problems[text] = fmt.Errorf("config: the policy is invalid:\n  %s", strings.Join(lines, "\n  "))
	}
	return policy, w.problems[text]
}

// trials returns why an API server would refuse what a policy adds to pods.
func (w *instances) trials(policy *config.Policy) []error {
	if w.judge == nil {
		var err error
		if w.judge, err = engine.New(w.ctx, engine.Cluster{}); err != nil {
			return []error{err}
		}
	}
	return policyfile.ProblemsBy(w.ctx, w.judge, policy)
}

// close closes the API servers.
func (w *instances) close() {
	w.pool.Close()
	if w.judge != nil {
		w.judge.Close()
	}
}

// inCase names a setting of the request as a case has it.
func inCase(name, value string) string {
	keys := map[string]string{"operation": "request.operation", "subresource": "request.subresource", "as": "request.user"}
	if name = cmp.Or(keys[name], name); value == "" {
		return name
	}
	if name == "feature-gates" {
		return "gates: {" + strings.NewReplacer("=", ": ", ",", ", ").Replace(value) + "}"
	}
	return name + ": " + value
}

// chooser returns how the routes of a case are chosen.
func (w *instance) chooser(path string) review.Chooser {
	return review.Chooser{Routes: w.routes, Path: path, NotCalled: w.notCalled, Answers: w.answers, Setting: inCase,
		SwitchesOn: w.SwitchesOn}
}

// review lets the API server judge what is sent, with another body. An AdmissionReview goes to the routes that it would be sent to. Others'
// webhooks change nothing that is sent again: of them, only refusals are given.
func (w *instance) review(ctx context.Context, s sent, path string, body []byte, again bool) (report.Report, error) {
	chooser := w.chooser(path)
	if again {
		chooser.Answers = review.WithoutPatches(chooser.Answers)
	}
	var err error
	if !s.IsReview() {
		in := review.Cluster{Objects: w.objects, Routes: w.routes, Path: path}
		if chooser.In, err = w.pool.Open(ctx, in, []requests.Document{s.Document}, s.options); err != nil {
			return report.Report{}, err
		}
	}
	choice, err := chooser.Choose(body)
	if err != nil {
		return report.Report{}, err
	}
	defer w.asking(&choice)()
	choice.Recorded = true
	return review.Run(ctx, s.Document, body, choice, w.kinds), nil
}

// asking makes a choice note what is not known of the cluster. One case at a time asks, until the returned function is called.
func (w *instance) asking(c *review.Choice) (end func()) {
	w.missing.Lock()
	w.missing.TakeUnknown() // what was asked before
	c.TakeUnknown = w.missing.TakeUnknown
	return w.missing.Unlock
}

// replay returns what becomes of a case in an instance, by the requests that were recorded in another one: only steps run.
func (w *instance) replay(ctx context.Context, was *instance, r Result) (report.Report, error) {
	now, err := w.chooser(r.Case.Path).Choose(r.sent.body)
	if err != nil {
		return report.Report{}, err
	}
	before, err := was.chooser(r.Case.Path).Choose(r.sent.body)
	if err != nil {
		return report.Report{}, err
	}
	defer w.asking(&now)()
	if r.sent.IsReview() {
		return review.Run(ctx, r.sent.Document, r.sent.body, now, w.kinds), nil
	}
	return review.Replay(ctx, r.sent.body, r.Report, before, now)
}

// covers reports whether a route is for a kind of object.
func (w *instance) covers(object *unstructured.Unstructured, r request, path string) bool {
	request := &admit.Request{Kind: metav1.GroupVersionKind(object.GroupVersionKind()), Operation: r.op(), Namespace: object.GetNamespace()}
	return slices.ContainsFunc(w.routes, func(route admit.Route) bool {
		return (path == "" || path == route.Path) && (path == route.Path && route.Covers(request) || route.JudgesItself(request))
	})
}
