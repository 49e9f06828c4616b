package saved

import (
	"strings"
	"testing"
)

// TestParse: a file is read in the order of restoration, and one from which nothing can be restored is an error: an empty file is what
// an interrupted copy leaves, and nothing of it is missing in a cluster.
func TestParse(t *testing.T) {
	const webhooks, policy = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: w, uid: u}}\n",
		"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, status: {}}\n"
	for _, c := range []struct{ content, want, problem string }{
		{webhooks + "---\n" + policy, "ValidatingAdmissionPolicy p, MutatingWebhookConfiguration w", ""},
		{"", "", "file.yaml: has no webhook configuration"},
		{"---\n# nothing\n", "", "file.yaml: has no webhook configuration"},
		{"{apiVersion: v1, kind: List, items: []}", "", "file.yaml: has no webhook configuration"},
		{webhooks + "---\n{apiVersion: v1, kind: Secret, metadata: {name: s}}\n", "", "nothing else is restored"},
		{webhooks + "---\nkind: [\n", "", "yaml"},
	} {
		all, err := Parse("file.yaml", []byte(c.content))
		var names []string
		for _, o := range all {
			names = append(names, o.String())
		}
		if got := strings.Join(names, ", "); got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q: %s, %v; want %s, %q", c.content, got, err, c.want, c.problem)
		}
	}
}
