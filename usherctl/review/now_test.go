package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/command/flags"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// TestNow: what the cluster has decides about the pod that a controller would create as of now, and what may not be read is not judged.
func TestNow(t *testing.T) {
	const set = `{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-a", "namespace": %q, "uid": "u", "resourceVersion": "7"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
		"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": %q}}}]}}}, "status": {"replicas": 0}}`
	for name, c := range map[string]struct {
		namespace, cpu string
		forbidden      []string
		verdict        report.Verdict
		says           string
	}{
		"allowed":             {"shop", "1", nil, report.Skipped, ""},
		"refused":             {"shop", "3", nil, report.Invalid, `LimitRanger: pods "web-a-x7k2p" is forbidden: maximum cpu usage per Container is 2`},
		"no Namespace":        {"gone", "1", nil, report.Invalid, `namespaces "gone" not found`},
		"may not be read":     {"shop", "1", []string{"limitranges"}, report.NotJudged, "limitranges in namespace shop may not be read"},
		"nothing may be read": {"shop", "1", []string{""}, report.NotJudged, "namespaces shop may not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := (&flags.Cluster{Source: "api", Kubeconfig: clusterOf(t, c.forbidden...)}).OpenSource()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			env := tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &errs, Err: &errs}}
			policy, err := config.Load("", env.Suites.Schema())
			if err != nil {
				t.Fatal(err)
			}
			gates, err := env.Suites.ParseGates("")
			if err != nil {
				t.Fatal(err)
			}
			reports, err := Now{Source: source, Policy: policy, Gates: gates}.Review(t.Context(), env, c.namespace,
				requests.Document{Source: "as of now", JSON: []byte(fmt.Sprintf(set, c.namespace, c.cpu))})
			if err != nil || len(reports) != 1 {
				t.Fatalf("%v: %d reports", err, len(reports))
			}
			said := strings.Join(append(reports[0].Invalid, reports[0].Unjudged...), "\n")
			if reports[0].Verdict != c.verdict || !strings.Contains(said, c.says) {
				t.Errorf("%s %s\nhas no %s", reports[0].Verdict, said, c.says)
			}
		})
	}
}
