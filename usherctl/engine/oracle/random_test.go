package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"usher.dev/usher/usherctl/engine"
)

// The seed and the number of random requests of a sort: USHER_ORACLE_SEED repeats a run, USHER_ORACLE_DRAWS=400 makes a long one.
var seed, draws = number("USHER_ORACLE_SEED", rand.Uint64()>>32), number("USHER_ORACLE_DRAWS", 40)

func number(variable string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func objectsOf(files ...string) (all []*unstructured.Unstructured, err error) {
	for _, file := range files {
		objects, err := documents(file)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// documents returns the objects of a file, with integers.
func documents(file string) (all []*unstructured.Unstructured, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			return all, fmt.Errorf("%s: %w", raw, err)
		}
		all = append(all, u)
	}
}

var clusterFiles = []string{"testdata/cluster.yaml", "testdata/kinds.yaml"}

// theCluster returns what the API server stores after it has been given the objects of the files.
var theCluster = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	s, err := apiServer()
	if err != nil {
		return nil, err
	}
	objects, err := objectsOf(clusterFiles...)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		err = errors.Join(err, s.store(o))
	}
	if err != nil {
		return nil, err
	}
	return s.list()
})

// drawn is a random request.
type drawn struct {
	engine.Request
	what    string
	differs string // why the engine's answer is another one
}

// byJane returns a dry run of a user's request.
func byJane(r engine.Request) engine.Request {
	r.DryRun, r.User, r.Groups = true, "jane", []string{"system:authenticated"}
	return r
}

// created draws an object to create: half of them with a fault.
func created(d drawer, kinds []*unstructured.Unstructured) drawn {
	u := one(d, kinds...).DeepCopy()
	if !d.chance(5) {
		u.SetName(u.GetName() + "2")
	}
	if u.GetNamespace() != "" && d.chance(20) {
		u.SetNamespace(one(d, "default", "baseline", "restricted", "limited", "quota", "selected", "absent"))
	}
	return changed(d, u, admissionv1.Create)
}

// updated draws a change of a stored object.
func updated(d drawer, cluster []*unstructured.Unstructured) drawn {
	u := one(d, cluster...).DeepCopy()
	u.SetManagedFields(nil)
	if d.chance(10) {
		u.SetResourceVersion(one(d, "", "1", "x"))
	}
	return changed(d, u, admissionv1.Update)
}

func changed(d drawer, u *unstructured.Unstructured, operation admissionv1.Operation) drawn {
	s, _ := schemaOf(u.GroupVersionKind())
	what := fmt.Sprintf("%s %s: ", operation, u.GetKind())
	for range d.IntN(4) {
		what += d.change(s, u.Object, plausible) + ", "
	}
	if d.chance(50) {
		what += "FAULT " + d.change(s, u.Object, faults)
	}
	text, _ := json.Marshal(u.Object)
	r := byJane(engine.Request{Object: text, Operation: operation, Strict: d.chance(20)})
	return drawn{Request: r, what: what}
}

// deleted draws a stored object, or one that is absent, to delete.
func deleted(d drawer, cluster []*unstructured.Unstructured) drawn {
	u := one(d, cluster...)
	name := u.GetName()
	if d.chance(10) {
		name += "-absent"
	}
	r := byJane(engine.Request{Kind: u.GroupVersionKind(), Name: name, Namespace: u.GetNamespace(), Operation: admissionv1.Delete})
	return drawn{Request: r, what: "DELETE " + u.GetKind() + " " + name}
}

func TestRandomRequests(t *testing.T) {
	s := theServer(t)
	cluster, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	files, err := objectsOf(clusterFiles...)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := objectsOf("testdata/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stored := slices.DeleteFunc(slices.Clone(cluster), func(u *unstructured.Unstructured) bool { // by the API server itself
		return !slices.ContainsFunc(files, func(f *unstructured.Unstructured) bool { return identity(f) == identity(u) })
	})
	slices.SortFunc(stored, func(a, b *unstructured.Unstructured) int { return strings.Compare(identity(a), identity(b)) })
	t.Logf("USHER_ORACLE_SEED=%d, %d objects of %d kinds", seed, len(stored), len(kinds))
	var requests, written []drawn
	for i := range draws {
		requests = append(requests, created(newDrawer(seed, i), kinds), updated(newDrawer(seed, 1_000_000+i), stored))
		if i%2 == 0 {
			requests = append(requests, deleted(newDrawer(seed, 2_000_000+i), stored))
		}
		written = append(written, created(newDrawer(seed, 3_000_000+i), kinds))
	}
	compare(t, s, engine.Cluster{Objects: cluster}, requests)
	compare(t, s, engine.Cluster{Objects: files}, written) // without UIDs, defaults
}

func identity(u *unstructured.Unstructured) string {
	return u.GroupVersionKind().String() + " " + u.GetNamespace() + "/" + u.GetName()
}

// compare judges the requests by the API server and by the engine over the same objects.
func compare(t *testing.T, s *server, c engine.Cluster, requests []drawn) {
	t.Helper()
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	codes, classes := map[int]int{}, map[string]int{}
	for _, r := range requests {
		a, err := s.judge(s.asKubectl(r.Request))
		if err != nil {
			t.Errorf("%s: %v\n%s", r.what, err, r.Object)
			continue
		}
		codes[a.Code]++
		v := e.Judge(t.Context(), r.Request)
		class, text := difference(a.masked(string(r.Object)), ofVerdict(v).masked(string(r.Object)))
		switch {
		case r.differs != "" && class == "":
			t.Errorf("%s\n%s\nno difference any more, although %s", r.what, r.Object, r.differs)
		case r.differs == "" && class != "" && !refusedByAnother(v, a):
			classes[class]++
			t.Errorf("%s: %s\n%s\n%s", class, r.what, r.Object, text)
		}
	}
	t.Logf("%d requests; codes %v; differences %v", len(requests), codes, classes)
}

// asKubectl gives an UPDATE without a resourceVersion that of the stored object, as kubectl does, and the engine.
func (s *server) asKubectl(r engine.Request) engine.Request {
	var u unstructured.Unstructured
	if r.Operation != admissionv1.Update || json.Unmarshal(r.Object, &u.Object) != nil {
		return r
	}
	metadata, is := u.Object["metadata"].(map[string]any)
	if is && (metadata["resourceVersion"] == nil || metadata["resourceVersion"] == "") {
		at := engine.Request{Kind: u.GroupVersionKind(), Name: fmt.Sprint(metadata["name"]), Namespace: u.GetNamespace()}
		if stored, err := s.named(at); err == nil {
			metadata["resourceVersion"] = stored.GetResourceVersion()
			r.Object, _ = json.Marshal(u.Object)
		}
	}
	return r
}

// refusedByAnother reports whether several validating webhooks refused: the API server tells the one that answered first.
func refusedByAnother(v engine.Verdict, a answer) bool {
	return !v.Allowed() && slices.ContainsFunc(v.Calls, func(c engine.Call) bool {
		var review admissionv1.AdmissionReview
		return !c.Mutates && json.Unmarshal(c.Response, &review) == nil && review.Response != nil && !review.Response.Allowed &&
			strings.HasPrefix(a.String(), fmt.Sprintf("%d %s admission webhook %q denied", a.Code, a.Reason, c.Name))
	})
}
