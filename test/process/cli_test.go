package process

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/command"
	"usher.dev/usher/command/review"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// run runs a command and returns its exit code and output.
func run(t *testing.T, in string, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Program{Suites: routes.Suites(), Version: "dev", In: strings.NewReader(in), Out: &stdout, Err: &stderr}.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// TestCommandGoldens compares the output of the commands with goldens. `make golden` rewrites them.
func TestCommandGoldens(t *testing.T) {
	ca, open := filepath.Join("test", "testdata", "ca.crt"), strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates"))
	for file, c := range map[string]struct {
		args string
		code int
	}{
		"help":                {"help", 0},
		"steps":               {"steps", 0},
		"steps-colocation":    {"steps --suite colocation", 0},
		"steps.json":          {"steps -o json --suite core,colocation", 0},
		"steps-overrides":     {"steps denied-names --config samples/policies/overrides.yaml", 0},
		"steps-effective":     {"steps --effective -n batch --cluster-dir samples/cluster --config samples/policies/overrides.yaml denied-names lifespan", 0},
		"steps-effective-any": {"steps --effective -n shop --cluster-dir samples/cluster --config samples/policies/overrides.yaml denied-names overcommit", 0},
		"steps-effective-pod": {"steps --effective -f samples/manifests/deployment.yaml -n batch --as ann --config samples/policies/overrides.yaml denied-names", 0},
		"steps-effective.json": {"steps --effective -o json -n batch --as ann --as-group security --cluster-dir samples/cluster " +
			"--config samples/policies/overrides.yaml -f samples/reviews/validate-pods/overrides-old-names.json denied-names", 0},
		"webhooks":            {"webhooks --ca-file " + ca, 0},
		"webhooks-policy":     {"webhooks --config samples/policy.yaml", 0},
		"webhooks-url":        {"webhooks --url https://127.0.0.1:9443/ --service demo/door", 0},
		"webhooks-colocation": {"webhooks --suite colocation --exclude-namespace rook-ceph --exclude-namespace calico-system --exclude-namespace rook-ceph --feature-gates " + open, 0},
		"serve-help":          {"serve --help", 0},
		"review-help":         {"review --help", 0},
		"review-text":         {"review samples/manifests/pods.yaml", 1},
		"review-explain":      {"review --explain --suite core samples/manifests/pods.yaml", 1},
		"review-json":         {"review samples/manifests/pods.yaml -o json", 1},
		"review-node":         {"review samples/manifests/node.yaml --operation UPDATE --subresource status --as system:node:node-1 --as-group system:nodes", 0},
		"review-node-hint":    {"review samples/manifests/node.yaml", 0},
		"review-review":       {"review samples/manifests/node.yaml -o review --operation UPDATE --subresource status --as system:node:node-1", 0},
		"review-sample":       {"review samples/reviews/mutate-pods/lifespan-too-long.json", 1},
		"review-dry-run":      {"review samples/manifests/pod.yaml --dry-run", 0},
		"review-path":         {"review samples/manifests/pods.yaml --path /validate-pods -n shop --dry-run", 1},
		"review-quota":        {"review --cluster-dir samples/cluster --feature-gates EnableQuotaAdmission=true samples/manifests/quota-pod.yaml", 0},
		"doctor-text":         {"doctor samples/manifests/labels.yaml --cluster-dir samples/cluster", 0},
		"review-doctor":       {"review --doctor --suite core samples/manifests/labels.yaml --cluster-dir samples/cluster", 0},
		"doctor-cluster":      {"doctor --cluster-dir samples/cluster", 1},
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
		{"", "nonsense", 2, []string{`unknown command "nonsense"`}},
		{"", "revew", 2, []string{"did you mean review?"}},
		{"", "webhooks aply", 2, []string{`unknown command "aply" for "usher webhooks"; did you mean apply?`}},
		{"", "webhooks --out dir", 2, []string{"--out and --static-dir go with --static"}},
		{"", "webhooks --rbac --compare nothing", 2, []string{"[compare rbac]"}},
		{"", "webhooks --compare test/testdata/webhooks.golden", 0, []string{"not looked at: their caBundles"}},
		{"", "webhooks --compare test/testdata/webhooks.golden --ca-file test/testdata/ca.crt", 0, []string{"are those that are needed\n"}},
		{"", "webhooks --compare test/testdata/webhooks.golden --url https://127.0.0.1:9443", 1, []string{"clientConfigs differ", "needed https://127.0.0.1:9443/mutate-pods"}},
		{"", "learn chek", 2, []string{"there is no lesson chek", "did you mean usher learn check?"}},
		{"", "serve --suite core --slo-config-name x", 2, []string{"--slo-config-name is for the suite colocation, which --suite leaves out"}},
		{"", "serve --suite core --feature-gates MultiQuotaTree=true", 2, []string{"--feature-gates is for the suite colocation"}},
		{"", "serve --suite cor", 2, []string{`"cor": must be core or colocation`}},
		{"", "serve --suite=", 2, []string{"--suite: name a suite"}},
		{"", "doctor --cluster files", 2, []string{"--cluster=files: pass --cluster-dir DIR"}},
		{pod, "review", 0, []string{"--suite colocation shows its steps"}},
		{pod, "review --suite core,colocation", 0, []string{"colocation-profile"}},
		{"", "serve --lisen :1", 2, []string{"unknown flag: --lisen; did you mean --listen?"}},
		{"", "serve --nonsense", 2, []string{"unknown flag: --nonsense; `usher serve --help` lists the flags"}},
		{"", "show a b", 2, []string{"accepts at most 1 arg"}},
		{"", "serve here", 2, []string{`usher serve takes no arguments, and there is "here"`}},
		{"", "serve --nonsense", 2, []string{"unknown flag"}},
		{"", "serve extra", 2, []string{"extra"}},
		{"", "serve --plain --listen 0.0.0.0:9443", 2, []string{"127.0.0.1:9443"}},
		{"", "serve --plain --listen :9443", 2, []string{"this machine only"}},
		{"", "serve --plain --cert-dir x", 2, []string{"--cert-dir"}},
		{"", "serve --log-format xml", 2, []string{"auto, json or text"}},
		{"", "serve --listen 127.0.0.1:0 --config " + bad, 2, []string{"surprise: Forbidden: unknown field; the known fields are ", "lifespan.max"}},
		{"", "serve --config /does/not/exist", 2, []string{"no such file"}},
		{"", "serve --listen 127.0.0.1:0 --cert-dir " + dir, 2, []string{"usher certs init"}},
		{pod, "review", 0, []string{"allowed  CREATE Pod default/p  (standard input)"}},
		{pod, "review --operation DELETE", 0, []string{"no route is called for this; try --operation CREATE\n"}},
		{pod, "review --subresource statuss", 2, []string{"--subresource statuss: no kind and no route has it; did you mean status?"}},
		{pod, "review --subresource log", 0, []string{"no route is called for this; try --operation CREATE without --subresource\n"}},
		{pod, "review --operation PATCH", 2, []string{"--operation PATCH"}},
		{pod, "review --old x.yaml", 2, []string{"--old goes with"}},
		{pod, "review -o xml", 2, []string{"text, patch, json, junit or review"}},
		{pod, "review --path /nope", 2, []string{"usher steps"}},
		{pod + "---\n" + strings.Replace(pod, "name: p", "name: offensive", 1), "review", 1, []string{"denied  CREATE Pod default/offensive  (standard input:5)"}},
		{"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: ok}, spec: {containers: [{name: c, image: d}]}}, {apiVersion: v1, kind: Pod, metadata: {name: offensive}, spec: {containers: [{name: c, image: d}]}}]", "review", 1, []string{"item 1", "denied  CREATE Pod default/offensive  (standard input:1, item 2)"}},
		{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"d"}]}} {"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`, "review", 0, []string{"skipped  1 object of kinds that no route is for under this policy: 1 Service", "2 objects: 1 allowed (1 changed), 1 skipped"}},
		{pod, "review --suite core --config " + stages, 2, []string{"not judged  CREATE Pod", "not judged: label-rules asks for the Namespace default, which is in none of the files", "1 object: 1 not judged"}},
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
		{strings.Replace(pod, "[{name: c, image: nginx}]", "{}", 1), "review --suite core --path /validate-pods -o junit", 1, []string{`failures="1"`, "spec.containers: must be a list, and is a mapping"}},
		{strings.Replace(pod, "containers", "container", 1), "review", 1, []string{`unknown field "spec.container"`}},
		{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: d}]}}}\n", "review", 1,
			[]string{"invalid  Deployment d → its pods", "the selector must match the labels of the template"}},
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
		{"", "webhooks --service usher", 2, []string{"namespace/name"}},
		{"", "webhooks --service a/b/c", 2, []string{"namespace/name"}},
		{"", "webhooks --service A/b", 2, []string{"--service \"A/b\"", "namespace/name", "lower-case letters"}},
		{"", "webhooks --service=", 2, []string{"namespace/name"}},
		{"", "certs init --days 0", 2, []string{"--days 0: must be 1 to 365"}},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {a: \"" + strings.Repeat("x", 7<<20) + "\"}}\n", "review", 2, []string{"a server reads up to 7 MiB"}},
		{"", "webhooks --url https://u:p@h/#x", 2, []string{"https://"}},
		{"", "webhooks --exclude-namespace Storage", 2, []string{`--exclude-namespace "Storage"`, "lowercase RFC 1123 label"}},
		{"", "webhooks --exclude-pods cni", 2, []string{`--exclude-pods "cni"`, "namespace/serviceaccount"}},
		{"", "webhooks --exclude-pods Net/cni", 2, []string{`--exclude-pods "Net/cni"`, "lowercase RFC 1123 label"}},
		{"", "webhooks --exclude-namespace=", 2, []string{`--exclude-namespace ""`, "lowercase RFC 1123 label"}},
		{"", "webhooks extra", 2, []string{`"extra"`}},
		{"", "webhooks --suite=colocation --fail-closed=/validate-pods", 2, []string{"--fail-closed /validate-pods", "register no such path"}},
		{"", "webhooks --fail-closed=/mutate-nodes", 2, []string{"--fail-closed /mutate-nodes", "heartbeat"}},
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
		{"", "show samples/reviews/mutate-pods/lifespan-three.json", 2, []string{"this is a request, not an answer"}},
		{"apiVersion: V1\nkind: Pod\nmetadata: {name: p}\n", "review", 2, []string{"apiVersion V1: Pod has no such version; did you mean v1?"}},
		{"", "show no-such-file", 2, []string{"no-such-file"}},
		{"", "show a b", 2, []string{"at most 1 arg"}},
		{"", "--version", 0, []string{"usher version dev"}},
		{"", "help review", 0, []string{"usher review [flags] FILE...", "--all-routes"}},
		{pod, "review --path /validate-pods --strict", 0, []string{"1 object: 1 allowed"}},
		{"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", "review --strict", 1, []string{"skipped  CREATE Service default/s", "1 object: 1 skipped"}},
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
		{"", "webhooks --url http://x", 2, []string{"https://"}},
		{"", "webhooks --ca-file main.go", 2, []string{"no PEM certificate"}},
		{"", "certs", 2, []string{"usher certs init"}},
		{"", "certs rotate --distrust", 2, []string{"--distrust is for --ca"}},
		{"", "certs rotate --service x", 2, []string{"namespace/name"}},
		{"", "certs rotate --kubeconfig /nowhere", 2, []string{"/nowhere"}},
		{"", "webhooks apply --kubeconfig /nowhere", 2, []string{"no API server", "/nowhere", "set KUBECONFIG"}},
		{"", "webhooks --certs=managed", 2, []string{"--rbac"}},
		{"", "webhooks --rbac --certs=managed", 0, []string{"usher-ca", "usher-tls", "mutatingwebhookconfigurations", "RoleBinding"}},
		{"", "serve --plain --require-sections env,naems", 2, []string{"the policy has no section naems", "did you mean names?"}},
		{"", "serve --plain --require-sections names,rules,limits", 2, []string{"policy embedded default: it lacks the sections rules, limits", "take them out of the flag"}},
		{"", "serve --certs=somewhere", 2, []string{"must be local or managed"}},
		{"", "serve --certs=managed --cert-dir x", 2, []string{"leave out --cert-dir"}},
		{"", "serve --certs=managed --plain", 2, []string{"--plain serves no certificate"}},
		{"", "serve --certs=managed --service usher", 2, []string{"namespace/name"}},
		{"", "serve --certs=managed --cert-lifetime 9s", 2, []string{"at least 10s"}},
		{"", "serve --certs=managed --ca-lifetime 24h", 2, []string{"three times --cert-lifetime"}},
		{"", "serve --cert-lifetime 1h", 2, []string{"is for --certs=managed"}},
		{"", "serve --certs=managed --kubeconfig /nowhere", 2, []string{"pass --kubeconfig", "/nowhere"}},
		{"", "certs init -o secret", 2, []string{"--service"}},
		{"", "certs init --service a.b", 2, []string{"namespace/name"}},
		{"", "steps -o xml", 2, []string{"text or json"}},
		{"", "version", 0, []string{"dev"}},
		{"nonsense", "show", 2, []string{"no AdmissionReview came back", "nonsense"}},
		{`{"response":{"uid":"u","allowed":false,"status":{"code":403,"reason":"Forbidden","message":"no"}}}`, "show", 1, []string{"denied", "403 Forbidden", "no"}},
	}
	for _, c := range cases {
		code, out, errors := run(t, c.in, strings.Fields(c.args)...)
		if code != c.code {
			t.Errorf("usher %s: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errors)
		}
		for _, want := range c.says {
			if !strings.Contains(out+errors, want) {
				t.Errorf("usher %s does not say %q:\n%s%s", c.args, want, out, errors)
			}
		}
	}
}

// TestCertsInit: `serve --cert-dir` and `webhooks --ca-file` accept what it writes.
func TestCertsInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	code, secret, errors := run(t, "", "certs", "init", "--service", "demo/door", "--out", dir, "-o", "secret")
	if code != 0 || !strings.Contains(secret, "kind: Secret") || strings.Contains(secret, "ca.key") {
		t.Fatalf("%d %s %s", code, secret, errors)
	}
	short := filepath.Join(t.TempDir(), "short")
	if code, _, errors := run(t, "", "certs", "init", "--days", "30", "--out", short); code != 0 {
		t.Fatal(errors)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(short, "tls.crt"), filepath.Join(short, "tls.key"))
	if err != nil || pair.Leaf.NotAfter.After(time.Now().AddDate(0, 0, 31)) || pair.Leaf.NotAfter.Before(time.Now().AddDate(0, 0, 29)) {
		t.Errorf("--days 30: %v until %v", err, pair.Leaf.NotAfter)
	}
	if code, _, errors := run(t, "", "certs", "init", "--out", dir); code != 2 || !strings.Contains(errors, "--overwrite") {
		t.Errorf("a CA was overwritten: %d %s", code, errors)
	}
	if code, out, errors := run(t, "", "webhooks", "--ca-file", filepath.Join(dir, "ca.crt")); code != 0 || strings.Count(out, "caBundle: LS0t") != 4 {
		t.Errorf("%d %s %s", code, out, errors)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	many := filepath.Join(short, "many.crt")
	if err := os.WriteFile(many, bytes.Repeat(ca, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errors := run(t, "", "webhooks", "--ca-file", many); code != 2 || !strings.Contains(errors, "at most 32 KiB") {
		t.Errorf("many CAs: %d %s", code, errors)
	}
	s := start(t, "--cert-dir", dir)
	if s.out.String() != "" {
		t.Errorf("a service in a cluster greets nobody: %s", s.out)
	}
	if code, text := s.get(t, "http://"+s.operations+"/readyz"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
}

// TestReviewKnowsEveryKind: `usher review` warns about unknown fields, so it needs the types of all kinds.
func TestReviewKnowsEveryKind(t *testing.T) {
	known := map[string]bool{}
	for kind := range review.Types(routes.Suites()) {
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
	if got := strings.Join(fields, " "); got != "after before calls kind name namespace operation source verdict" {
		t.Errorf("fields %s", got)
	}
}

// TestGoldenCommandLine: docs/command-line.md is the --help output of every command.
func TestGoldenCommandLine(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The command line\n\nWhat `--help`, or `--help-all` if there is that, prints of every command, written by `make golden`. `usher completion --help` says how to make a shell complete\n" +
		"commands, flags, gates, steps, paths and suites.\n")
	for _, c := range commands(command.Program{Suites: routes.Suites()}.Root()) {
		if c.Name() == "version" || c.Name() == "certs" { // the one says all in its line, the other does nothing itself
			continue
		}
		help := "--help"
		if c.Flags().Lookup("help-all") != nil {
			help = "--help-all"
		}
		_, out, _ := run(t, "", append(strings.Fields(c.CommandPath())[1:], help)...)
		fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", c.CommandPath(), out)
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
	served := launched(t, launch{args: []string{"--config", policy}})
	for command, said := range map[string]string{"review": review, "test": test, "serve": served.log.String()} {
		for _, want := range []string{"rules[0].match.resources[0]: no request matches deployments: apps/v1 is a group with a version",
			"restrictions[0].requests[0].resources[0]: no request matches deployments: the core group"} {
			if strings.Count(said, want) != 1 {
				t.Errorf("%s: not once: %s\n%s", command, want, said)
			}
		}
	}
}

// TestStepsWarns: `usher steps` prints what is probably not meant in a policy.
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
