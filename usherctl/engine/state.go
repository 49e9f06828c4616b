package engine

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/v1"
)

// state is a cluster as the parts of the API server take it.
type state struct {
	stored      stored
	typed       []runtime.Object // kinds of Kubernetes
	custom      []runtime.Object
	definitions []*apiextensionsv1.CustomResourceDefinition
	kinds       map[schema.GroupVersionKind]kind // of the definitions
	namespaces  map[string]bool
}

// newState decodes the objects of a cluster, and adds those that each cluster has.
func newState(r *registries, c Cluster) (*state, error) {
	s := &state{stored: stored{}, kinds: map[schema.GroupVersionKind]kind{}, namespaces: map[string]bool{}}
	for _, object := range c.Objects {
		if object.GroupVersionKind() == definitionKind {
			if err := s.define(object); err != nil {
				return nil, &ObjectError{object, err}
			}
		}
	}
	for _, object := range c.Objects {
		if err := s.add(r, object); err != nil {
			return nil, &ObjectError{object, err}
		}
	}
	if err := s.addImplied(r, c.Assumed); err != nil {
		return nil, err
	}
	return s, s.count(r)
}

func named(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

func (s *state) define(object *unstructured.Unstructured) error {
	definition, kinds, err := establish(object)
	if err != nil {
		return err
	}
	s.definitions = append(s.definitions, definition)
	maps.Copy(s.kinds, kinds)
	return nil
}

// add adds an object. Objects of kinds that neither Kubernetes nor a definition has decide about nothing.
func (s *state) add(r *registries, given *unstructured.Unstructured) error {
	object, gvk := given.DeepCopy(), given.GroupVersionKind()
	k, known := r.kinds[gvk]
	if !known {
		if k, known = s.kinds[gvk]; !known {
			return nil
		}
	}
	if k.namespaced && object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	complete(object)
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	s.stored[keyOf(k.resource.GroupResource(), object.GetNamespace(), object.GetName())] = text
	if _, custom := s.kinds[gvk]; custom {
		s.custom = append(s.custom, object)
		return nil
	}
	if !legacyscheme.Scheme.Recognizes(gvk) {
		return nil // CustomResourceDefinitions, APIServices
	}
	typed, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return err
	}
	legacyscheme.Scheme.Default(typed)
	if namespace, is := typed.(*corev1.Namespace); is {
		if namespace.DeletionTimestamp != nil {
			namespace.Status.Phase = corev1.NamespaceTerminating
		}
		s.namespaces[namespace.Name] = true
	}
	s.typed = append(s.typed, typed)
	return nil
}

// complete fills in the metadata that each stored object has.
func complete(object *unstructured.Unstructured) {
	object.SetResourceVersion(cmp.Or(object.GetResourceVersion(), "1"))
	if object.GetUID() == "" {
		object.SetUID(uidOf(object.GetKind() + "/" + named(object)))
	}
	if created := object.GetCreationTimestamp(); created.IsZero() {
		object.SetCreationTimestamp(metav1.Unix(0, 0))
	}
	if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		completeNamespace(object)
	}
}

func completeNamespace(object *unstructured.Unstructured) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = object.GetName()
	object.SetLabels(labels)
	if spec, _, _ := unstructured.NestedMap(object.Object, "spec"); spec["finalizers"] == nil {
		_ = unstructured.SetNestedStringSlice(object.Object, []string{string(corev1.FinalizerKubernetes)}, "spec", "finalizers")
	}
}

// addImplied adds what each cluster has: Namespaces, the ServiceAccount default of each, and the PriorityClasses of the system.
func (s *state) addImplied(r *registries, assumed map[string]map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(assumed)) {
		if err := s.addNamespace(r, name, assumed[name]); err != nil {
			return err
		}
	}
	for _, name := range []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease, metav1.NamespacePublic, metav1.NamespaceSystem} {
		if err := s.addNamespace(r, name, nil); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.namespaces)) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: name}}
		if err := s.addMissing(r, account, "serviceaccounts"); err != nil {
			return err
		}
	}
	for _, class := range scheduling.SystemPriorityClasses() {
		if err := s.addMissing(r, class.DeepCopy(), "priorityclasses.scheduling.k8s.io"); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) addNamespace(r *registries, name string, labels map[string]string) error {
	return s.addMissing(r, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, "namespaces")
}

// addMissing adds an object of a resource, unless the cluster has it.
func (s *state) addMissing(r *registries, object runtime.Object, plural string) error {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return err
	}
	if _, has := s.stored[keyOf(schema.ParseGroupResource(plural), u.GetNamespace(), u.GetName())]; has {
		return nil
	}
	u.SetGroupVersionKind(kinds[0])
	return s.add(r, u)
}
