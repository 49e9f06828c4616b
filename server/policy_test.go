package server

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"usher.dev/usher/config"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/ratelimit"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/configtest"
)

// TestUsablePolicy: a policy that depends on namespaces is refused where none can be known.
func TestUsablePolicy(t *testing.T) {
	policy := configtest.Parse(t, "some: [{namespaceSelector: {matchLabels: {a: b}}}]", config.Section[[]config.Selection]{Name: "some"})
	for _, c := range []struct {
		name   string
		from   suite.Source
		policy *config.Policy
		ok     bool
	}{
		{"an API server", suite.Source{From: "api"}, policy, true},
		{"files", suite.Source{Dir: "samples/cluster"}, policy, true},
		{"nothing", suite.Source{}, policy, false},
		{"nothing, and nothing needed", suite.Source{}, &config.Policy{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{Options: Options{Cluster: c.from, Config: "policy.yaml"}}
			err := s.usable(c.policy)
			if (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "some[0].namespaceSelector: usher does not know any Namespace; serve with --cluster=api") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestDroppedSections: a policy that lacks sections that an earlier one had is loaded, the log names them, and a metric counts them until
// they are back. One that lacks a required section is refused, and the policy in force stays.
func TestDroppedSections(t *testing.T) {
	schema := config.Schema{config.Section[[]int]{Name: "a"}, config.Section[[]string]{Name: "b"}, config.Section[[]bool]{Name: "c", Setting: true}}
	var log bytes.Buffer
	o := Options{Log: logrus.New(), Config: "policy.yaml", RequireSections: []string{"b"}}
	o.Log.SetOutput(&log)
	s := newService(o)
	for _, step := range []struct {
		policy  string
		dropped float64
		current float64
		logged  string // "" for no word about sections
	}{
		{"{a: [1], b: [x], c: [true]}", 0, 1, ""},
		{"{a: [1], b: [x]}", 1, 1, "sections=c"},
		{"{b: [x]}", 2, 1, "sections=\"c,a\""},
		{"{b: [z], c: null}", 2, 1, "sections=\"c,a\""},
		{"{a: [1], c: [true]}", 2, 0, "policy policy.yaml: it lacks the sections b, which --require-sections names: restore them"},
		{"{a: [1], b: [x], c: [true]}", 0, 1, ""},
	} {
		log.Reset()
		policy, problems := config.Parse([]byte(step.policy), schema)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		s.use(policy, nil)
		if dropped, current := testutil.ToFloat64(s.policy.dropped), testutil.ToFloat64(s.policy.current); dropped != step.dropped || current != step.current {
			t.Errorf("%s: %v dropped, current %v; want %v, %v", step.policy, dropped, current, step.dropped, step.current)
		}
		if text := log.String(); !strings.Contains(text, step.logged) || step.logged == "" && strings.Contains(text, "sections=") {
			t.Errorf("%s: the log is\n%s\nwant %q", step.policy, text, step.logged)
		}
		if in := s.inForce.Load(); step.current == 1 != (in == policy) {
			t.Errorf("%s: in force: %v", step.policy, in == policy)
		}
	}
}

// TestStepMetrics: the series are the steps of the policy in force, with its modes.
func TestStepMetrics(t *testing.T) {
	o := Options{Log: logrus.New(), Suites: suite.List{podSuite()}}
	o.Log.SetOutput(io.Discard)
	s := newService(o)
	s.instance.Suites = o.Suites
	if n, err := testutil.GatherAndCount(s.metrics, "usher_step_info"); n != 0 || err != nil {
		t.Errorf("%d series before there is a policy: %v", n, err)
	}
	for _, mode := range []string{"enforce", "warn", "off"} {
		s.use(configtest.Parse(t, "modes: {denied-names: '"+mode+"'}", s.Suites.Schema()...), nil)
		found := map[string]string{}
		families, err := s.metrics.Gather()
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if l := m.GetLabel(); f.GetName() == "usher_step_info" {
					found[l[1].GetValue()+" "+l[2].GetValue()] = l[0].GetValue()
				}
			}
		}
		if err != nil || found["/validate-pods denied-names"] != mode || found["/validate-pods image-rules"] != "enforce" {
			t.Errorf("mode %s: %v %v", mode, found, err)
		}
	}
}

// TestForgersAreWarnedOf: who does not check callers, and refuses reviews beyond limits, is told what forged reviews do.
func TestForgersAreWarnedOf(t *testing.T) {
	for _, c := range []struct {
		auth, mode string
		warned     bool
	}{
		{"", "enforce", true}, {callers.Off, "enforce", true}, {callers.Log, "enforce", true}, {callers.Enforce, "enforce", false},
		{callers.Off, "log", false}, {callers.Enforce, "log", false},
	} {
		var log bytes.Buffer
		o := Options{Log: logrus.New(), Callers: callers.Options{Auth: c.auth}}
		o.Log.SetOutput(&log)
		policy := configtest.Parse(t, "limits: [{name: all, by: route, perSecond: 1, burst: 1, mode: log}, "+
			"{name: users, by: user, perSecond: 1, burst: 1, mode: "+c.mode+"}]", ratelimit.Section(nil))
		newService(o).use(policy, nil)
		if warned := strings.Contains(log.String(), "with forged reviews"); warned != c.warned {
			t.Errorf("--auth=%s, mode %s: warned %v\n%s", c.auth, c.mode, warned, log.String())
		}
	}
}
