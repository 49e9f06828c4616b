package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/test/seed"
)

// parse reads profiles from YAML documents.
func parse(t testing.TB, documents ...string) (list []api.ClusterColocationProfile) {
	t.Helper()
	for _, text := range documents {
		var p api.ClusterColocationProfile
		if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list = append(list, p)
	}
	return list
}

func compiled(t testing.TB, documents ...string) *Set {
	t.Helper()
	set, problems := Compile(parse(t, documents...))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return set
}

// TestCompileProblems: specs and their problems; none for valid ones.
func TestCompileProblems(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: "",
		`{selector: {}, namespaceSelector: {matchLabels: {}}, patch: null, probability: "0%"}`: "",
		`{probability: 0}`:              "",
		`{probability: 100}`:            "",
		`{probability: "100%"}`:         "",
		`{probability: "007%"}`:         "",
		`{probability: 101}`:            `spec.probability: Invalid value: "101": must be a whole percentage`,
		`{probability: -1}`:             `spec.probability: Invalid value: "-1": must be`,
		`{probability: "50"}`:           `spec.probability: Invalid value: "50": must be`,
		`{probability: "-5%"}`:          `"-5%": must be`,
		`{probability: "+5%"}`:          `"+5%": must be`,
		`{probability: "5.5%"}`:         `"5.5%": must be`,
		`{probability: "%"}`:            `"%": must be`,
		`{probability: ""}`:             `"": must be`,
		`{probability: "101%"}`:         `"101%": must be`,
		`{probability: "99999999999%"}`: `must be`,
		`{selector: {matchExpressions: [{key: a, operator: in, values: [b]}]}}`:     `spec.selector.matchExpressions[0].operator: Invalid value: "in": must be In, NotIn, Exists or DoesNotExist`,
		`{selector: {matchExpressions: [{key: a, operator: In}]}}`:                  `spec.selector.matchExpressions[0].values: Required value`,
		`{selector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}`: `spec.selector.matchExpressions[0].values: Forbidden`,
		`{namespaceSelector: {matchExpressions: [{key: a b, operator: Exists}]}}`:   `spec.namespaceSelector.matchExpressions[0].key: Invalid value: "a b"`,
		`{selector: {matchLabels: {a: b c}}}`:                                       `spec.selector.matchLabels[a]: Invalid value: "b c"`,
		`{selector: {matchLabels: {a b: c}}}`:                                       `spec.selector.matchLabels[a b]: Invalid value: "a b"`,
		`{patch: []}`:                                                               `spec.patch: Invalid value: is an array, not an object; it must be a strategic merge patch`,
		`{patch: text}`:                                                             `spec.patch: Invalid value: is a string`,
		`{patch: {metadata: {labels: {a: 1}}}}`:                                     `spec.patch: Invalid value: has a number at metadata.labels where the type has something else`,
		`{patch: {spec: {containers: [{image: x}]}}}`:                               `spec.patch: Invalid value`,
		`{patch: {spec: {containers: [{name: c}]}, future: {a: [1]}}}`:              "",
	} {
		set, problems := Compile(parse(t, "metadata: {name: p}\nspec: "+spec))
		said := ""
		for _, p := range problems {
			said += p.Error()
		}
		if want == "" && said != "" || !strings.Contains(said, want) || want != "" && !strings.HasPrefix(said, "profile p: spec.") {
			t.Errorf("%s: %q, want %q", spec, said, want)
		}
		if m, err := set.Match(Subject{}); err != nil || want != "" && len(m.Applied) > 0 {
			t.Errorf("%s: a broken profile matches", spec)
		}
	}
}

func TestCompileTwoOfOneName(t *testing.T) {
	set, problems := Compile(parse(t, "metadata: {name: b}", "metadata: {name: a}", "metadata: {name: b}"))
	if len(problems) != 1 || problems[0].Error() != `profile b: metadata.name: Duplicate value: "b"` || len(set.Profiles()) != 3 {
		t.Error(problems)
	}
}

func TestNoSet(t *testing.T) {
	var none *Set
	m, err := none.Match(Subject{})
	explained, wrong := none.Explain(Subject{})
	if err != nil || wrong != nil || len(m.Applied)+len(explained)+len(none.Hazards()) > 0 {
		t.Error(m, explained, err, wrong)
	}
}

func TestCompilePrepares(t *testing.T) {
	set := compiled(t, "metadata: {name: b}\nspec: {qosClass: BE}", "metadata: {name: B}\nspec: {labels: {b: '2', a: '1'}}",
		"metadata: {name: a, annotations: {config.koordinator.sh/skip-update-resources: ''}}\nspec: {qosClass: BE}")
	var got []string
	for _, p := range set.Profiles() {
		got = append(got, fmt.Sprint(p.Name, p.Labels, p.RequestsClass))
	}
	if fmt.Sprint(got) != "[B[{a 1} {b 2}] false a[] false b[] true]" {
		t.Error(got)
	}
}

// TestMatch: selectors, namespaces, and subjects without one.
func TestMatch(t *testing.T) {
	set := compiled(t,
		"metadata: {name: all}",
		"metadata: {name: empty}\nspec: {selector: {}, namespaceSelector: {}}",
		"metadata: {name: eq}\nspec: {selector: {matchLabels: {a: '1'}}}",
		"metadata: {name: eq-ns}\nspec: {selector: {matchLabels: {a: '1'}}, namespaceSelector: {matchLabels: {team: x}}}",
		"metadata: {name: exists}\nspec: {selector: {matchExpressions: [{key: a, operator: Exists}]}}",
		"metadata: {name: in}\nspec: {selector: {matchExpressions: [{key: a, operator: In, values: ['1', '2']}, {key: c, operator: NotIn, values: [z]}]}}",
		"metadata: {name: not}\nspec: {selector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}",
		"metadata: {name: not-ns}\nspec: {namespaceSelector: {matchExpressions: [{key: team, operator: NotIn, values: [x]}]}}",
		"metadata: {name: ns}\nspec: {namespaceSelector: {matchLabels: {team: x}}}",
	)
	cases := []struct {
		labels map[string]string
		spaces []map[string]string
		want   string
	}{
		{nil, nil, "all empty not"},
		{map[string]string{"a": "1"}, nil, "all empty eq exists in"},
		{map[string]string{"a": "1"}, []map[string]string{{"team": "x"}}, "all empty eq eq-ns exists in ns"},
		{map[string]string{"a": "2", "c": "z"}, []map[string]string{{"team": "y"}}, "all empty exists not-ns"},
		{map[string]string{"a": "2"}, []map[string]string{{}}, "all empty exists in not-ns"},
		{map[string]string{"b": "1"}, []map[string]string{{"team": "x"}, {"team": "x", "more": "1"}}, "all empty not ns"},
		{map[string]string{"b": "1"}, []map[string]string{{"team": "x"}, {"team": "y"}}, "all empty not"},
	}
	for _, c := range cases {
		subject := Subject{Labels: c.labels, Namespaces: func() (all []labels.Set, _ error) {
			for _, space := range c.spaces {
				all = append(all, space)
			}
			return all, nil
		}}
		m, err := set.Match(subject)
		if got := names(m.Applied); err != nil || got != c.want {
			t.Errorf("%v in %v: %s, %v, want %s", c.labels, c.spaces, got, err, c.want)
		}
		checkExplained(t, set, subject, m)
	}
}

func names(profiles []*Profile) string {
	var list []string
	for _, p := range profiles {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

// checkExplained checks that Explain and Match agree.
func checkExplained(t *testing.T, set *Set, subject Subject, m Matches) {
	t.Helper()
	explained, err := set.Explain(subject)
	var applied, broken []string
	for i, e := range explained {
		if e.Profile != set.profiles[i].Name || e.Detail == "" {
			t.Errorf("explanation %d: %v", i, e)
		}
		switch e.Outcome {
		case Applied:
			applied = append(applied, e.Profile)
		case Broken:
			broken = append(broken, e.Profile)
		}
	}
	if err != nil || strings.Join(applied, " ") != names(m.Applied) || strings.Join(broken, " ") != names(m.Broken) {
		t.Errorf("explained %v (%v), matched %s, broken %s", explained, err, names(m.Applied), names(m.Broken))
	}
}

func TestExplain(t *testing.T) {
	list := parse(t,
		"metadata: {name: a}\nspec: {selector: {matchLabels: {x: z}}}",
		"metadata: {name: b}\nspec: {namespaceSelector: {matchLabels: {team: x}}}",
		"metadata: {name: c}\nspec: {probability: 0}",
		"metadata: {name: d}\nspec: {probability: 101}",
		"metadata: {name: e}\nspec: {probability: '99%'}",
		"metadata: {name: f}",
	)
	set, _ := Compile(list)
	w := admit.Origin{Namespace: "ns", Kind: "Job", Name: "j"}
	space := labels.Set{"team": "z"}
	got := explain(t, set, Subject{Workload: func() admit.Origin { return w }, Namespaces: func() ([]labels.Set, error) { return []labels.Set{space}, nil }})
	want := fmt.Sprintf(`a selector: spec.selector wants x=z
b namespace: spec.namespaceSelector wants team=x
c probability: Job ns/j draws %d, which is not below spec.probability 0%%
d broken: spec.probability: Invalid value: "101": must be a whole percentage, 0 to 100 or "0%%" to "100%%"; leave it out for all
e applied: Job ns/j draws %d, which is below spec.probability 99%%
f applied: all parts match
`, w.Draw("c"), w.Draw("e"))
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := explain(t, set, Subject{}); !strings.Contains(got, "b namespace-absent: spec.namespaceSelector wants team=x, and the namespace is not known") {
		t.Error(got)
	}
	down := errors.New("down")
	if _, err := set.Explain(Subject{Namespaces: func() ([]labels.Set, error) { return nil, down }}); !errors.Is(err, down) {
		t.Error(err)
	}
	if _, err := set.Match(Subject{Namespaces: func() ([]labels.Set, error) { return nil, down }}); !errors.Is(err, down) {
		t.Error(err)
	}
}

func explain(t *testing.T, set *Set, subject Subject) (text string) {
	t.Helper()
	all, err := set.Explain(subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		text += fmt.Sprintf("%s %s: %s\n", e.Profile, e.Outcome, e.Detail)
	}
	return text
}

// TestHazards: which pairs are not idempotent.
func TestHazards(t *testing.T) {
	for text, want := range map[string]string{
		"{labels: {a: b}}": "",
		"{selector: {matchLabels: {a: b}}, labels: {a: b}}":                                  "",
		"{selector: {matchLabels: {a: b}}, labels: {a: c}}":                                  "profile p selects on label a, which it writes itself: it may not match twice",
		"{selector: {matchExpressions: [{key: a, operator: DoesNotExist}]}, labels: {a: c}}": "selects on label a, which it writes itself",
		"{selector: {matchLabels: {a: b}}, labelSuffixes: {a: -x}}":                          "selects on label a, which it writes itself",
		"{selector: {matchLabels: {a: b}}, labels: {a: b}, labelSuffixes: {a: -x}}":          "selects on label a, which it writes itself",
		"{selector: {matchLabels: {a: b}}, patch: {metadata: {labels: {a: null}}}}":          "selects on label a, which it writes itself",
		"{selector: {matchLabels: {koordinator.sh/qosClass: LS}}, qosClass: BE}":             "selects on label koordinator.sh/qosClass, which it writes itself",
		"{selector: {matchLabels: {koordinator.sh/priority: '1'}}, koordinatorPriority: 2}":  "selects on label koordinator.sh/priority",
		"{labelKeysMapping: {a: b, b: c}}":                                                   "profile p copies label b, and then writes it",
		"{labelKeysMapping: {a: b}, labelSuffixes: {a: -x}}":                                 "profile p copies label a, and then writes it",
		"{labelKeysMapping: {a: b}, labelSuffixes: {b: -x}}":                                 "",
		"{annotationKeysMapping: {a: b}, patch: {metadata: {annotations: {a: x}}}}":          "profile p copies annotation a, and then writes it",
		"{labelKeysMapping: {a: c, b: c}}":                                                   "profile p copies two keys to label c: the last by name wins",
		"{labelKeysMapping: {a: a}}":                                                         "",
		"{labelKeysMapping: {a: a}, labelSuffixes: {a: -x}}":                                 "",
		"{selector: {matchLabels: {o: x}}}":                                                  "profile p selects on label o, which profile o writes: a second run matches others",
		"{labels: {s: x}}":                                                                   "profile o selects on label s, which profile p writes: a second run matches others",
		"{labelKeysMapping: {o: x}}":                                                         "", // o is applied before
		"{annotations: {m: x}}":                                                              "profile o copies annotation m, which profile p writes later: a second run copies that",
	} {
		set := compiled(t, "metadata: {name: o}\nspec: {selector: {matchLabels: {s: x}}, labels: {o: x}, annotationKeysMapping: {m: n}}",
			"metadata: {name: p}\nspec: "+text)
		got := strings.Join(set.Hazards(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		p := set.Profiles()[1]
		if alone := strings.Join(p.Hazards(set), "\n"); alone != got {
			t.Errorf("%s: %q of one, %q of all", text, alone, got)
		}
	}
}

// TestIndexFindsAll: Match finds what a scan of all profiles finds, whatever their order.
func TestIndexFindsAll(t *testing.T) {
	first := seed.Value(t)
	for i := range uint64(3000) {
		r := rand.New(rand.NewPCG(first, i))
		list := make([]api.ClusterColocationProfile, r.IntN(12))
		for n := range list {
			list[n] = randomProfile(r, fmt.Sprint("p", n))
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		set, problems := Compile(list)
		if len(problems) > 0 {
			t.Fatalf("USHER_SEED=%d, case %d: %v", first, i, problems)
		}
		pod, space := randomLabels(r), randomLabels(r)
		subject := Subject{Labels: pod, Namespaces: func() ([]labels.Set, error) { return []labels.Set{space}, nil }}
		m, err := set.Match(subject)
		var want []string
		for _, p := range set.Profiles() {
			if matchesSlowly(p.selector, pod) && matchesSlowly(p.namespaces, space) {
				want = append(want, p.Name)
			}
		}
		if err != nil || names(m.Applied) != strings.Join(want, " ") {
			t.Fatalf("USHER_SEED=%d, case %d: %s, want %v", first, i, names(m.Applied), want)
		}
	}
}

func matchesSlowly(s labels.Selector, object map[string]string) bool {
	return s == nil || s.Matches(labels.Set(object))
}

func randomLabels(r *rand.Rand) map[string]string {
	m := map[string]string{}
	for range r.IntN(4) {
		m[string(rune('a'+r.IntN(3)))] = string(rune('x' + r.IntN(3)))
	}
	return m
}

func randomSelector(r *rand.Rand) map[string]any {
	s := map[string]any{}
	if r.IntN(2) == 0 {
		s["matchLabels"] = randomLabels(r)
	}
	var expressions []any
	for range r.IntN(3) {
		e := map[string]any{"key": string(rune('a' + r.IntN(3))), "operator": []string{"In", "NotIn", "Exists", "DoesNotExist"}[r.IntN(4)]}
		if e["operator"] == "In" || e["operator"] == "NotIn" {
			e["values"] = slices.Collect(maps.Values(map[string]string{"1": "x", "2": []string{"y", "z"}[r.IntN(2)]}))
		}
		expressions = append(expressions, e)
	}
	s["matchExpressions"] = expressions
	return s
}

func randomProfile(r *rand.Rand, name string) (p api.ClusterColocationProfile) {
	spec := map[string]any{}
	if r.IntN(3) > 0 {
		spec["selector"] = randomSelector(r)
	}
	if r.IntN(2) > 0 {
		spec["namespaceSelector"] = randomSelector(r)
	}
	raw, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": name}, "spec": spec})
	if err := json.Unmarshal(raw, &p); err != nil {
		panic(err)
	}
	return p
}

// TestCostGrowsWithMatches: of 1,000 profiles only those that may match a pod are evaluated, however they are selected.
func TestCostGrowsWithMatches(t *testing.T) {
	for _, form := range []string{
		"{selector: {matchLabels: {app: web, group: g%d}}}",
		"{selector: {matchExpressions: [{key: group, operator: In, values: [g%d, h%[1]d]}, {key: app, operator: Exists}]}}",
		"{selector: {matchExpressions: [{key: group-%d, operator: Exists}]}}",
		"{namespaceSelector: {matchLabels: {app: web, group: g%d}}}",
	} {
		var list []api.ClusterColocationProfile
		for i := range 1000 {
			list = append(list, parse(t, fmt.Sprintf("metadata: {name: p%d}\nspec: "+form, i, i))...)
		}
		set, _ := Compile(list)
		subject := labels.Set{"app": "web", "group": "g7", "group-7": "x"}
		if n := len(set.pods.Candidates(nil, subject)) + len(set.spaces.Candidates(nil, subject)); n != 1 {
			t.Errorf("%s: %d candidates", form, n)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`{"probability":"50%","selector":{"matchLabels":{"a":"b"}},"patch":{"spec":{"containers":[{"name":"c"}]}}}`)
	f.Add(`{"probability":-1,"namespaceSelector":{"matchExpressions":[{"key":"","operator":"In","values":[]}]},"patch":[]}`)
	f.Add(`{"patch":{"spec":{"$setElementOrder/volumes":[1],"containers":[{"name":{},"$patch":"delete"}]}},"labelKeysMapping":{"a":"a"}}`)
	f.Fuzz(func(t *testing.T, spec string) {
		var p api.ClusterColocationProfile
		if json.Unmarshal([]byte(`{"metadata":{"name":"p"},"spec":`+spec+`}`), &p) != nil {
			return
		}
		set, problems := Compile([]api.ClusterColocationProfile{p})
		m, err := set.Match(Subject{Labels: labels.Set{"a": "b"}, Namespaces: func() ([]labels.Set, error) { return []labels.Set{{"a": "b"}}, nil }})
		if err != nil || len(problems) > 0 && len(m.Applied) > 0 || len(problems) == 0 && len(m.Broken) > 0 {
			t.Errorf("%v %v %v", problems, m, err)
		}
		_ = set.Hazards()
		_ = Check(&p)
	})
}
