package live

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMerge3: what the manifest leaves out stays as it is stored, unless it was applied before.
func TestMerge3(t *testing.T) {
	const stored = `{"metadata":{"name":"a","labels":{"old":"1","foreign":"1"}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"1","tty":true},{"name":"injected"}]}},"rules":[1]}}`
	const last = `{"metadata":{"labels":{"old":"1"}}}`
	const manifest = `{"metadata":{"name":"a","labels":{"own":"1"}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"2"}]}}}}`
	for kind, containers := range map[string]string{"Deployment": `[{"name":"c","image":"2","tty":true},{"name":"injected"}]`, "Rollout": `[{"name":"c","image":"2"}]`} {
		for last, labels := range map[string]string{"": `{"old":"1","own":"1","foreign":"1"}`, last: `{"own":"1","foreign":"1"}`} {
			raw, err := merge3(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}, []byte(last), []byte(manifest), []byte(stored))
			want := `{"metadata":{"name":"a","labels":` + labels + `},"spec":{"template":{"spec":{"containers":` + containers + `}},"rules":[1]}}`
			var got, wanted any
			if _ = json.Unmarshal([]byte(want), &wanted); err != nil || json.Unmarshal(raw, &got) != nil || !reflect.DeepEqual(got, wanted) {
				t.Errorf("%s: %s, %v, want %s", kind, raw, err, want)
			}
		}
	}
}
