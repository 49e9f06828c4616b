package oracle

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"usher.dev/usher/e2e/kubetest"
)

var edits = flag.Int("edits", 1500, "how many edited requests")

// TestEditedSamples sends randomly edited samples through all webhooks and a plugin that adds a container, as a mesh
// does. For every edit, the API server can use the answers, no field is lost, and a second run changes nothing.
func TestEditedSamples(t *testing.T) {
	random := &editor{Rand: kubetest.Random(t)}
	able := editable()
	server, err := newAPIServer(all.reinvoked(), namespaces(), addsSidecar{admission.NewHandler(admission.Create)})
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]int{}
	for i := range *edits {
		s := able[random.IntN(len(able))]
		object, done := random.edited(t, s, able)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			verdicts[admitEdited(t, server, s, object)]++
			if t.Failed() {
				t.Logf("%s, edited: %s\n%s", s.name, strings.Join(done, "; "), object)
			}
		})
	}
	t.Logf("%v; audit annotations that a second call lost: %d", verdicts, server.lost)
	if verdicts["changed"] < *edits/10 || verdicts["refused"] < *edits/50 {
		t.Errorf("too few are changed or refused: the edits test nothing")
	}
}

// reinvoked makes every webhook reinvocable. In a cluster the core suite's are not: a container that is added after
// them remains unchanged there, and would be changed when the result is sent again.
func (c configurations) reinvoked() configurations {
	c.mutating = *c.mutating.DeepCopy()
	// One of the two node amplifiers, as `usher webhooks` would print for both suites: two compound.
	c.mutating.Webhooks = slices.DeleteFunc(c.mutating.Webhooks, func(w registration.MutatingWebhook) bool { return w.Name == "mutate-nodes.usher.dev" })
	needed := registration.IfNeededReinvocationPolicy
	for i := range c.mutating.Webhooks {
		c.mutating.Webhooks[i].ReinvocationPolicy = &needed
	}
	return c
}

// editable returns the samples of the default policy whose object is sent to usher by the rules.
func editable() []*sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s *sample) bool {
		return s.policy != "" || !served[s.path] || s.golden.code != 200 || len(s.request.Object.Raw) < 10
	})
}

// admitEdited returns the result of an edited request: changed, unchanged, refused, or not asked.
func admitEdited(t *testing.T, server *apiServer, s *sample, object []byte) string {
	t.Helper()
	attributes, err := s.attributes(asStored, object)
	if err != nil {
		return "no object" // an edit removed a field that the API server needs for decoding
	}
	got := server.admit(attributes)
	asked := len(got.calls.sent) > 0
	switch {
	case !asked:
		return "not asked"
	case unusable(got.err) != nil:
		t.Errorf("%v\nthe last answer: %s", unusable(got.err), got.calls.answered[len(got.calls.answered)-1])
		return "failed"
	case got.err != nil && s.request.Kind.Kind == "Node" && s.request.SubResource == "status":
		t.Errorf("a heartbeat is refused: %v", got.err)
	}
	if got.err != nil {
		return "refused"
	}
	after := plain(t, got.object)
	var before map[string]any
	if err := json.Unmarshal(object, &before); err != nil {
		t.Fatal(err)
	}
	if want, got := futures(before), futures(after); want != got {
		t.Errorf("%d unknown fields were sent, %d are left", want, got)
	}
	checkAgain(t, server, s, after)
	if cmp.Equal(before, after) {
		return "unchanged"
	}
	return "changed"
}

// checkAgain checks that the result does not change when it is sent again.
func checkAgain(t *testing.T, server *apiServer, s *sample, result map[string]any) {
	t.Helper()
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := s.attributes(asStored, text)
	if err != nil {
		t.Fatal(err)
	}
	got := server.admit(attributes)
	if got.err != nil && strings.Contains(got.err.Error(), "evaluate-quota: ") && strings.Contains(got.err.Error(), ", reserved ") {
		return // what was admitted before has taken the room in the quota
	}
	if got.err != nil {
		t.Errorf("the result, sent again, is refused: %v", got.err)
		return
	}
	if diff := cmp.Diff(result, plain(t, got.object)); diff != "" {
		t.Errorf("the result, sent again, is changed again: %s", diff)
	}
}

// addsSidecar is a plugin that runs after the webhooks and adds a container, so that webhooks with IfNeeded are called
// again.
type addsSidecar struct{ *admission.Handler }

func (addsSidecar) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok || a.GetKind().Kind != "Pod" || a.GetSubresource() != "" || !a.GetReinvocationContext().ShouldReinvoke() {
		return nil // no webhook is called again if none has changed anything
	}
	containers, found, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
	if err != nil || !found {
		return nil
	}
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok && c["name"] == "sidecar" {
			return nil
		}
	}
	resources := map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "64Mi"},
		"limits": map[string]any{"cpu": "1", "memory": "1Gi"}}
	containers = append(containers, map[string]any{"name": "sidecar", "image": "mesh", "resources": resources})
	return unstructured.SetNestedSlice(pod.Object, containers, "spec", "containers")
}

// future is the prefix of the names of fields that no Go type has.
const future = "futureField"

// futures counts them.
func futures(value any) (n int) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if strings.HasPrefix(key, future) {
				n++
			}
			n += futures(inner)
		}
	case []any:
		for _, inner := range value {
			n += futures(inner)
		}
	}
	return n
}

// editor makes random edits.
type editor struct{ *rand.Rand }

// edited returns a sample's object after one to four edits, and a description of the edits.
func (e *editor) edited(t *testing.T, s *sample, others []*sample) (text []byte, done []string) {
	t.Helper()
	object := decoded(t, s)
	for range 1 + e.IntN(4) {
		other := others[e.IntN(len(others))]
		done = append(done, e.edit(object, func() map[string]any { return decoded(t, other) }))
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text, done
}

func decoded(t *testing.T, s *sample) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(s.request.Object.Raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// edit makes one edit. It does not change the fields that identify the object for the API server.
func (e *editor) edit(object map[string]any, other func() map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		object["metadata"] = meta
	}
	switch e.IntN(10) {
	case 0:
		meta["labels"] = nil
		return "labels null"
	case 1:
		meta["annotations"] = nil
		return "annotations null"
	case 2:
		meta["annotations"] = map[string]any{"a/b~c": "d", "usher.dev/amplified": "{", "usher": ""}
		return "strange annotations"
	case 3:
		other, _ := other()["metadata"].(map[string]any)
		meta["labels"], meta["annotations"] = other["labels"], other["annotations"]
		return "labels and annotations of another sample"
	case 4:
		eachContainer(object, func(c map[string]any) { delete(c, "resources") })
		return "no resources"
	}
	return e.editSomewhere(object)
}

// editSomewhere changes a field anywhere below metadata, spec and status.
func (e *editor) editSomewhere(object map[string]any) string {
	var at []map[string]any
	for _, top := range []string{"metadata", "spec", "status"} {
		at = append(at, objects(object[top])...)
	}
	parent := at[e.IntN(len(at))]
	switch e.IntN(3) {
	case 0:
		name := fmt.Sprint(future, e.IntN(100))
		parent[name] = map[string]any{"deep": []any{1.0, "two", nil}}
		return "+" + name
	case 1:
		for _, key := range sorted(parent) {
			if list, ok := parent[key].([]any); ok && len(list) > 0 {
				parent[key] = append(list, list[e.IntN(len(list))])
				return "one of " + key + " twice"
			}
		}
	}
	keys := sorted(parent)
	if len(keys) == 0 {
		return "nothing"
	}
	key := keys[e.IntN(len(keys))]
	if e.IntN(2) == 0 {
		delete(parent, key)
		return "-" + key
	}
	parent[key] = []any{nil, "", "16", 1.5, true, []any{}, map[string]any{}}[e.IntN(7)]
	return fmt.Sprintf("%s = %v", key, parent[key])
}

// sorted returns the keys that may be edited, in a reproducible order.
func sorted(object map[string]any) (keys []string) {
	for key := range object {
		if key != "name" && key != "namespace" && key != "uid" && !strings.HasPrefix(key, future) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// objects returns all objects in a value, including the value itself.
func objects(value any) (all []map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		all = append(all, value)
		for _, key := range sorted(value) {
			all = append(all, objects(value[key])...)
		}
	case []any:
		for _, inner := range value {
			all = append(all, objects(inner)...)
		}
	}
	return all
}

func eachContainer(object map[string]any, do func(map[string]any)) {
	for _, m := range objects(object["spec"]) {
		for _, list := range []string{"containers", "initContainers"} {
			containers, _ := m[list].([]any)
			for _, c := range containers {
				if c, ok := c.(map[string]any); ok {
					do(c)
				}
			}
		}
	}
}
