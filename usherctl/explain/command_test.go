package explain_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// TestExplainMessages: whole lines of kubectl are explained, with the webhooks of a cluster if there is one.
func TestExplainMessages(t *testing.T) {
	dir := t.TempDir()
	const configuration = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: foreign},
webhooks: [{name: w.example.com, clientConfig: {url: 'https://127.0.0.1:1/404'}, failurePolicy: Fail, matchConditions: [{name: m, expression: "object.spec.nope == 'x'"}]}]}`
	if err := os.WriteFile(filepath.Join(dir, "webhooks.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	const nope = `Error from server (Forbidden): error when creating "p.yaml": pods "p1" is forbidden: expression 'object.spec.nope == 'x'' resulted ` +
		`in error: no such key: nope`
	const secret = `Error from server (Forbidden): admission webhook "mutate-pods.usher.dev" denied the request: ` +
		`rules: spec.containers[0].env[0].value: Invalid value: "s3cret": no (usher, refusal 1f0c9a3e)`
	for _, c := range []struct {
		name, in, flags string
		code            int
		says            string
	}{
		{"a matchCondition", nope, "", 1, "match-condition-failed"},
		{"a matchCondition, with the cluster", nope, "--cluster-dir=" + dir, 1, "ValidatingWebhookConfiguration foreign, webhook w.example.com"},
		{"404, with the cluster", `Error from server (InternalError): Internal error occurred: failed calling webhook "w.example.com": failed to call ` +
			`webhook: the server could not find the requested resource`,
			"--cluster-dir=" + dir, 1, "its server (https://127.0.0.1:1/404) was reached"},
		{"a patch", `Error from server (InternalError): error when creating "p.yaml": Internal error occurred: remove operation does not apply: doc is ` +
			`missing path: "/spec/x": missing value`, "", 1, "could not apply the patch"},
		{"a conversion", `Error from server: error when creating "f.yaml": conversion webhook for example.com/v1, Kind=Foo failed: Post ` +
			`"https://c.x.svc:443/?timeout=30s": service "c" not found`, "", 1, "custom kind Foo"},
		{"a hidden value", secret, "", 2, `Invalid value: "***"`},
		{"a value that is shown", secret, "--show-values", 2, `Invalid value: "s3cret"`},
		{"no refusal", "pod/web created", "", 2, "not that of a refusal"},
		{"a policy that is not there", nope, "--config=" + filepath.Join(dir, "none.yaml"), 2, "none.yaml"},
		{"a cluster that is not there", nope, "--cluster-dir=" + filepath.Join(dir, "none"), 2, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{In: strings.NewReader(c.in), Out: &out, Err: &out}}
			if code := command.Run(t.Context(), env, append([]string{"explain", "-"}, strings.Fields(c.flags)...)); code != c.code ||
				!strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d\n%s", code, out.String())
			}
		})
	}
}
