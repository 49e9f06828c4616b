package admit

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckBounds: containers are counted over all lists, in pods and in the templates of reservations; what is stored
// stays.
func TestCheckBounds(t *testing.T) {
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
			req := &Request{Kind: metav1.GroupVersionKind{Kind: c.kind}, Object: parse(t, c.object)}
			if c.old != "" {
				req.OldObject = parse(t, c.old)
			}
			err := CheckBounds(req)
			if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %q", got, c.want)
			}
			if req.Object.Err() != nil {
				t.Error("counting is no reading:", req.Object.Err())
			}
		})
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		name, in string
		n        int
		want     string
	}{
		{"short", "abc", 4, "abc"},
		{"as long as it may be", "abcd", 4, "abcd"},
		{"one too long", "abcde", 4, "abc…"},
		{"characters, not bytes", "ääääää", 4, "äää…"},
		{"invalid UTF-8", "\xff\xff\xff\xff\xff", 4, "\xff\xff\xff…"},
		{"empty", "", 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Shorten(c.in, c.n); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
