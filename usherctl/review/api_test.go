package review_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// around has an object of each kind that decides about pods.
const around = `
{apiVersion: v1, kind: Namespace, metadata: {name: safe, labels: {pod-security.kubernetes.io/enforce: restricted, admission-webhook: enabled}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: small, namespace: limited}, spec: {limits: [{type: Container, default: {memory: 1Gi}, max: {memory: 2Gi}}]}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: full}, spec: {hard: {pods: "0"}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: team}
spec:
  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: owned}}, resourceRules: [{operations: [CREATE], apiGroups: ["", apps], apiVersions: [v1], resources: [pods, deployments]}]}
  validations: [{expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"}]
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: team}, spec: {policyName: team, validationActions: [Deny]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: label}
spec:
  reinvocationPolicy: Never
  matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: labelled}}, resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"by": "policy"}}}'}}]
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: label}, spec: {policyName: label}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mesh}
webhooks:
- {name: inject.mesh.example, clientConfig: {url: "https://192.0.2.1"}, sideEffects: None, admissionReviewVersions: [v1],
   namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: meshed}}, rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
`

// TestAnswers: webhooks of others answer as a file says. What it does not answer is not judged.
func TestAnswers(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: meshed}, spec: {containers: [{name: c, image: i}]}}"
	const to = "{webhook: inject.mesh.example, "
	for _, c := range []struct {
		answers, says string
		code          int
	}{
		{to + `allowed: true, warnings: [slow], patch: [{op: add, path: /spec/containers/-, value: {name: proxy, image: p}}]}`, "inject.mesh.example (mesh)  mutated\n    warning: slow", 0},
		{to + `allowed: true, patch: [{op: add, path: /spec/containers/-, value: {name: proxy, image: p}}]}`, "+    image: p\n+    imagePullPolicy: Always\n+    name: proxy", 0},
		{to + `allowed: true, patch: [{op: add, path: /spec/containers/0/imagePullPolicy, value: Sometimes}]}`, `invalid: spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes"`, 1},
		{to + `allowed: true, patch: [{op: remove, path: /spec/absent}]}`, "message: its patch cannot be applied: ", 2},
		{to + `allowed: true, patch: [{op: replace, path: /spec/containers, value: 1}]}`, "invalid: MutatingAdmissionWebhook: ", 1},
		{to + `allowed: false, code: 422, message: wrong}`, "inject.mesh.example (mesh)  denied\n    message: wrong", 1},
		{to + `allowed: false, message: wrong, match: {namespace: meshed, resource: pods, operation: CREATE}}`, "inject.mesh.example (mesh)  denied\n    message: wrong", 1},
		{to + `match: {namespace: n}, allowed: false}`, "its answer is not known", 2},
		{to + `match: {resource: pods/status}, allowed: false}`, "its answer is not known", 2},
		{to + `match: {operation: UPDATE}, allowed: false}, ` + to + `allowed: true}`, "1 allowed", 0},
		{`{webhook: inject.mesh.exampl, allowed: true}`, "warning: --answers: no webhook configuration has inject.mesh.exampl; did you mean inject.mesh.example?", 2},
		{to + `allow: true}`, `answers.yaml: error unmarshaling JSON: while decoding JSON: json: unknown field "allow"`, 2},
		{to + `allowed: true}, {webhook: x.example}`, "answer 2: allowed: true or false is missing", 2},
		{to + `allowed: false, patch: []}`, "answer 1: patch: a refusal has none", 2},
		{`{webhook: validate-pods.usher.dev, allowed: true}`, "is usher's own", 2},
	} {
		t.Run(c.answers, func(t *testing.T) {
			cluster, answers := t.TempDir(), filepath.Join(t.TempDir(), "answers.yaml")
			if err := errors.Join(os.WriteFile(filepath.Join(cluster, "all.yaml"), []byte(around), 0o600),
				os.WriteFile(answers, []byte("["+c.answers+"]"), 0o600)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			code := command.Run(t.Context(), tool.Env{Suites: routes.Suites(), Streams: cli.Streams{In: strings.NewReader(pod), Out: &out, Err: &out}},
				[]string{"review", "--suite=core", "--cluster-dir", cluster, "--answers", answers, "-"})
			if code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, &out)
			}
		})
	}
}

// TestAPIServer: the verdict is that of an API server with the objects of the files, and what else than usher had a part in it is named.
func TestAPIServer(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: %N}, spec: {containers: [{name: c, image: i%S}]}}"
	in := func(namespace, more string) string {
		return strings.NewReplacer("%N", namespace, "%S", more).Replace(pod)
	}
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: %N}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: %I}]}}}}"
	of := func(namespace, image string) string {
		return strings.NewReplacer("%N", namespace, "%I", image).Replace(deployment)
	}
	for _, c := range []struct {
		name, file string
		flags      []string
		code       int
		says, not  string
	}{
		{"a plug-in of a level of security", in("safe", ""), nil, 1, `invalid: PodSecurity: pods "a" is forbidden: violates PodSecurity "restricted:latest"`, "/validate-pods"},
		{"what a LimitRange gives", in("limited", ""), nil, 0, "  LimitRanger  changed\n", "ServiceAccount"},
		{"what each pod gets", in("limited", ""), []string{"--explain"}, 0, "LimitRanger, ServiceAccount, Priority, DefaultTolerationSeconds  changed\n", "default.kubernetes.io"},
		{"what a LimitRange refuses", in("limited", ", resources: {limits: {memory: 3Gi}}"), nil, 1, "invalid: LimitRanger: pods \"a\" is forbidden: maximum memory usage per Container is 2Gi, but limit is 3Gi", "allowed  CREATE"},
		{"a quota", in("full", ""), nil, 1, "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0", "allowed  CREATE"},
		{"a policy that refuses", in("owned", ""), nil, 1, "  ValidatingAdmissionPolicy  denied\n    message: pods \"a\" is forbidden: ValidatingAdmissionPolicy 'team' with binding 'team' denied request", "invalid"},
		{"of a workload", of("owned", "i"), nil, 1, `message: deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'team'`, "allowed  "},
		{"a policy that changes", in("labelled", ""), nil, 0, "+    by: policy", "terminationGracePeriodSeconds"},
		{"a webhook of others", in("meshed", ""), nil, 2, "not judged: webhook inject.mesh.example of mesh: its answer is not known", "1 allowed"},
		{"what a webhook of others may mend", in("meshed", ", stdin: true, imagePullPolicy: Sometimes"), nil, 2, "spec.containers[0].imagePullPolicy: Unsupported value", "1 invalid"},
		{"a template", of("a", "' '"), []string{"--no-templates"}, 0, "allowed  CREATE Deployment", "invalid"},
		{"the pod of a template", of("a", "' '"), nil, 1, "invalid: spec.containers[0].image: Invalid value: \" \": must not have leading or trailing whitespace", "1 allowed"},
		{"unknown fields", strings.Replace(of("a", "i, imag: b"), "selector", "replica: 1, selector", 1), nil, 0,
			"unknown field \"spec.replica\": kubectl refuses it, and the API server drops it\n    warning: unknown field \"spec.template.spec.containers[0].imag\"", "\"spec.containers"},
		{"unknown fields with --strict", strings.Replace(of("a", "i, imag: b"), "selector", "replica: 1, selector", 1), []string{"--strict"}, 1,
			`strict decoding error: unknown field "spec.replica", unknown field "spec.template.spec.containers[0].imag"`, "1 allowed"},
		{"an unknown field of a kind that no route is for", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dat: {a: b}}", nil, 0, `unknown field "dat"`, "invalid"},
		{"unknown fields of kinds that no route is for", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dat: {a: b}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}", nil, 0,
			"unknown field \"dat\": kubectl refuses it, and the API server drops it\n", "skipped  2 objects"},
		{"a kind that no file defines", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}", []string{"--path=/validate-pods"}, 2, "no file has the CustomResourceDefinition of Widget", "1 allowed"},
		{"an object that the cluster has", around, nil, 0, "8 objects: 8 skipped", "already exists"},
		{"an object of the cluster that cannot be stored", in("a", "") + "\n---\n{apiVersion: v1, kind: LimitRange, metadata: {name: wrong, namespace: a}, spec: {limits: {}}}", nil, 1, "warning: counts as absent: LimitRange a/wrong", "2 invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, file := t.TempDir(), filepath.Join(t.TempDir(), "file.yaml")
			if err := errors.Join(os.WriteFile(filepath.Join(cluster, "all.yaml"), []byte(around), 0o600), os.WriteFile(file, []byte(c.file), 0o600)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			args := append([]string{"review", "--suite=core", "--cluster-dir", cluster, file}, c.flags...)
			code := command.Run(t.Context(), tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &out, Err: &out}}, args)
			if code != c.code || !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), c.not) {
				t.Errorf("exit code %d, want %d, %q and not %q:\n%s", code, c.code, c.says, c.not, &out)
			}
		})
	}
}
