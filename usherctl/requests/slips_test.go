package requests_test

import (
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/requests"
)

// TestSlips: what is misspelt in a manifest is named with its place, its field, and what was probably meant.
func TestSlips(t *testing.T) {
	const definition = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: a.b, scope: Cluster, names: {kind: X, plural: x}, versions: [{name: v1}]}}\n---\n"
	for text, want := range map[string]string{
		"{apiVersion: v1, kind: Namespac}":                                                    "f:1: kind Namespac: apiVersion v1 has no such kind; did you mean Namespace?",
		"{apiVersion: v1, kind: Namespace, metadata: {labls: {}}}":                            "f:1: metadata.labls: unknown field; did you mean labels?",
		"\n---\n{apiVersion: v1, kind: LimitRange, spec: {limits: [{defaul: {}}], limit: 1}}": "f:2: spec.limit: unknown field; did you mean limits?|f:2: spec.limits[0].defaul: unknown field; did you mean default?",
		"{apiVersion: v1, kind: Pod, spec: {containers: [{resources: {limts: {}}}]}}":         "f:1: spec.containers[0].resources.limts: unknown field; did you mean limits?",
		"{apiVersion: v1, kind: Pod, spec: {volumes: [{name: a, confgMap: {}, qqqqqqq: 1}]}}": "f:1: spec.volumes[0].confgMap: unknown field; did you mean configMap?|f:1: spec.volumes[0].qqqqqqq: unknown field",
		"{apiVersion: v2, kind: Pod}":                                                         "f:1: apiVersion v2: ",
		"{apiVersion: app/v1, kind: Deployment}":                                              "f:1: apiVersion app/v1: has no kind Deployment; did you mean apiVersion apps/v1",
		"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfigration}":  "did you mean ValidatingWebhookConfiguration?",
		"{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, spec: {rule: []}}":   "f:1: spec.rule: unknown field; did you mean rules?",
		"{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, spec: {mn: {}}}":   "f:1: spec.mn: unknown field; did you mean min?",
		"{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuta}":                    "did you mean ElasticQuota?",
		"{apiVersion: v1, kind: ConfigMap, data: {any: b}}":                                   "",
		"{apiVersion: a.b/v1, kind: X, spec: {}}\n---\n{apiVersion: a.b/v1, kind: X}":         "not looked at, since no file has their CustomResourceDefinitions: 2 X of a.b/v1",
		definition + "{apiVersion: a.b/v1, kind: X, spec: {}}":                                "",
	} {
		found, problems := manifest.Read("f", []byte(text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		slips := requests.SlipsIn(found, routes.Suites())
		lines := slips.Lines()
		slices.Sort(lines)
		if got := strings.Join(lines, "|"); got != want && (want == "" || !strings.Contains(got, want)) {
			t.Errorf("%s\n%s\nwant %s", text, got, want)
		}
		if (slips.Err() != nil) != (want != "" && slips.Unread == "") {
			t.Errorf("%s: %v", text, slips.Err())
		}
	}
}
