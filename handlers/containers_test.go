package handlers

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// TestCheckContainers: containers are counted over all lists, in pods and in the templates of reservations; what is stored
// stays.
func TestCheckContainers(t *testing.T) {
	list := func(name string, n int) string {
		return fmt.Sprintf(`%q:[%s]`, name, strings.TrimSuffix(strings.Repeat("{},", n), ","))
	}
	all := func(lists ...string) string { return `{"spec":{` + strings.Join(lists, ",") + `}}` }
	for _, c := range []struct {
		name, kind, object, old string
		want                    string
	}{
		{"a few", "Pod", all(list("containers", 3)), "", ""},
		{"as many as may be", "Pod", all(list("containers", 300), list("initContainers", 199), list("ephemeralContainers", 1)), "", ""},
		{"one more", "Pod", all(list("containers", 300), list("initContainers", 200), list("ephemeralContainers", 1)), "",
			"spec.containers: Too many: 501: a pod may have at most 500 containers"},
		{"one list", "Pod", all(list("initContainers", 501)), "", "Too many: 501"},
		{"stored with more", "Pod", all(list("containers", 5000)), all(list("containers", 5000)), ""},
		{"stored with more, fewer now", "Pod", all(list("containers", 4999)), all(list("containers", 5000)), ""},
		{"stored with more, another list now", "Pod", all(list("initContainers", 600)), all(list("containers", 600)), ""},
		{"stored with more, and one added", "Pod", all(list("containers", 5001)), all(list("containers", 5000)), "Too many: 5001"},
		{"stored with few", "Pod", all(list("containers", 501)), all(list("containers", 1)), "Too many: 501"},
		{"a reservation", "Reservation", `{"spec":{"template":` + all(list("containers", 501)) + `}}`, "",
			"spec.template.spec.containers: Too many: 501"},
		{"not of a pod", "Node", all(list("containers", 501)), "", ""},
		{"no list", "Pod", `{"spec":{"containers":{"a":1},"initContainers":"x","ephemeralContainers":null}}`, "", ""},
		{"no object", "Pod", `{"spec":[]}`, "", ""},
		{"nothing", "Pod", `{}`, "", ""},
		{"a string", "Reservation", `{"spec":{"template":"x"}}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &admit.Request{Kind: metav1.GroupVersionKind{Kind: c.kind}, Object: parsed(t, c.object)}
			if c.old != "" {
				req.OldObject = parsed(t, c.old)
			}
			err := checkContainers(req)
			if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %q", got, c.want)
			}
			if req.Object.Err() != nil {
				t.Error("counting is no reading:", req.Object.Err())
			}
		})
	}
}

func parsed(t *testing.T, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
