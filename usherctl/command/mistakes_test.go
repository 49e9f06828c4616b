package command

import (
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/tool"
)

// TestMistakesAreErrors: a flag value that matches nothing is an error that quotes it and suggests a correction.
func TestMistakesAreErrors(t *testing.T) {
	const pods, deployment = "../../samples/manifests/pods.yaml", "../../samples/manifests/deployment.yaml"
	for line, want := range map[string]string{
		"review --operation UPDATE --subresource statsu -o review " + pods: "--subresource statsu: no kind and no route has it; did you mean status?",
		"completion nonsense":                                                       "completion nonsense: must be one of bash, zsh, fish, powershell",
		"review --template-path spec.nothing " + pods:                               "--template-path spec.nothing: no custom resource has anything",
		"review --template-path spec.template " + deployment:                        "--template-path spec.template: no custom resource has anything",
		"doctor --cluster-dir ../../samples/cluster --template-path spec.x " + pods: "--template-path spec.x: no custom resource has anything",
		"doctor --cluster-dir ../../samples/cluster --template-path spec.x":         "--template-path goes with files",
		"explain --refusal 1f0c9a3e -":                                              "leave out --refusal to have the message explained, or the message",
		"explain --audit-log ../../samples/audit/audit.log -":                       "leave out --audit-log to have the message explained, or the message",
		"explain --blame -":                                                         "--blame and --documents go with --audit-log",
		"explain -n shop -":                                                         "-n, --uid, --kind, --blame and --documents go with --audit-log",
		"explain -n shop --cluster-dir ../../samples/cluster -":                     "-n, --uid, --kind, --blame and --documents go with --audit-log",
	} {
		in := strings.NewReader(`Error from server: admission webhook "a.example.com" denied the request: no`)
		var out, errs strings.Builder
		code := Run(t.Context(), tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{In: in, Out: &out, Err: &errs}}, strings.Fields(line))
		if code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("usherctl %s: exit code %d, %s", line, code, errs.String())
		}
	}
}
