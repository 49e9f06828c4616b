package process

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/policytest"
)

// TestCaseUpdate: --update writes what has become of an object, in the place of what is expected and nowhere else, and says so.
func TestCaseUpdate(t *testing.T) {
	dir := directory(t, map[string]string{"pod.yaml": rude, "after.json": "{}", "case.yaml": `# These cases are about names.

name: first # of two
manifest: pod.yaml   # two spaces
expect:
  # it was allowed before
  verdict: allowed # once
  message: {contains: nothing of the kind}
  code: 200
  steps: {}
  # the end of expect


# about the request
request: {user: ann}   # what follows expect stays

# between the cases
---
name:   "second"
manifest: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: nginx}]}}
expect:

  verdict: allowed
  after: after.json
  steps:
    environment: untouched

# the end
`})
	code, out, errors := run(t, "", "test", "--update", dir)
	want := `# These cases are about names.

name: first # of two
manifest: pod.yaml   # two spaces
expect:
  # it was allowed before
  verdict: denied # once
  message: {contains: nothing of the kind}
  code: 403
  steps: {denied-names: refused, environment: changed, lifespan: changed}
  # the end of expect


# about the request
request: {user: ann}   # what follows expect stays

# between the cases
---
name:   "second"
manifest: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: nginx}]}}
expect:
  verdict: allowed
  after: after.json
  steps:
    environment: changed
    lifespan: changed

# the end
`
	text, err := os.ReadFile(filepath.Join(dir, "case.yaml"))
	if err != nil || string(text) != want {
		t.Errorf("%v:\n%s", err, text)
	}
	for _, line := range []string{"first: verdict updated: allowed → denied", "first: code updated: 200 → 403", "first: message not updated: change what it contains by hand",
		"second: after updated in " + filepath.Join(dir, "after.json")} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("%q is not said: %s%s", line, out, errors)
		}
	}
	if code != 1 || !strings.Contains(out, "2 cases: 1 passed, 1 failed") {
		t.Errorf("exit code %d: what is contained is still wrong\n%s", code, out)
	}
	if code, _, _ := run(t, "", "test", "--run", "second", dir); code != 0 {
		t.Errorf("exit code %d after the update", code)
	}
}

// aRule is a policy with one rule about pods, to be completed by its expression.
const aRule = `rules:
- name: r
  match: {apiGroups: [""], resources: [pods], operations: [CREATE]}
  validations: [{expression: "%s", message: nope}]
`

// TestCaseUpdateIsCareful: what cannot be updated stays as it is.
func TestCaseUpdateIsCareful(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"in one line", "{manifest: pod.yaml, expect: {verdict: allowed}}\n", "cannot be updated where it is written in braces"},
		{"an error", "manifest: pod.yaml\nexpects: {}\nexpect:\n  verdict: allowed\n", "did you mean expect?"},
		{"no object", "manifest: pod.yaml\nexpect:\n  verdict: denied\n  after: {a: b}\n", "after not updated: nothing is stored; remove it"},
		{"an object that no route has looked at", "manifest: {apiVersion: v1, kind: Secret, metadata: {name: s}}\nexpect:\n  verdict: allowed\n  code: 200\n", "verdict not updated: no route has looked at the object"},
		{"an object that was not judged", "config: asks.yaml\nmanifest: pod.yaml\npath: /validate-rules\nexpect:\n  verdict: allowed\n", "verdict not updated: add what is asked for to the cluster of the case"},
		{"an object that could not be reviewed", "config: fails.yaml\nmanifest: pod.yaml\npath: /validate-rules\nexpect:\n  verdict: allowed\n", "verdict not updated: the object could not be reviewed"},
		{"what is expected of a part", "manifest: pod.yaml\nexpect:\n  verdict: denied\n  causes: {contains: [{field: x}]}\n", "causes not updated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := directory(t, map[string]string{"pod.yaml": rude, "case.yaml": c.text, "asks.yaml": fmt.Sprintf(aRule, "namespaceObject.metadata.name != 'x'"), "fails.yaml": fmt.Sprintf(aRule, "object.metadata.labels.team == 'a'")})
			if _, out, _ := run(t, "", "test", dir); strings.Contains(c.want, "verdict not updated") && strings.Contains(out, "--update") {
				t.Errorf("it suggests to accept what hides that nothing is tested:\n%s", out)
			}
			code, out, errors := run(t, "", "test", "--update", dir)
			text, err := os.ReadFile(filepath.Join(dir, "case.yaml"))
			if code == 0 || err != nil || string(text) != c.text || !strings.Contains(out+errors, c.want) {
				t.Errorf("exit code %d, %v, want %q:\n%s%s\n%s", code, err, c.want, out, errors, text)
			}
		})
	}
}

// TestCaseUpdateOfEverything: after all expectations of the samples have been emptied, --update writes them, and all cases pass.
func TestCaseUpdateOfEverything(t *testing.T) {
	dir := copyOfSamples(t)
	addEverything(t, dir)
	if code, out, errors := run(t, "", "test", "--update", dir); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errors)
	}
	before := map[string]string{}
	for _, file := range caseFiles(t, dir) {
		before[file] = harness.ReadFile(t, file)
	}
	if code, out, _ := run(t, "", "test", "--update", dir); code != 0 || strings.Contains(out, "updated") {
		t.Errorf("updated again: exit code %d\n%s", code, out)
	}
	for file, text := range before {
		if harness.ReadFile(t, file) != text {
			t.Errorf("%s was changed again", file)
		}
	}
}

// TestCaseCoverage: what no case shows is listed, and it is no more once a case shows it.
func TestCaseCoverage(t *testing.T) {
	const policy = `names: {denied: [offensive, rude]}
labelRules:
- name: team
  label: team
  required: true
  pattern: "[a-z]+"
- name: tier
  label: tier
  values: [gold]
limits: [{name: all, by: namespace, perSecond: 1, burst: 1}]
`
	pod := func(name, labels string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", labels: {" + labels + "}}, spec: {containers: [{name: app, image: nginx}]}}"
	}
	shown := []string{aCase(pod("web", "team: shop"), "{verdict: allowed}")}
	measure := func() policytest.Coverage {
		dir := directory(t, map[string]string{"case.yaml": strings.Join(shown, "---\n"), "p.yaml": policy})
		code, out, errors := run(t, "", "test", "--coverage", "-o", "json", "--config", filepath.Join(dir, "p.yaml"), dir)
		var reports []struct{ Coverage policytest.Coverage }
		if err := json.Unmarshal([]byte(out), &reports); err != nil || code != 0 || len(reports) != len(shown)+1 {
			t.Fatal(code, out, errors, err)
		}
		c := reports[len(reports)-1].Coverage
		for i, missing := range c.Policies[0].Missing {
			_, c.Policies[0].Missing[i], _ = strings.Cut(missing, "p.yaml:")
		}
		return c
	}
	first := measure()
	if got := strings.Join(first.Policies[0].Missing, "; "); got != "2  labelRules; 1  names" || first.Steps.Shown != 0 {
		t.Errorf("one allowed pod shows nothing: %s, %+v", got, first.Steps)
	}
	if len(first.NotMeasured) != 1 || !strings.HasPrefix(first.NotMeasured[0], "limits of ") {
		t.Errorf("limits are not measured, which is said: %v", first.NotMeasured)
	}
	shown = append(shown, "name: no team\n"+aCase(pod("web", "a: b"), "{verdict: denied}"), "name: tier\n"+aCase(pod("web", "team: shop, tier: silver"), "{verdict: denied}"))
	second := measure()
	if got := strings.Join(second.Policies[0].Missing, "; "); got != "6  labelRules[team].pattern; 1  names" || second.Steps.Shown != 1 {
		t.Errorf("a pattern without a value that it refuses: %s, %+v", got, second.Steps)
	}
	shown = append(shown, "name: pattern\n"+aCase(pod("web", "team: SHOP"), "{verdict: denied}"), "name: rude\n"+aCase(pod("rude", "team: shop"), "{verdict: denied}"))
	third := measure()
	if got := strings.Join(third.Policies[0].Missing, "; "); got != "1  names.denied[offensive]" || third.Steps.Shown != 2 {
		t.Errorf("one of two words: %s, %+v", got, third.Steps)
	}
	shown = append(shown, "name: offensive\n"+aCase(pod("offensive", "team: shop"), "{verdict: denied}"))
	last := measure()
	if p := last.Policies[0]; len(p.Missing) > 0 || p.Percent != 100 || p.All < 4 {
		t.Errorf("all is shown: %+v", p)
	}
	shown = append(shown, "name: class\n"+aCase(pod("web", "team: shop, koordinator.sh/qosClass: LSR"), "{verdict: denied}"))
	if now := measure(); now.Steps.Shown != last.Steps.Shown+1 {
		t.Errorf("a step without a section: %+v, then %+v", last.Steps, now.Steps)
	}
}

// TestCoverageByExpectations: a part counts if a case fails without it, and not because something has changed. A change that another step
// has made of the object is seen by the steps after it.
func TestCoverageByExpectations(t *testing.T) {
	const policy = `env: [{name: REGION, value: eu1}, {name: TIER, value: std}]
rules:
- name: tier
  match: {apiGroups: [""], resources: [pods], operations: [CREATE]}
  validations: [{expression: "object.spec.containers.all(c, c.env.exists(e, e.name == 'TIER'))", message: no tier}]
`
	pod := "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}"
	const region, tier = "1  env[REGION]", "1  env[TIER]"
	for _, c := range []struct{ expect, covered, not string }{
		{"{verdict: allowed}", tier, region},
		{"{verdict: allowed, after: {contains: {spec: {containers: [{env: [{name: REGION}]}]}}}}", region, "2  rules"},
		{"{verdict: allowed, patch: {contains: [{op: add}]}}", tier, region},
		{"{verdict: denied}", "", "not judged: 1 of 1 cases, which do not pass"}, // a case that does not pass covers nothing
	} {
		dir := directory(t, map[string]string{"case.yaml": aCase(pod, c.expect), "p.yaml": policy})
		_, out, errors := run(t, "", "test", "--coverage", "--config", filepath.Join(dir, "p.yaml"), dir)
		if c.covered != "" && strings.Contains(out, c.covered+"\n") || !strings.Contains(out, c.not+"\n") {
			t.Errorf("%s: covered %q, not %q:\n%s%s", c.expect, c.covered, c.not, out, errors)
		}
	}
}

// TestCoverageOfBrokenCases: what could not be run shows nothing, and is said; the problem of a policy is told once.
func TestCoverageOfBrokenCases(t *testing.T) {
	one := aCase("{apiVersion: v1, kind: Pod, metadata: {name: p}}", "{verdict: allowed}")
	dir := directory(t, map[string]string{"case.yaml": "name: a\n" + one + "---\nname: b\n" + one, "p.yaml": "surprise: 1\n"})
	code, out, _ := run(t, "", "test", "--coverage", "--config", filepath.Join(dir, "p.yaml"), dir)
	for _, want := range []string{"none in this policy", "not judged: 2 of 2 cases, which do not pass", "2 cases: 2 errors", "as for case "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if code != 2 || strings.Contains(out, "100.0 %") || strings.Count(out, "surprise") != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
