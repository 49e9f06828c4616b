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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	for _, o := range s.served(objects) {
		err = errors.Join(err, s.store(o))
		if o.GetDeletionTimestamp() != nil {
			r := removal(o)
			r.Object = nil
			_, ended := s.request(r, false)
			err = errors.Join(err, ended)
		}
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
	differs string                     // why the engine's answer is another one
	old     *unstructured.Unstructured // stored before
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
		u.SetNamespace(one(d, "default", "baseline", "restricted", "limited", "quota", "selected", "ending", "absent"))
	}
	return changed(d, u, admissionv1.Create)
}

// updated draws a change of a stored object.
func updated(d drawer, cluster []*unstructured.Unstructured) drawn {
	u := one(d, cluster...).DeepCopy()
	u.SetManagedFields(nil)
	d.changeMetadata(u)
	return changed(d, u, admissionv1.Update)
}

// changeMetadata changes what the API server itself writes, some of it, or nothing.
func (d drawer) changeMetadata(u *unstructured.Unstructured) {
	metadata := u.Object["metadata"].(map[string]any)
	for _, field := range []struct {
		name   string
		values []any
	}{
		{"resourceVersion", list("", "0", "1", "x", nil)}, {"uid", list("other", "", nil)}, {"generation", list(int64(7), nil)},
		{"creationTimestamp", list("2026-01-02T03:04:05Z", "yesterday", nil)}, {"deletionTimestamp", list("2026-01-02T03:04:05Z", nil)},
		{"deletionGracePeriodSeconds", list(int64(5), nil)}, {"generateName", list("x-", nil)}, {"selfLink", list("/x")},
		{"finalizers", list(list(), list("example.com/hold"), list("example.com/hold", "example.com/more"), list("hold"),
			list("orphan", "foregroundDeletion"))},
		{"labels", list(object{"a": "b"}, object{"a": "not valid!"}, nil)}, {"annotations", list(object{"a": "b"}, object{"a/b/c": ""}, nil)},
		{"ownerReferences", list(list(object{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y", "controller": true, "blockOwnerDeletion": true}),
			list(object{"apiVersion": "v1", "kind": "Event", "name": "x", "uid": "y"}), list(object{"name": "x"}))},
	} {
		if d.chance(6) {
			metadata[field.name] = runtime.DeepCopyJSONValue(one(d, field.values...))
		}
	}
	if s, has := schemaOf(u.GroupVersionKind()); has && d.chance(10) {
		if status, has := d.resolved(s).Properties["status"]; has {
			u.Object["status"] = d.value(status, "status", 2)
		}
	}
}

func changed(d drawer, u *unstructured.Unstructured, operation admissionv1.Operation) drawn {
	what := fmt.Sprintf("%s %s: ", operation, u.GetKind()) + d.changes(u)
	text, _ := json.Marshal(u.Object)
	return drawn{Request: byJane(engine.Request{Object: text, Operation: operation, Strict: d.chance(20)}), what: what}
}

// changes makes up to three plausible changes, and a fault in half of the objects.
func (d drawer) changes(u *unstructured.Unstructured) (what string) {
	s, _ := schemaOf(u.GroupVersionKind())
	for range d.IntN(4) {
		what += d.change(s, u.Object, plausible) + ", "
	}
	if d.chance(50) {
		what += "FAULT " + d.change(s, u.Object, faults)
	}
	return what
}

// subresource draws a request for a subresource of a stored object: with an object of its kind, or one of a kind of its own, such as an
// Eviction.
func (s *server) subresource(d drawer, cluster []*unstructured.Unstructured) drawn {
	of := one(d, cluster...)
	for len(s.subs[of.GroupVersionKind()]) == 0 {
		of = one(d, cluster...)
	}
	sub, u, operation := one(d, s.subs[of.GroupVersionKind()]...), of.DeepCopy(), admissionv1.Create
	if can(sub, "update") {
		operation = admissionv1.Update
	}
	if sub.Kind != of.GetKind() {
		kind := schema.GroupVersionKind{Group: sub.Group, Version: sub.Version, Kind: sub.Kind}
		model, _ := schemaOf(kind)
		u = &unstructured.Unstructured{Object: d.value(model, "", 0).(map[string]any)}
		u.SetGroupVersionKind(kind)
		u.Object["metadata"] = map[string]any{"name": one(d, of.GetName(), of.GetName(), of.GetName(), "other")}
	}
	u.SetManagedFields(nil)
	d.changeMetadata(u)
	_, name, _ := strings.Cut(sub.Name, "/")
	r := engine.Request{Kind: of.GroupVersionKind(), Name: of.GetName(), Namespace: of.GetNamespace(), SubResource: name, Operation: operation,
		Strict: d.chance(20)}
	if d.chance(5) {
		r.Name += "-absent"
	}
	what := fmt.Sprintf("%s %s: ", of.GetKind(), name) + d.changes(u)
	r.Object, _ = json.Marshal(u.Object)
	return drawn{Request: byJane(r), what: what}
}

// deleted draws a stored object, or one that is absent, to delete, in most cases with options.
func deleted(d drawer, cluster []*unstructured.Unstructured) drawn {
	u := one(d, cluster...)
	r := byJane(engine.Request{Kind: u.GroupVersionKind(), Name: u.GetName(), Namespace: u.GetNamespace(), Operation: admissionv1.Delete})
	if d.chance(5) {
		r.Name += "-absent"
	}
	if d.chance(80) {
		r.Object, _ = json.Marshal(d.options(u))
	}
	return drawn{Request: r, what: "DELETE " + u.GetKind() + " " + r.Name}
}

// options are DeleteOptions, some of them wrong.
func (d drawer) options(u *unstructured.Unstructured) object {
	options, preconditions := object{"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": list("All")}, object{}
	for _, field := range []struct {
		in     object
		name   string
		values []any
	}{
		{preconditions, "uid", list(string(u.GetUID()), string(u.GetUID()), "other")},
		{preconditions, "resourceVersion", list(u.GetResourceVersion(), u.GetResourceVersion(), "1", "x")},
		{options, "propagationPolicy", list("Orphan", "Background", "Foreground", "Foreground", "Nonsense")},
		{options, "gracePeriodSeconds", list(int64(0), int64(1), int64(30), int64(-1), int64(1)<<40, nil, "5")},
		{options, "orphanDependents", list(true, false, "yes")}, {options, "ignoreStoreReadErrorWithClusterBreakingPotential", list(true, false)},
		{options, "unknownField", list(int64(1))}, {options, "kind", list("DeleteOptions", "Pod", "")},
		{options, "apiVersion", list(u.GetAPIVersion(), "meta.k8s.io/v1", "other/v1", "")}, {options, "preconditions", list(preconditions, nil)},
	} {
		if d.chance(25) {
			field.in[field.name] = one(d, field.values...)
		}
	}
	return options
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
	files, kinds = s.served(files), s.served(kinds)
	stored := slices.DeleteFunc(slices.Clone(cluster), func(u *unstructured.Unstructured) bool { // by the API server itself
		return !slices.ContainsFunc(files, func(f *unstructured.Unstructured) bool { return identity(f) == identity(u) })
	})
	slices.SortFunc(stored, func(a, b *unstructured.Unstructured) int { return strings.Compare(identity(a), identity(b)) })
	t.Logf("USHER_ORACLE_SEED=%d, %d objects of %d kinds", seed, len(stored), len(kinds))
	var requests, written []drawn
	for i := range draws {
		requests = append(requests, created(newDrawer(seed, i), kinds), updated(newDrawer(seed, 1_000_000+i), stored),
			deleted(newDrawer(seed, 2_000_000+i), stored), s.subresource(newDrawer(seed, 6_000_000+i), stored))
		written = append(written, created(newDrawer(seed, 3_000_000+i), kinds))
	}
	compare(t, s, engine.Cluster{Objects: cluster}, requests)
	compare(t, s, engine.Cluster{Objects: files}, written) // without UIDs, defaults
}

// served returns the objects whose kinds are served: an older version has fewer.
func (s *server) served(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { _, served := s.kinds[o.GroupVersionKind()]; return !served })
}

func identity(u *unstructured.Unstructured) string {
	return u.GroupVersionKind().String() + " " + u.GetNamespace() + "/" + u.GetName()
}

// compare judges the requests by the API server and by the engine over the same objects, and returns the number of each status.
func compare(t *testing.T, s *server, c engine.Cluster, requests []drawn) (codes map[int]int) {
	t.Helper()
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	codes = map[int]int{}
	classes := map[string]int{}
	for _, r := range requests {
		if r.old != nil {
			var err error
			if r.Request, err = s.over(r); err != nil {
				t.Errorf("%s: %v", r.what, err)
				continue
			}
		}
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
		case class == "false allowed" && len(v.Unjudged) > 0: // the engine does not say so
		case r.differs == "" && class != "" && !refusedByAnother(v, a):
			classes[class]++
			t.Errorf("%s: %s\n%s\n%s", class, r.what, r.Object, text)
		}
	}
	if len(requests) > 1 {
		t.Logf("%d requests; codes %v; differences %v", len(requests), codes, classes)
	}
	return codes
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
