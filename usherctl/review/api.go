package review

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/requests"
)

// Cluster is a cluster, as files tell it, in which usher's webhooks are registered as the shipped configurations register them.
type Cluster struct {
	Objects []*unstructured.Unstructured // of objects of one kind and name, the last one counts
	Routes  []admit.Route                // of usher
	// Path is that of the only route that is called, whatever the request is; "" for those that an API server calls.
	Path string
	// All also calls the routes that the namespaceSelectors and objectSelectors of the shipped configurations leave out.
	All bool
	// Labels are those of Namespaces that no object is, beside those that usher's webhooks select.
	Labels map[string]string
	// Registered keeps the webhook configurations among the objects as they are: a cluster has them.
	Registered bool
	// Absent are Namespaces that are not assumed: a cluster does not have them.
	Absent map[string]bool
}

// API is the API server of a Cluster.
type API struct {
	engine   *engine.Engine
	options  requests.Options
	LeftOut  []error                          // objects of the cluster that an API server could not have stored
	assumed  map[schema.GroupVersionKind]bool // custom kinds of which no CustomResourceDefinition is known
	unlisted map[string]bool                  // the Namespaces that are assumed
}

// Open returns the API server of a cluster, which the caller closes. It judges requests about the documents: Namespaces of theirs that
// no object is, and the definitions of their kinds, are assumed.
func (c Cluster) Open(ctx context.Context, documents []requests.Document, o requests.Options) (*API, error) {
	a, given := c.given(documents, o)
	return a, a.start(ctx, given)
}

// given returns the API server before its start, and the cluster that it starts with.
func (c Cluster) given(documents []requests.Document, o requests.Options) (*API, engine.Cluster) {
	a := &API{options: o, assumed: map[schema.GroupVersionKind]bool{}, unlisted: map[string]bool{}}
	given := engine.Cluster{Objects: c.objects(), Assumed: map[string]map[string]string{}, Webhook: answerOf}
	given.Objects = append(given.Objects, a.definitions(given.Objects, documents, c.Routes)...)
	for _, name := range namespacesOf(given.Objects, documents, o) {
		if c.Absent[name] {
			continue
		}
		given.Assumed[name], a.unlisted[name] = c.labels(), true
	}
	return a, given
}

func (a *API) start(ctx context.Context, given engine.Cluster) (err error) {
	for a.engine, err = engine.New(ctx, given); err != nil; a.engine, err = engine.New(ctx, given) {
		wrong, is := errors.AsType[*engine.ObjectError](err)
		if !is {
			return err
		}
		a.LeftOut = append(a.LeftOut, err)
		given.Objects = slices.DeleteFunc(given.Objects, func(object *unstructured.Unstructured) bool { return object == wrong.Object })
	}
	return nil
}

// Close ends the work of the API server.
func (a *API) Close() { a.engine.Close() }

// labels returns those of a Namespace of which nothing is known: it opted in.
func (c Cluster) labels() map[string]string {
	all := map[string]string{}
	for _, r := range c.Routes {
		maps.Copy(all, r.OptIn.AsMap())
	}
	maps.Copy(all, c.Labels)
	return all
}

// objects returns the objects of the cluster, each once, and the webhook configurations of usher.
func (c Cluster) objects() (all []*unstructured.Unstructured) {
	index := map[string]int{}
	for _, object := range c.Objects {
		if !c.Registered {
			object = withoutUsher(object)
		}
		key := strings.Join([]string{object.GroupVersionKind().GroupKind().String(), object.GetNamespace(), object.GetName()}, "/")
		if at, has := index[key]; has {
			all[at] = object
			continue
		}
		index[key] = len(all)
		all = append(all, object)
	}
	if c.Registered {
		return all
	}
	return append(all, c.configurations()...)
}

// withoutUsher returns an object without the webhooks of usher, which are registered as the routes need it.
func withoutUsher(object *unstructured.Unstructured) *unstructured.Unstructured {
	if object.GroupVersionKind().Group != registration.GroupName || !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
		return object
	}
	object = object.DeepCopy()
	all, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
	object.Object["webhooks"] = slices.DeleteFunc(all, func(w any) bool {
		entry, _ := w.(map[string]any)
		name, _ := entry["name"].(string)
		return strings.HasSuffix(name, ".usher.dev")
	})
	if object.GetName() == webhooks.Name {
		object.SetName(webhooks.Name + "-others")
	}
	return object
}

// configurations returns the webhook configurations of usher.
func (c Cluster) configurations() (all []*unstructured.Unstructured) {
	at, routes := webhooks.Address{Namespace: "usher", Service: "usher"}, c.Routes
	switch {
	case c.Path != "":
		return []*unstructured.Unstructured{only(c.Routes, c.Path, at)}
	case !c.All:
		routes = webhooks.OneAmplifier(routes)
	}
	for _, configuration := range []any{webhooks.Mutating(routes, at), webhooks.Validating(routes, at)} {
		object := asObject(configuration)
		entries, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, entry := range entries {
			if c.All {
				delete(entry.(map[string]any), "namespaceSelector")
				delete(entry.(map[string]any), "objectSelector")
			}
		}
		object.Object["webhooks"] = entries
		all = append(all, object)
	}
	return all
}

// only returns the configuration by which one route is called for all requests.
func only(routes []admit.Route, path string, at webhooks.Address) *unstructured.Unstructured {
	kind := "ValidatingWebhookConfiguration"
	if i := slices.IndexFunc(routes, func(r admit.Route) bool { return r.Path == path }); i >= 0 && routes[i].Chain.Mutates() {
		kind = "MutatingWebhookConfiguration"
	}
	everything := registration.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	hook := webhooks.Hook{Name: admit.Route{Path: path}.Webhook(), AdmissionReviewVersions: []string{"v1"},
		SideEffects:  new(registration.SideEffectClassNone),
		Rules:        []registration.RuleWithOperations{{Operations: []registration.OperationType{"*"}, Rule: everything}},
		ClientConfig: registration.WebhookClientConfig{Service: &registration.ServiceReference{Namespace: at.Namespace, Name: at.Service, Path: &path}}}
	object := asObject(map[string]any{"webhooks": []webhooks.Hook{hook}})
	object.SetGroupVersionKind(registration.SchemeGroupVersion.WithKind(kind))
	object.SetName(webhooks.Name)
	return object
}

// asObject returns a value of a Go type as an object.
func asObject(value any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &object.Object)
	}
	if err != nil {
		panic(err) // these types can always be encoded
	}
	return object
}

// definitions returns definitions of the custom kinds of documents that no object defines: they allow anything.
func (a *API) definitions(objects []*unstructured.Unstructured, documents []requests.Document,
	routes []admit.Route) (all []*unstructured.Unstructured) {
	defined := map[schema.GroupKind]bool{}
	for _, kind := range resources.Kinds() {
		defined[kind.GroupKind] = true
	}
	for _, object := range objects {
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
		if object.GetKind() == "CustomResourceDefinition" {
			defined[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	catalogue := requests.NewCatalogue(routes)
	for object := range sent(documents) {
		gvk := object.GroupVersionKind()
		if defined[gvk.GroupKind()] || !strings.Contains(gvk.Group, ".") || a.assumed[gvk] {
			continue
		}
		a.assumed[gvk] = true
		all = append(all, anything(gvk, catalogue.Namespaced(gvk.GroupKind()) || object.GetNamespace() != ""))
	}
	return all
}

// anything returns a definition of a kind that allows any object.
func anything(gvk schema.GroupVersionKind, namespaced bool) *unstructured.Unstructured {
	plural, singular := meta.UnsafeGuessKindToResource(gvk)
	scope := apiextensionsv1.ClusterScoped
	if namespaced {
		scope = apiextensionsv1.NamespaceScoped
	}
	is := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	object := asObject(apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: gvk.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural.Resource, Singular: singular.Resource, Kind: gvk.Kind,
				ListKind: gvk.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: gvk.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: is}}}}})
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return object
}

// namespacesOf returns the Namespaces of documents that no object is.
func namespacesOf(objects []*unstructured.Unstructured, documents []requests.Document, o requests.Options) []string {
	wanted := map[string]bool{o.Namespace: true}
	for object := range sent(documents) {
		wanted[object.GetNamespace()] = true
	}
	for _, object := range objects {
		wanted[object.GetNamespace()] = true
	}
	for _, object := range objects {
		if object.GroupVersionKind() == (schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}) {
			delete(wanted, object.GetName())
		}
	}
	delete(wanted, "")
	return slices.Sorted(maps.Keys(wanted))
}

// sent returns the types and metadata of the objects of documents, and of the workloads of pods. One at a time: there may be many.
func sent(documents []requests.Document) iter.Seq[*metav1.PartialObjectMetadata] {
	return func(yield func(*metav1.PartialObjectMetadata) bool) {
		for _, d := range documents {
			for _, raw := range [][]byte{d.JSON, d.Workload} {
				is := &metav1.PartialObjectMetadata{}
				if d.Err == nil && json.Unmarshal(raw, is) == nil && is.Kind != "AdmissionReview" && !yield(is) {
					return
				}
			}
		}
	}
}

// objectOf returns an object; an empty one if it cannot be read.
func objectOf(raw []byte) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if json.Unmarshal(raw, &object.Object) != nil || object.Object == nil {
		object.Object = map[string]any{}
	}
	return object
}

// Decides reports whether an object of a kind decides about requests for others: those of a file that is reviewed count as stored.
func Decides(gvk schema.GroupVersionKind, others []*unstructured.Unstructured) bool {
	switch gvk.Group {
	case registration.GroupName, apiextensionsv1.GroupName, "scheduling.k8s.io", "node.k8s.io", "storage.k8s.io":
		return true
	case "":
		if slices.Contains([]string{"Namespace", "LimitRange", "ResourceQuota", "ServiceAccount"}, gvk.Kind) {
			return true
		}
	case "networking.k8s.io":
		return gvk.Kind == "IngressClass"
	}
	return slices.ContainsFunc(others, func(policy *unstructured.Unstructured) bool {
		version, _, _ := unstructured.NestedString(policy.Object, "spec", "paramKind", "apiVersion")
		kind, _, _ := unstructured.NestedString(policy.Object, "spec", "paramKind", "kind")
		return policy.GroupVersionKind().Group == registration.GroupName && version == gvk.GroupVersion().String() && kind == gvk.Kind
	})
}
