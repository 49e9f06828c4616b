package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/test/clustertest"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/requests"
)

// TestCommandGoldens compares the output of the commands with goldens. `make golden` rewrites them.
func TestCommandGoldens(t *testing.T) {
	for file, c := range map[string]struct {
		args string
		code int
	}{
		"usherctl-help":       {"help", 0},
		"steps":               {"steps", 0},
		"steps-colocation":    {"steps --suite colocation", 0},
		"steps.json":          {"steps -o json --suite core,colocation", 0},
		"steps-overrides":     {"steps denied-names --config samples/policies/overrides.yaml", 0},
		"steps-effective":     {"steps --effective -n batch --cluster-dir samples/cluster --config samples/policies/overrides.yaml denied-names lifespan", 0},
		"steps-effective-any": {"steps --effective -n shop --cluster-dir samples/cluster --config samples/policies/overrides.yaml denied-names overcommit", 0},
		"steps-effective-pod": {"steps --effective -f samples/manifests/deployment.yaml -n batch --as ann --config samples/policies/overrides.yaml denied-names", 0},
		"steps-effective.json": {"steps --effective -o json -n batch --as ann --as-group security --cluster-dir samples/cluster " +
			"--config samples/policies/overrides.yaml -f samples/reviews/validate-pods/overrides-old-names.json denied-names", 0},
		"rules-export":     {"rules export --config samples/policies/rules.yaml", 0},
		"review-help":      {"review --help", 0},
		"review-text":      {"review samples/manifests/pods.yaml", 1},
		"review-explain":   {"review --explain --suite core samples/manifests/pods.yaml", 1},
		"review-json":      {"review samples/manifests/pods.yaml -o json", 1},
		"review-node":      {"review samples/manifests/node.yaml --operation UPDATE --subresource status --as system:node:node-1 --as-group system:nodes", 0},
		"review-node-hint": {"review samples/manifests/node.yaml", 0},
		"review-review":    {"review samples/manifests/node.yaml -o review --operation UPDATE --subresource status --as system:node:node-1", 0},
		"review-sample":    {"review samples/reviews/mutate-pods/lifespan-too-long.json", 1},
		"review-dry-run":   {"review samples/manifests/pod.yaml --dry-run", 0},
		"review-path":      {"review samples/manifests/pods.yaml --path /validate-pods -n shop --dry-run", 1},
		"review-quota":     {"review --cluster-dir samples/cluster --feature-gates EnableQuotaAdmission=true samples/manifests/quota-pod.yaml", 0},
		"doctor-text":      {"doctor samples/manifests/labels.yaml --cluster-dir samples/cluster", 0},
		"review-doctor":    {"review --doctor --suite core samples/manifests/labels.yaml --cluster-dir samples/cluster", 0},
		"doctor-cluster":   {"doctor --cluster-dir samples/cluster", 1},
		"doctor-json": {"doctor samples/manifests/node.yaml --operation UPDATE --subresource status --as system:node:node-1 " +
			"--cluster-dir samples/cluster -o json", 0},
		"review-broken":       {"review --cluster-dir test/testdata/cluster-broken test/testdata/broken-profile.json", 0},
		"review-other-policy": {"review samples/manifests/pods.yaml --config samples/policy.yaml --cluster-dir samples/cluster", 0},
	} {
		t.Run(file, func(t *testing.T) {
			code, out, errors := run(t, "", strings.Fields(c.args)...)
			if strings.Contains(c.args, "--doctor") {
				errors = strings.TrimPrefix(errors, "policy: embedded default: the cluster has no Deployment usher/usher; --service or --config names another\n")
			}
			if code != c.code || errors != "" {
				t.Errorf("usher %s: exit code %d, want %d: %s", c.args, code, c.code, errors)
			}
			harness.CompareGolden(t, filepath.Join("test", "testdata", file+".golden"), out)
		})
	}
}

// TestExitCodes: what each mistake ends with, and what it says.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("surprise: 1\nlifespan: {label: a, taint: b, max: 1000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: nginx}]}\n"
	mirror := "apiVersion: v1\nkind: Pod\nmetadata: {name: offensive, annotations: {kubernetes.io/config.mirror: 6d0b}}\nspec: {nodeName: node-1, containers: [{name: c, image: d}]}\n"
	const rule = "rules:\n- name: r\n  match: {apiGroups: [''], resources: [pods], operations: [CREATE]}\n  validations: [{expression: \"EXPRESSION != 'production'\", message: nope}]\n"
	asks, fails := filepath.Join(dir, "asks.yaml"), filepath.Join(dir, "fails.yaml")
	putFile(t, asks, []byte(strings.Replace(rule, "EXPRESSION", "namespaceObject.metadata.?labels.?env.orValue('')", 1)+"labelRules:\n- {name: owner, label: owner, required: true}\n"))
	putFile(t, fails, []byte(strings.Replace(rule, "EXPRESSION", "namespaceObject.metadata.labels.env", 1)))
	stages := filepath.Join(dir, "stages.yaml")
	if err := os.WriteFile(stages, []byte("labelRules:\n- {name: owner, label: owner, required: true, namespaceSelector: {matchLabels: {stage: prod}}}\n"+
		"rules:\n- name: never\n  match: {apiGroups: [\"\"], resources: [pods], operations: [CREATE], namespaceSelector: {matchLabels: {stage: prod}}}\n"+
		"  validations: [{expression: \"false\", message: nope}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	prod := "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {stage: prod, admission-webhook: enabled}}\n---\n"
	cases := []struct {
		in   string
		args string
		code int
		says []string
	}{
		{"", "revew", 2, []string{"did you mean review?"}},
		{"", "learn chek", 2, []string{"there is no lesson chek", "did you mean usherctl learn check?"}},
		{"", "doctor --cluster files", 2, []string{"--cluster=files: pass --cluster-dir DIR"}},
		{pod, "review", 0, []string{"--suite colocation shows its steps"}},
		{pod, "review --suite core,colocation", 0, []string{"colocation-profile"}},
		{pod, "review", 0, []string{"allowed  CREATE Pod default/p  (standard input)"}},
		{pod, "review --operation DELETE", 0, []string{"no route is called for this; try --operation CREATE\n"}},
		{pod, "review --subresource statuss", 2, []string{"--subresource statuss: no kind and no route has it; did you mean status?"}},
		{pod, "review --subresource log", 0, []string{"no route is called for this; try --operation CREATE without --subresource\n"}},
		{pod, "review --operation PATCH", 2, []string{"--operation PATCH"}},
		{pod, "review --old x.yaml", 2, []string{"--old goes with"}},
		{pod, "review -o xml", 2, []string{"text, patch, json, junit or review"}},
		{pod, "review --path /nope", 2, []string{"usherctl steps"}},
		{pod + "---\n" + strings.Replace(pod, "name: p", "name: offensive", 1), "review", 1, []string{"denied  CREATE Pod default/offensive  (standard input:5)"}},
		{"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: ok}, spec: {containers: [{name: c, image: d}]}}, {apiVersion: v1, kind: Pod, metadata: {name: offensive}, spec: {containers: [{name: c, image: d}]}}]", "review", 1, []string{"item 1", "denied  CREATE Pod default/offensive  (standard input:1, item 2)"}},
		{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"d"}]}} {"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`, "review", 0, []string{"skipped  1 object of kinds that no route is for under this policy: 1 Service", "2 objects: 1 allowed (1 changed), 1 skipped"}},
		{pod, "review --suite core --config " + stages, 2, []string{"not judged  CREATE Pod", "not judged: label-rules and rules ask for the Namespace default, which is in none of the files", "1 object: 1 not judged"}},
		{pod + "---\n" + strings.Replace(pod, "name: p", "name: q", 1), "review --suite core --config " + stages, 2,
			[]string{"rules ask for the Namespace default, which is in none of the files", " (2 objects: Pod default/p and Pod default/q)\n2 objects: 2 not judged"}},
		{pod, "review --suite core --config " + asks, 1, []string{"denied  CREATE Pod", "/validate-rules  not judged\n    rules                  not judged\n    not judged: rules asks for the Namespace default"}},
		{pod, "review --suite core --path /validate-rules --config " + fails, 2, []string{"not judged  CREATE Pod", "/validate-rules  not judged\n", "no such key: labels",
			"not judged: rules asks for the Namespace default", "write namespaceObject.metadata.?labels.?env.orValue('')"}},
		{pod, "review --suite core -q -o junit --config " + stages, 2, []string{`errors="1"`, "label-rules asks for the Namespace default"}},
		{prod + pod, "review --suite core -q --config " + stages, 1, []string{"label-rules            refused", "rules                  refused", "1 denied, 1 skipped"}},
		{pod, "review --suite core --assume-namespace-labels stage=test --config " + stages, 0, []string{"1 object: 1 allowed"}},
		{pod, "review --suite core --assume-namespace-labels stage=prod --config " + stages, 1, []string{"nope (rule never)"}},
		{pod + "---\n" + strings.Replace(pod, "name: p", "name: offensive", 1), "review --suite core --config " + stages, 2, []string{"2 objects: 2 not judged"}},
		{pod + "---\n" + strings.Replace(pod, "name: p", "name: q, labels: {owner: a}", 1), "review --suite core --path /validate-pods --config " + stages, 2, []string{"2 objects: 2 not judged"}},
		{strings.Replace(pod, "{name: p}", "{name: p, namespace: a}", 1) + "---\napiVersion: v1\nkind: Pod\n", "review -q", 1, []string{"2 objects: 1 allowed (1 changed), 1 invalid", "invalid: metadata.name: Required value", "invalid: spec.containers: Required value"}},
		{strings.Replace(pod, "[{name: c, image: nginx}]", "{}", 1), "review --suite core --path /validate-pods -o junit", 1, []string{`failures="1"`, "spec.containers: must be a list, but is a mapping"}},
		{strings.Replace(pod, "containers", "container", 1), "review", 1, []string{`unknown field "spec.container"`}},
		{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: d}]}}}\n", "review", 1,
			[]string{"invalid  Deployment d → its pods", "invalid: spec.template.metadata.labels: Invalid value", "`selector` does not match template `labels`"}},
		{"kind: Pod", "review", 2, []string{"apiVersion or kind is missing"}},
		{"a: [", "review", 2, []string{"error  (standard input", "did not find expected"}},
		{"a: 1\na: 2", "review", 2, []string{"apiVersion or kind is missing"}},
		{pod + "metadata: {name: offensive}\n", "review", 1, []string{`line 5: key "metadata" already set in map: the last value counts`, "denied  CREATE Pod default/offensive"}},
		{pod + "spec: {nodeName: {{ .Values.node }}}\n", "review", 2, []string{"line 5: a template, such as Helm's", "helm template"}},
		{"", "review", 2, []string{"holds no object"}},
		{"", "review no-such-file.yaml", 2, []string{"no-such-file.yaml"}},
		{`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, "review", 2, []string{"request.uid is missing"}},
		{mirror, "review --path /validate-pods", 1, []string{"denied  CREATE Pod default/offensive"}},
		{mirror, "review --path /validate-pods --as system:node:node-2", 1, []string{"denied  CREATE Pod default/offensive"}},
		{mirror, "review --path /validate-pods --as system:node:node-1", 0, []string{"mirror pod of the kubelet that asks"}},
		{mirror, "review --path /validate-pods --as system:node:node-1 --as-group system:authenticated", 1, []string{"denied  CREATE Pod default/offensive"}},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {a: \"" + strings.Repeat("x", 7<<20) + "\"}}\n", "review", 1, []string{"invalid: Request entity too large: limit is 3145728"}},
		{"", "steps extra", 2, []string{"there is no step extra"}},
		{"", "review --operation DELETE test/testdata/manifests/deployment.yaml", 0, []string{"skipped  DELETE Deployment default/web"}},
		{"", "steps -n batch", 2, []string{"--namespace goes with --effective"}},
		{"", "steps --as ann", 2, []string{"--as goes with --effective"}},
		{"", "steps --effective -f no-such-file", 2, []string{"no-such-file"}},
		{"", "steps --effective --cluster-dir no-such-directory", 2, []string{"no-such-directory"}},
		{"", "steps lifespn", 2, []string{"there is no step lifespn; did you mean lifespan?"}},
		{pod, "review --path /mutat-pods", 2, []string{"--path /mutat-pods: there is no such route; did you mean /mutate-pods?"}},
		{pod, "review --path /validate-configmap", 2, []string{"--path /validate-configmap: the route is off; --feature-gates ConfigMapValidatingWebhook=true switches it on"}},
		{pod, "review --path /validate-pod-binding", 2, []string{"--path /validate-pod-binding: the route is off; --feature-gates BindingAdmissionWebhook=true switches it on"}},
		{"apiVersion: V1\nkind: Pod\nmetadata: {name: p}\n", "review", 2, []string{"apiVersion V1: Pod has no such version; did you mean v1?"}},
		{"", "help review", 0, []string{"usherctl review [flags] FILE...", "--all-routes"}},
		{pod, "review --path /validate-pods --strict", 0, []string{"1 object: 1 allowed"}},
		{"apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n", "review --strict", 1, []string{"skipped  CREATE Service default/s", "1 object: 1 skipped"}},
		{pod, "review -q", 0, []string{"1 object: 1 allowed (1 changed)"}},
		{pod, "review --suite core -o patch", 0, []string{"patch:", "add     /spec"}},
		{pod, "review --suite tutorial", 2, []string{"--suite", "core or colocation"}},
		{"", "review -f samples/manifests -q", 1, []string{"denied  CREATE Pod apps/offensive-pod", " objects: "}},
		{"", "review samples/reviews", 2, []string{"holds no .yaml, .yml or .json file; -R"}},
		{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"metadata":{"name":"offensive"},"spec":{"containers":[{"name":"c","image":"d"}]}}`, "review", 1, []string{"duplicate key", "denied  CREATE Pod default/offensive"}},
		{`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"offensive"},"spec":{"containers":[{"name":"c","image":"d"}]}}]}`, "review", 1, []string{"denied  CREATE Pod default/offensive"}},
		{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"activeDeadlineSeconds":9007199254740993}}`, "review -o review", 0, []string{"9007199254740993"}},
		{"- a", "review", 2, []string{"not a mapping"}},
		{"kind: Pod\n---\n" + pod, "review -o review", 2, []string{"apiVersion or kind is missing", `"name": "p"`}},
		{"", "steps -o xml", 2, []string{"text or json"}},
	}
	for _, c := range cases {
		code, out, errors := run(t, c.in, strings.Fields(c.args)...)
		if code != c.code {
			t.Errorf("usherctl %s: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errors)
		}
		for _, want := range c.says {
			if !strings.Contains(out+errors, want) {
				t.Errorf("usherctl %s does not say %q:\n%s%s", c.args, want, out, errors)
			}
		}
	}
}

// TestReviewKnowsEveryKind: `usherctl review` warns about unknown fields, so it needs the types of all kinds.
func TestReviewKnowsEveryKind(t *testing.T) {
	known := map[string]bool{}
	for kind := range requests.Types(routes.Suites()) {
		known[kind.Kind] = true
	}
	for _, r := range sampleInstance(t).Routes() {
		for _, m := range r.For {
			if m.Kind.Kind != "" && !known[m.Kind.Kind] {
				t.Errorf("no suite has the type of %s, the kind of %s", m.Kind.Kind, r.Path)
			}
		}
	}
}

// TestReviewJSONIsStable lists the fields that scripts may rely on.
func TestReviewJSONIsStable(t *testing.T) {
	_, out, _ := run(t, "", "review", "samples/manifests/pods.yaml", "-o", "json")
	var reports []map[string]any
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		t.Fatal(err)
	}
	var fields []string
	for key := range reports[0] {
		fields = append(fields, key)
	}
	slices.Sort(fields)
	if got := strings.Join(fields, " "); got != "after before calls kind name namespace operation plugins source verdict" {
		t.Errorf("fields %s", got)
	}
}

// TestGoldenCommandLine: docs/command-line.md is the --help output of every command.
func TestGoldenCommandLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The command line\n\nWhat `--help`, or `--help-all` if there is that, prints of every command, written by `make golden`. `usher completion --help`, and `usherctl completion --help`, say how to make a shell complete\n" +
		"commands, flags, gates, steps, paths and suites.\n")
	for _, c := range allCommands() {
		if c.Name() == "version" || c.Name() == "certs" { // the one says all in its line, the other does nothing itself
			continue
		}
		help := "--help"
		if c.Flags().Lookup("help-all") != nil {
			help = "--help-all"
		}
		words := strings.Fields(c.CommandPath())
		var out bytes.Buffer
		runAs(words[0], strings.NewReader(""), &out, io.Discard, append(words[1:], help)...)
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", c.CommandPath(), &out)
	}
	harness.CompareGolden(t, filepath.Join("docs", "command-line.md"), b.String())
}

// TestPolicyWarnings: rules and restrictions that can never match are warned of by every command that uses the policy.
func TestPolicyWarnings(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	texts := map[string]string{
		"policy.yaml": "rules: [{name: a, match: {apiGroups: [apps/v1], resources: [deployments], operations: [CREATE]}, validations: [{expression: 'true'}]}]\n" +
			"restrictions: [{name: a, requests: [{apiGroups: [''], resources: [deployments], operations: [CREATE]}]}]\n",
		"case.yaml": "defaults: {config: policy.yaml}\n---\nname: one\nmanifest: {apiVersion: v1, kind: Pod, metadata: {name: a}}\nexpect: {verdict: allowed}\n" +
			"---\nname: two\nmanifest: {apiVersion: v1, kind: Pod, metadata: {name: b}}\nexpect: {verdict: allowed}\n",
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, _, review := run(t, "", "review", "samples/manifests/pod.yaml", "--config", policy)
	_, _, test := run(t, "", "test", dir)
	served := serve(t, t.TempDir(), "--config", policy)
	clustertest.Eventually(t, "it serves", func() bool { return strings.Contains(served.log.String(), `"msg":"serving"`) })
	for command, said := range map[string]string{"review": review, "test": test, "serve": served.log.String()} {
		for _, want := range []string{"rules[0].match.resources[0]: no request matches deployments: apps/v1 is a group with a version",
			"restrictions[0].requests[0].resources[0]: no request matches deployments: the core group"} {
			if strings.Count(said, want) != 1 {
				t.Errorf("%s: not once: %s\n%s", command, want, said)
			}
		}
	}
}

// TestStepsWarns: `usherctl steps` prints what is probably not meant in a policy.
func TestStepsWarns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	policy := "rules: [{name: a, match: {apiGroups: [apps], resources: [deployment], operations: [CREATE]}, validations: [{expression: \"true\"}]}]"
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errors := run(t, "", "steps", "--config", file); code != 0 || !strings.Contains(errors, "did you mean deployments?") {
		t.Errorf("%d %s", code, errors)
	}
}
