package policytest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// hooks are webhooks that are not usher's: one adds a container, one checks. usher's own are called between them.
const hooks = `
{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {admission-webhook: enabled}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: mesh}, webhooks: [{name: inject.mesh.example,
  admissionReviewVersions: [v1], sideEffects: None, clientConfig: {service: {name: m, namespace: m}},
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: quality}, webhooks: [{name: check.quality.example,
  admissionReviewVersions: [v1], sideEffects: None, clientConfig: {service: {name: q, namespace: q}},
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}]}
`

const (
	injects = "{webhook: inject.mesh.example, allowed: true, patch: [{op: add, path: /spec/containers/-, value: {name: proxy, image: p}}]}"
	refuses = "{webhook: check.quality.example, allowed: false, message: no owner}"
	allows  = "{webhook: check.quality.example, allowed: true, warnings: [no deputy]}"
)

// TestAnswers: cases know what webhooks of others answer, of their own file or of the command's, and coverage knows it, too. What has no
// answer is not judged.
func TestAnswers(t *testing.T) {
	for _, c := range []struct{ name, answers, key, flag, pod, expect, says string }{
		{"a patch, once", injects + "," + allows, "", "answers.yaml", "p", "{verdict: allowed, warnings: [no deputy], after: {contains: {spec: {containers: [{name: proxy}]}}}}", "1 passed"},
		{"a refusal", injects + "," + refuses, "answers: answers.yaml\n", "", "p", "{verdict: denied, code: 403, message: no owner}", "1 passed"},
		{"a refusal beside usher's", injects + "," + refuses, "answers: answers.yaml\n", "", "bad", "{verdict: denied, steps: {denied-names: refused}}", "parts of p.yaml without which a case fails: 1 of 1"},
		{"a refusal that hides no step", injects + "," + refuses, "answers: answers.yaml\n", "", "p", "{verdict: denied}", "parts of p.yaml without which a case fails: 0 of 1"},
		{"no answer", injects, "answers: answers.yaml\n", "", "p", "{verdict: not judged}", "1 passed"},
		{"the case's own file", injects + "," + refuses, "answers: answers.yaml\n", "absent.yaml", "p", "{verdict: denied}", "1 passed"},
		{"no file", injects, "", "absent.yaml", "p", "{verdict: allowed}", "answers: absent.yaml: open absent.yaml: "},
		{"no answers", "{webhook: a}", "answers: answers.yaml\n", "", "p", "{verdict: allowed}", "answers: answers.yaml: answer 1: allowed: true or false is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, text := range map[string]string{"cluster/hooks.yaml": hooks, "answers.yaml": "[" + c.answers + "]", "p.yaml": "names: {denied: [bad]}",
				"case.yaml": c.key + "config: p.yaml\ncluster: cluster\nexpect: " + c.expect + "\n" +
					"manifest: {apiVersion: v1, kind: Pod, metadata: {name: " + c.pod + "}, spec: {containers: [{name: app, image: nginx}]}}\n"} {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"test", "--suite=core", "--coverage", "."}
			if c.flag != "" {
				args = append(args, "--answers="+c.flag)
			}
			var out bytes.Buffer
			command.Run(t.Context(), tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &out, Err: &out}}, args)
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("want %q:\n%s", c.says, &out)
			}
		})
	}
}
