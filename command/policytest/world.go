package policytest

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster"
	"usher.dev/usher/command/review"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server/suite"
)

// Program is what cases are run with. The fields from Config on are for cases that do not say otherwise.
type Program struct {
	Suites suite.List
	// NotCalled returns why the shipped webhook configurations keep requests from routes, for a directory of manifests that
	// stands for the cluster; see review.Chooser.
	NotCalled func(routes []admit.Route, clusterDir string) (func(admit.Route, *admit.Request) string, error)

	// Command is the command with its flags, which reports name with more of them.
	Command string

	Config, Cluster, Gates string
	SuiteNames             []string
	Now                    time.Time // of cases without at
}

// setting is what a case is run under. Cases with the same setting share a world.
type setting struct {
	policy, cluster, gates, suites string
	at                             time.Time
}

// world is the program under a setting. It remembers nothing of a request, so that the order of cases does not matter.
type world struct {
	routes    []admit.Route
	catalogue review.Catalogue
	kinds     review.Kinds
	notCalled func(admit.Route, *admit.Request) string
	steps     []string // all that there are
	err       error
}

// settingOf returns the setting of a case. The policy is the content of its file.
func (p Program) settingOf(c *Case) (s setting, err error) {
	s = setting{cluster: p.Cluster, gates: p.Gates, suites: strings.Join(p.SuiteNames, ","), at: p.Now}
	file := p.Config
	if c.config != "" {
		file = c.find(c.config)
	}
	if c.cluster != "" {
		s.cluster = filepath.Clean(c.find(c.cluster))
	}
	for _, name := range slices.Sorted(maps.Keys(c.gates)) {
		s.gates += fmt.Sprintf(",%s=%t", name, c.gates[name])
	}
	if len(c.suites) > 0 {
		s.suites = strings.Join(c.suites, ",")
	}
	if !c.at.IsZero() {
		s.at = c.at
	}
	s.policy, err = p.readPolicy(file)
	return s, err
}

// readPolicy returns the content of a policy file, of the embedded policy for "".
func (p Program) readPolicy(file string) (string, error) {
	if file == "" {
		return string(p.Suites.Schema().DefaultYAML()), nil
	}
	opened, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("config: %w", err)
	}
	defer func() { _ = opened.Close() }()
	text, err := io.ReadAll(io.LimitReader(opened, config.MaxFile+1))
	if err == nil && len(text) > config.MaxFile {
		err = fmt.Errorf("%s: larger than %d MiB", file, config.MaxFile>>20)
	}
	if err != nil {
		return "", fmt.Errorf("config: %w", err)
	}
	return string(text), nil
}

// worlds are the worlds that have been made, and what they share.
type worlds struct {
	Program
	schema   config.Schema
	policies map[string]*config.Policy
	problems map[string]error
	made     map[setting]*world
}

func (p Program) newWorlds() *worlds {
	return &worlds{Program: p, schema: p.Suites.Schema(), policies: map[string]*config.Policy{}, problems: map[string]error{},
		made: map[setting]*world{}}
}

// make makes the worlds of settings. Those with the same cluster and gates share an opened cluster.
func (w *worlds) make(all []setting) {
	type place struct{ cluster, gates string }
	var places []place
	for _, s := range all {
		if at := (place{s.cluster, s.gates}); !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	for _, at := range places {
		gates, opened, err := w.open(at.cluster, at.gates)
		for _, s := range all {
			if _, known := w.made[s]; known || s.cluster != at.cluster || s.gates != at.gates {
				continue
			}
			w.made[s] = &world{err: err}
			if err == nil {
				w.made[s] = w.under(s, gates, opened)
			}
		}
	}
}

// open opens the cluster that a directory stands for. Routes made until the next call use it.
func (w *worlds) open(dir, featureGates string) (gates gate.Set, opened *cluster.Cluster, err error) {
	if gates, err = w.Suites.ParseGates(featureGates); err != nil {
		return gates, nil, err
	}
	opened, err = w.Suites.Open("files", gates, nil, func(o cluster.Options) (*cluster.Cluster, error) { return cluster.Files(dir, o) })
	return gates, opened, err
}

// under returns the world of a setting in an opened cluster.
func (w *worlds) under(s setting, gates gate.Set, opened *cluster.Cluster) *world {
	policy, err := w.policy(s.policy)
	if err != nil {
		return &world{err: err}
	}
	chosen, err := w.Suites.Named(strings.Split(s.suites, ","))
	if err != nil {
		return &world{err: fmt.Errorf("suites: %s", strings.TrimPrefix(err.Error(), "--suite "))}
	}
	made := &world{catalogue: review.NewCatalogue(w.Suites.Table(suite.NoPolicy, gates)), kinds: w.Suites.Kinds(), steps: w.schema.Steps}
	made.routes = chosen.Routes(policy, gates, suite.Around(opened, func() time.Time { return s.at }))
	for i := range made.routes {
		made.routes[i].Chain = made.routes[i].Chain.Uncommitted()
	}
	made.notCalled, made.err = w.NotCalled(made.routes, s.cluster)
	return made
}

// policy parses the content of a policy file, each content once.
func (w *worlds) policy(text string) (*config.Policy, error) {
	if policy, known := w.policies[text]; known {
		return policy, w.problems[text]
	}
	policy, problems := config.Parse([]byte(text), w.schema)
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

// choose returns the routes that are called for a review.
func (w *world) choose(path string, body []byte) (review.Choice, error) {
	if path != "" && !slices.ContainsFunc(w.routes, func(r admit.Route) bool { return r.Path == path }) {
		var paths []string
		for _, r := range w.routes {
			paths = append(paths, r.Path)
		}
		if best := nearest.Of(path, paths); best != "" {
			return review.Choice{}, fmt.Errorf("path %s: there is no such route; did you mean %s?", path, best)
		}
		return review.Choice{}, fmt.Errorf("path %s: there is no such route under these gates; `usher steps` lists them", path)
	}
	return review.Chooser{Routes: w.routes, Path: path, NotCalled: w.notCalled}.Choose(body)
}

// covers reports whether a route is for a kind of object.
func (w *world) covers(object *unstructured.Unstructured, r request, path string) bool {
	request := &admit.Request{Kind: metav1.GroupVersionKind(object.GroupVersionKind()), Operation: r.op(), Namespace: object.GetNamespace()}
	return slices.ContainsFunc(w.routes, func(route admit.Route) bool {
		return (path == "" || path == route.Path) && route.Covers(request)
	})
}
