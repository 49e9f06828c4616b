package process

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/config"
	"usher.dev/usher/mutators/placement"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/seed"
)

// planted is a field that no type has.
const planted = "plantedByTheTest"

// plant puts a numbered unknown field into every object of a tree and returns the objects by number.
func plant(tree any, objects map[string]map[string]any) {
	switch t := tree.(type) {
	case map[string]any:
		for _, child := range t {
			plant(child, objects)
		}
		id := fmt.Sprint(len(objects))
		t[planted], objects[id] = id, t
	case []any:
		for _, child := range t {
			plant(child, objects)
		}
	}
}

// collectPlanted finds the objects with a planted field.
func collectPlanted(tree any, objects map[string]map[string]any) {
	switch t := tree.(type) {
	case map[string]any:
		if id, ok := t[planted].(string); ok {
			objects[id] = t
		}
		for _, child := range t {
			collectPlanted(child, objects)
		}
	case []any:
		for _, child := range t {
			collectPlanted(child, objects)
		}
	}
}

// checkUnknownFieldsSurvive posts an object with an unknown field at every level. After the patch each must still be in
// the same object: next to the same keys with the same texts, except for numbers that steps may change.
func checkUnknownFieldsSurvive(t *testing.T, mux http.Handler, name string, body []byte, object any) {
	t.Helper()
	before, after := map[string]map[string]any{}, map[string]map[string]any{}
	plant(object, before)
	raw, _ := json.Marshal(object)
	stored := storedAfter(t, mux, name, harness.WithObject(t, body, raw), raw)
	var tree any
	if err := json.Unmarshal(stored, &tree); err != nil {
		t.Fatal(err)
	}
	collectPlanted(tree, after)
	for id, was := range before {
		is, ok := after[id]
		if !ok {
			t.Fatalf("%s: a field of %v is lost", name, was)
		}
		for key, value := range was {
			if slices.Contains(identities, key) && !reflect.DeepEqual(is[key], value) {
				t.Fatalf("%s: %s was %v and is %v: a field moved to another object", name, key, value, is[key])
			}
		}
	}
	if again := storedAfter(t, mux, name, harness.WithObject(t, body, stored), stored); string(again) != string(stored) {
		t.Fatalf("%s: the second run changed the object", name)
	}
}

// identities are fields that no step changes, and that distinguish an object from similar ones.
var identities = []string{"name", "image", "key", "operator", "effect", "mountPath", "containerPort", "devicePath", "topologyKey", "ip", "uid", "kind", "type"}

// storedAfter returns what the API server would store: the patched object, or the same object without a patch.
func storedAfter(t *testing.T, mux http.Handler, name string, body, object []byte) []byte {
	t.Helper()
	w := harness.Post(mux, name, body)
	var answer admissionv1.AdmissionReview
	if w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &answer) != nil {
		t.Fatalf("%s: %d %s", name, w.Code, w.Body)
	}
	if len(answer.Response.Patch) == 0 {
		return object
	}
	return harness.ApplyPatch(t, object, answer.Response.Patch)
}

func TestUnknownFieldsSurviveSamples(t *testing.T) {
	instances := harness.NewInstances(routes.Suites())
	for _, name := range harness.Samples(t) {
		mux := harness.DefaultServer().Serve(instances.Of(t, name).Routes())
		var review struct {
			Request struct{ Object map[string]any }
		}
		body := harness.ReadSample(t, name)
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatal(err)
		}
		if review.Request.Object == nil || harness.Post(mux, name, body).Code != http.StatusOK {
			continue
		}
		checkUnknownFieldsSurvive(t, mux, name, body, review.Request.Object)
	}
}

// TestUnknownFieldsSurviveRandomPods does the same with random pods.
func TestUnknownFieldsSurviveRandomPods(t *testing.T) {
	mux := sampleMux(t)
	body := harness.ReadSample(t, "mutate-pods/lifespan-three")
	random := seed.Random(t)
	for n := range 500 {
		checkUnknownFieldsSurvive(t, mux, fmt.Sprintf("mutate-pods/pod %d", n), body, randomPod(random))
	}
}

// TestUnknownFieldsSurviveEverything does the same with all steps for pods at work, which insert containers before and
// between the pod's.
func TestUnknownFieldsSurviveEverything(t *testing.T) {
	suites := routes.Suites()
	policy := harness.Together(t, suites)
	config.SectionOf[*placement.NodeSelector](policy).Tolerations = nil // by which a toleration that another one covers is removed, with its fields
	mux := harness.DefaultServer().Serve(harness.OpenInstance(t, suites, harness.DemoGates(t, suites), policy).Routes())
	body := harness.ReadSample(t, "mutate-pods/lifespan-three")
	random := seed.Random(t)
	for n := range 300 {
		checkUnknownFieldsSurvive(t, mux, fmt.Sprintf("mutate-pods/pod %d", n), body, randomPod(random))
	}
}

type object = map[string]any

// randomPod returns a pod with or without anything that a hand-written or old pod may have.
func randomPod(r *rand.Rand) object {
	labels := object{"acme.com/lifespan-requested": fmt.Sprint(r.IntN(15)), "a/b~c": "ü", `q"\`: "<&>"}
	pod := object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "random"}, "spec": object{}}
	maybe(r, pod["metadata"].(object), "labels", labels)
	maybe(r, pod["metadata"].(object), "annotations", object{"x/y~z": "{\"a\":1}"})
	maybe(r, pod["spec"].(object), "tolerations", []any{object{"key": "k", "operator": "Exists"},
		object{"key": "acme.com/lifespan-remaining", "operator": "Equal", "value": fmt.Sprint(r.IntN(15)), "effect": "NoSchedule"}})
	for _, list := range []string{"containers", "initContainers"} {
		containers := []any{}
		for i := range r.IntN(4) {
			c := object{"name": fmt.Sprint("c", i), "image": "i"}
			maybe(r, c, "env", []any{object{"name": "A", "value": "1"}, object{"name": []string{"KUBE", "B"}[r.IntN(2)]}})
			maybe(r, c, "resources", object{"limits": object{"cpu": "1000m"}})
			containers = append(containers, c)
		}
		maybe(r, pod["spec"].(object), list, containers)
	}
	if r.IntN(10) == 0 {
		pod["spec"] = nil
	}
	return pod
}

// maybe sets a field, leaves it out, or makes it null or empty.
func maybe(r *rand.Rand, in object, key string, value any) {
	switch r.IntN(5) {
	case 0:
	case 1:
		in[key] = nil
	case 2:
		if _, list := value.([]any); list {
			in[key] = []any{}
		} else {
			in[key] = object{}
		}
	default:
		in[key] = value
	}
}
