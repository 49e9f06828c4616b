package cluster

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/test/clustertest"
)

// The collections for tests, in addition to Namespaces: of metadata, of whole objects, of a CRD, of one object, two of
// the same kind, compiled ones, and one with annotations for followers.
var (
	Pods = &Collection[*podMeta]{Name: "pods", Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true,
		MetaOnly: true, Keep: Keep(func(o *metav1.PartialObjectMetadata) *podMeta { return &podMeta{o.Labels, o.Annotations} })}

	Nodes = &Collection[map[string]string]{Name: "nodes", Kind: corev1.SchemeGroupVersion.WithKind("Node"), Resource: "nodes",
		MetaOnly: true, Keep: Keep(func(o *metav1.PartialObjectMetadata) map[string]string { return o.Labels })}

	Profiles = profilesWith(profileNames)

	Rules = &Compiled[map[string]string, string]{
		Collection: Collection[map[string]string]{Name: "rules", Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true,
			Only: types.NamespacedName{Namespace: "default", Name: "c"}, Keep: Keep(func(o *corev1.ConfigMap) map[string]string { return o.Data })},
		Compile: func(all Objects[map[string]string]) (rules string, _ []error, _ error) {
			for _, data := range all.Each() {
				rules = data["rules"]
			}
			return rules, nil, nil
		},
	}

	PodNodes = &Collection[*podNode]{Name: "podnodes", Kind: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true,
		FollowAnnotations: []string{"told"}, Keep: Keep(func(o *corev1.Pod) *podNode { return &podNode{o.Spec.NodeName} })}

	catalogueOfTests = []Declared{Namespaces, Profiles, Pods, Nodes, Rules, PodNodes}
	allKinds         = []string{"namespaces", "clustercolocationprofiles", "pods", "nodes", "rules"}
)

type (
	podMeta struct{ labels, annotations map[string]string }
	podNode struct{ node string }

	// thing is an object of a CRD.
	thing struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Labels        map[string]string `json:"labels"`
			SchedulerName string            `json:"schedulerName"`
			Template      Unread            `json:"template"`
		} `json:"spec"`
	}
)

func profilesWith[C any](compile func(Objects[*thing]) (C, []error, error)) *Compiled[*thing, C] {
	return &Compiled[*thing, C]{
		Collection: Collection[*thing]{Name: "clustercolocationprofiles", Resource: "clustercolocationprofiles", CRD: true,
			Kind: schema.GroupVersionKind{Group: "config.koordinator.sh", Version: "v1alpha1", Kind: "ClusterColocationProfile"},
			Keep: Keep(func(o *thing) *thing { return &thing{ObjectMeta: metav1.ObjectMeta{Name: o.Name}, Spec: o.Spec} })},
		Compile: compile,
	}
}

func profileNames(all Objects[*thing]) ([]string, []error, error) {
	names := make([]string, 0, all.Len())
	for _, p := range all.Sorted() {
		names = append(names, p.Name)
	}
	return names, nil, nil
}

// The functions of the tests that read collections.

func (s Snapshot) Profiles() ([]*thing, error) {
	all, err := Profiles.All(s)
	return all.Sorted(), err
}

func (s Snapshot) Pod(namespace, name string) (labels, annotations map[string]string, known bool, err error) {
	found, known, err := Pods.Expect(s, namespace+"/"+name)
	if known {
		labels, annotations = found.labels, found.annotations
	}
	return labels, annotations, known, err
}

func (s Snapshot) Namespace(name string) (labels map[string]string, known bool, err error) {
	found, known, err := Namespaces.Expect(s, name)
	if known {
		labels = found.Labels
	}
	return labels, known, err
}

func (s Snapshot) NodeLabels(name string) (map[string]string, bool) {
	labels, known, err := Nodes.Find(s, name)
	return labels, known && err == nil
}

// keeping returns options for a cluster that keeps the collections.
func keeping(names ...string) Options { return Options{Catalogue: catalogueOfTests, Needs: names} }

// made returns a new cluster and fails the test on errors.
func made(o Options, from source) *Cluster {
	c, err := newCluster(o, from)
	if err != nil {
		panic(err)
	}
	return c
}

// to returns the store for a reflector of a collection.
func (c *Cluster) to(name string) *store {
	k, known := c.index[name]
	if !known {
		panic(name)
	}
	return &store{c, stream{k}}
}

// kind returns the kind of a collection for a test server.
func kind(name string) clustertest.Kind {
	for _, d := range catalogueOfTests {
		if r := d.row(); r.name == name {
			return clustertest.Kind{GroupVersionKind: r.kind, Resource: r.resource}
		}
	}
	panic(name)
}

// watching returns a cluster that watches a server until the test ends.
func watching(t *testing.T, f *clustertest.Server, o Options) *Cluster {
	t.Helper()
	o.Backoff = clustertest.Backoff()
	c, err := API(&rest.Config{Host: f.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	go c.Run(t.Context())
	return c
}

// TestCatalogue: needed collections are declared, and no two have the same name.
func TestCatalogue(t *testing.T) {
	if _, err := Files("", keeping("pods", "typos")); err == nil {
		t.Error("typos are kept")
	}
	other := *Pods
	if _, err := Files("", Options{Catalogue: []Declared{Pods, PodNodes, &other}}); err == nil {
		t.Error("two collections have the same name")
	}
	if _, err := Files("", Options{Catalogue: []Declared{Pods, PodNodes, Pods}, Needs: []string{"podnodes", "pods"}}); err != nil {
		t.Errorf("two suites may declare the same collection: %v", err)
	}
	if _, err := API(&rest.Config{Host: "http://127.0.0.1:1"}, keeping("typos")); err == nil {
		t.Error("typos are watched")
	}
}

// TestReader: a step can read the collections it declares and no others, whatever other steps need.
func TestReader(t *testing.T) {
	c, err := Files("", keeping("pods", "nodes", "rules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, needs := range [][]string{nil, {"nodes"}, {"nodes", "pods", "namespaces", "rules"}} {
		s := c.Reader(needs).Now()
		_, _, find := Pods.Find(s, "ns/p")
		_, _, expect := Pods.Expect(s, "ns/p")
		_, all := Pods.All(s)
		_, get := Rules.Get(s)
		for n, err := range []error{find, expect, all, get} {
			if (err == nil) != (len(needs) == 4) || err != nil && errors.Is(err, admit.ErrNotReady) {
				t.Errorf("needs %v, question %d: %v", needs, n, err)
			}
		}
		if _, _, err := Namespaces.Find(s, "n"); err == nil {
			t.Errorf("needs %v: namespaces, which nobody keeps, are known", needs)
		}
	}
	if got := fmt.Sprint(c.Reader(nil).NamespaceDeleting("n")); got == "false <nil>" {
		t.Error("a question of the engine's own is not limited")
	}
}
