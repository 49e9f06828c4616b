package validators

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/views"
)

// storedProfile is an existing profile; it selects on label tier.
const storedProfile = "metadata: {name: m}\nspec: {selector: {matchLabels: {tier: batch}}, labels: {made-by: m}}"

func storedProfiles() (*profile.Set, error) {
	var p api.ClusterColocationProfile
	if err := yaml.Unmarshal([]byte(storedProfile), &p); err != nil {
		return nil, err
	}
	set, _ := profile.Compile([]api.ClusterColocationProfile{p})
	return set, nil
}

func oneClass(name string) (int32, *corev1.PreemptionPolicy, bool, error) {
	value := map[string]int32{"koord-batch": 5000, "koord-prod": 9000, "usual": 100}[name]
	return value, nil, value > 0, nil
}

// checkProfile validates a profile given as YAML, replacing an old one unless that is empty, and returns problems and
// warnings.
func checkProfile(t *testing.T, text, old string) (problems, warnings []string) {
	t.Helper()
	req := &admit.Request{Object: fromYAML(t, text)}
	if old != "" {
		req.OldObject = fromYAML(t, old)
	}
	step := colocationProfile(storedProfiles, oneClass)
	list, err := step.Run(t.Context(), req, views.AsColocationProfile(req.Object))
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range list {
		problems = append(problems, problem.Error())
	}
	if err := req.Object.Err(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems, req.Warnings()
}

func fromYAML(t *testing.T, text string) *document.Document {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestProfile: specs with their problems and warnings.
func TestProfile(t *testing.T) {
	cases := []struct {
		spec     string
		problems []string
		warnings []string
	}{
		{`{}`, nil, nil},
		{`{qosClass: BE, priorityClassName: koord-prod}`, nil, []string{"QoS class BE does not go with priority class koord-prod: the pods that match are refused; set priorityClassName to one in koord-mid (7000 to 7999) or"}},
		{`{qosClass: BE, priorityClassName: usual}`, nil, []string{"priority class none"}},
		{`{qosClass: LSR, priorityClassName: koord-batch}`, nil, []string{"QoS class LSR does not go with priority class koord-batch"}},
		{`{labels: {koordinator.sh/qosClass: BE, koordinator.sh/priority-class: koord-prod}}`, nil, []string{"QoS class BE does not go with priority class koord-prod"}},
		{`{qosClass: BE, priorityClassName: koord-prod, labels: {koordinator.sh/priority-class: koord-batch}}`, nil, nil},
		{`{qosClass: LS, priorityClassName: koord-batch}`, nil, []string{"QoS class LS does not go with batch resources"}},
		{`{qosClass: LSR, priorityClassName: koord-prod}`, nil, nil},
		{`{qosClass: BE}`, nil, nil},
		{`{priorityClassName: koord-batch}`, nil, nil},
		{`{qosClass: BE, priorityClassName: koord-batch, labels: {a/b: "1"}, annotations: {Some.Where/x: any text}, labelSuffixes: {a/b: -x}, labelKeysMapping: {c: d}, probability: 50%}`, nil, nil},
		{`{probability: 101, selector: {matchExpressions: [{key: a, operator: in, values: [b]}]}}`,
			[]string{`spec.selector.matchExpressions[0].operator: Invalid value: "in": must be In, NotIn`, `spec.probability: Invalid value: "101": must be a whole percentage`}, nil},
		{`{patch: {spec: {containers: {name: c}}}}`, []string{`spec.patch: Invalid value: has a`}, nil},
		{`{labels: {a b: c, d: e f}}`, []string{`spec.labels[a b]: Invalid value: "a b"`, `spec.labels[d]: Invalid value: "e f"`}, nil},
		{`{annotations: {a b: c}}`, []string{`spec.annotations[a b]: Invalid value: "a b"`}, nil},
		{`{labelKeysMapping: {a b: c, d: e f}}`, []string{`spec.labelKeysMapping[a b]: Invalid value: "a b"`, `spec.labelKeysMapping[d]: Invalid value: "e f"`}, nil},
		{`{annotationKeysMapping: {a: b c}, labelKeysMapping: {A.b/c: d}}`,
			[]string{`spec.labelKeysMapping[A.b/c]: Invalid value: "A.b/c"`, `spec.annotationKeysMapping[a]: Invalid value: "b c"`}, nil},
		{`{labelSuffixes: {a: "", b: "-", c d: x}}`,
			[]string{`spec.labelSuffixes[a]: Required value`, `spec.labelSuffixes[b]: Invalid value: "-": cannot end a label`, `spec.labelSuffixes[c d]: Invalid value: "c d"`}, nil},
		{`{qosClass: be}`, []string{`spec.qosClass: Unsupported value: "be": supported values: "LSE", "LSR", "LS", "BE", "SYSTEM"`}, nil},
		{`{priorityClassName: absent}`, nil, []string{`spec.priorityClassName: PriorityClass absent does not exist; until it does, the pods that match are refused`}},
		{`{patch: {spec: {contaners: [{name: c}]}}}`, nil, []string{`spec.patch: unknown field "spec.contaners"`}},
		{`{labels: {tier: batch}}`, nil, []string{`profile m selects on label tier, which profile p writes: a second run matches others`}},
		{`{selector: {matchLabels: {made-by: x}}}`, nil, []string{`profile p selects on label made-by, which profile m writes: a second run matches others`}},
		{`{selector: {matchLabels: {x: "1"}}, labels: {x: "2"}}`, nil, []string{`profile p selects on label x, which it writes itself: it may not match twice`}},
		{`{labels: []}`, []string{`has a array at spec.labels`}, nil},
	}
	for _, c := range cases {
		problems, warnings := checkProfile(t, "metadata: {name: p}\nspec: "+c.spec, "")
		if !allContain(problems, c.problems) || !allContain(warnings, c.warnings) {
			t.Errorf("%s:\nproblems %q\nwarnings %q", c.spec, problems, warnings)
		}
	}
}

func allContain(texts, parts []string) bool {
	return slices.EqualFunc(texts, parts, strings.Contains)
}

// TestProfileUpdate: a stored profile may be broken; an update of its spec must repair it.
func TestProfileUpdate(t *testing.T) {
	broken, fixed := "metadata: {name: p}\nspec: {probability: 101}", "metadata: {name: p}\nspec: {probability: 100}"
	labelled := strings.Replace(broken, "{name: p}", "{name: p, labels: {a: b}}", 1)
	deleting := strings.Replace(broken, "{name: p}", `{name: p, deletionTimestamp: "2026-01-01T00:00:00Z"}`, 1)
	for _, c := range []struct {
		text, old string
		problems  int
	}{{broken, fixed, 1}, {labelled, broken, 0}, {fixed, broken, 0}, {strings.Replace(broken, "101", "102", 1), broken, 1}, {deleting, fixed, 0}} {
		if problems, _ := checkProfile(t, c.text, c.old); len(problems) != c.problems {
			t.Errorf("%s over %s: %q", c.text, c.old, problems)
		}
	}
	if _, warnings := checkProfile(t, strings.Replace(storedProfile, "made-by: m", "tier: batch", 1), storedProfile); len(warnings) > 0 {
		t.Errorf("a profile disturbs its older self: %q", warnings)
	}
}

// TestProfileNotReady: missing data is an internal error, not the user's.
func TestProfileNotReady(t *testing.T) {
	late := fmt.Errorf("profiles: %w", admit.ErrNotReady)
	noProfiles := func() (*profile.Set, error) { return nil, late }
	noClasses := func(string) (int32, *corev1.PreemptionPolicy, bool, error) { return 0, nil, false, late }
	for _, step := range []admit.Validator[views.ColocationProfile]{colocationProfile(noProfiles, oneClass), colocationProfile(storedProfiles, noClasses)} {
		d := fromYAML(t, "metadata: {name: p}\nspec: {priorityClassName: x}")
		problems, err := step.Run(t.Context(), &admit.Request{Object: d}, views.AsColocationProfile(d))
		if !errors.Is(err, admit.ErrNotReady) || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
}

// TestRefusedAreBroken: what Compile finds broken is refused with the same text.
func TestRefusedAreBroken(t *testing.T) {
	for _, spec := range []string{`{"probability":"5"}`, `{"selector":{"matchLabels":{"a b":"c"}}}`, `{"patch":[1]}`} {
		text := `{"metadata":{"name":"p"},"spec":` + spec + `}`
		var p api.ClusterColocationProfile
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		_, broken := profile.Compile([]api.ClusterColocationProfile{p})
		refused, _ := checkProfile(t, text, "")
		if len(broken) != 1 || len(refused) != 1 || broken[0].Err.Error() != refused[0] {
			t.Errorf("%s: %v, %q", spec, broken, refused)
		}
	}
}

// TestPatchOfWhatItCannotGive: a patch for which every pod would be refused.
func TestPatchOfWhatItCannotGive(t *testing.T) {
	for patch, says := range map[string]string{
		`{metadata: {name: x}}`:                          "spec.patch.metadata.name: Forbidden",
		`{metadata: {namespace: x}}`:                     "spec.patch.metadata.namespace: Forbidden",
		`{spec: {priority: 5}}`:                          "spec.patch.spec.priority: Forbidden",
		`{spec: {overhead: {cpu: 1}}}`:                   "spec.patch.spec.overhead: Forbidden: leave it out: the RuntimeClass",
		`{spec: {preemptionPolicy: Never}}`:              "spec.patch.spec.preemptionPolicy: Forbidden",
		`{spec: {priorityClassName: koord-batch}}`:       "spec.patch.spec.priorityClassName: Forbidden",
		`{metadata: {labels: {"not a key": v}}}`:         "spec.patch.metadata.labels[not a key]: Invalid value",
		`{metadata: {labels: {key: "not a value"}}}`:     "spec.patch.metadata.labels[key]: Invalid value",
		`{metadata: {labels: {gone: null, tier: good}}}`: "",
		`{metadata: {finalizers: [a/x, b/y], $deleteFromPrimitiveList/finalizers: [c/z, a/x]}}`: `spec.patch.metadata[$deleteFromPrimitiveList/finalizers]: Invalid value: ["a/x"]: ` +
			`is added in finalizers beside it too; leave it out of one of them`,
		`{spec: {containers: [{name: c, args: [x], $deleteFromPrimitiveList/args: [x]}]}}`: `spec.patch.spec.containers[0][$deleteFromPrimitiveList/args]: Invalid value: ["x"]`,
		`{metadata: {finalizers: [a/x], $deleteFromPrimitiveList/finalizers: [c/z]}}`:      "",
	} {
		problems, _ := checkProfile(t, "metadata: {name: p}\nspec: {patch: "+patch+"}", "")
		if says == "" && len(problems) > 0 || says != "" && (len(problems) != 1 || !strings.Contains(problems[0], says)) {
			t.Errorf("%s: %q, want %s", patch, problems, says)
		}
	}
}
