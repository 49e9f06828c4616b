package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// liveCluster is what a cluster has that decides about requests, as far as a user may read it.
type liveCluster struct {
	source     reader.Source
	namespaces []string // that requests are about

	mu      sync.Mutex
	absent  map[string]bool                  // of the namespaces
	missing map[schema.GroupVersionKind]bool // kinds that the API server does not serve
	objects []*unstructured.Unstructured
	unread  []unread

	registered []report.Webhook // with their names and paths, or URLs
}

// unread is what may decide about some requests and could not be read.
type unread struct {
	reader.Kind
	collection string // of the steps of usher; "" for what the API server asks
	namespace  string // "" for all
	err        error
}

// decisive are the kinds that the API server asks about requests: of the cluster, and of the Namespace of a request.
var (
	decisive = []reader.Kind{
		reader.NewKind(registration.GroupName, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
		reader.NewKind(registration.GroupName, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
		reader.NewKind(registration.GroupName, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
		reader.NewKind(registration.GroupName, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
		reader.NewKind(registration.GroupName, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
		reader.NewKind(registration.GroupName, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
		reader.NewKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
		reader.NewKind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"),
		reader.NewKind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
		reader.NewKind("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
		reader.NewKind("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
	}
	decisiveInNamespace = []reader.Kind{
		reader.NewKind("", "v1", "LimitRange", "limitranges"),
		reader.NewKind("", "v1", "ResourceQuota", "resourcequotas"),
		reader.NewKind("", "v1", "ServiceAccount", "serviceaccounts"),
	}
	namespaceKind = reader.NewKind("", "v1", "Namespace", "namespaces")
)

// asks reports whether the API server asks about a kind of objects when one of another kind is created or changed.
func (u unread) asks(of *unstructured.Unstructured) bool {
	kind, group := of.GetKind(), of.GroupVersionKind().Group
	switch u.Kind.Kind {
	case "LimitRange":
		return group == "" && (kind == "Pod" || kind == "PersistentVolumeClaim")
	case "ServiceAccount", "PriorityClass":
		return group == "" && kind == "Pod"
	case "RuntimeClass":
		name, _, _ := unstructured.NestedString(of.Object, "spec", "runtimeClassName")
		return kind == "Pod" && name != ""
	case "StorageClass":
		return group == "" && kind == "PersistentVolumeClaim"
	case "IngressClass":
		return kind == "Ingress"
	case "CustomResourceDefinition":
		return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") || kind == u.Kind.Kind
	}
	return true
}

// readLive reads what decides about documents, which count as stored besides, and says what may not be read.
func (r *reviewing) readLive(ctx context.Context, source reader.Source, documents []requests.Document) {
	in := suite.Instance{Suites: r.Suites, Policy: r.policy, Gates: r.o.gates}
	namespaces := namespacesOf(nil, documents, r.o.Options)
	r.live = readLive(ctx, source, namespaces, r.Suites.Watched(in.Routes()).Kept())
	r.live.missing = notServed(ctx, source, documents)
	for _, u := range r.live.unread {
		_, _ = fmt.Fprintf(r.Err, "warning: not known: %s\n", printable.Line(u.err.Error()))
	}
	files := map[string]bool{}
	for _, o := range r.given {
		files[keyOf(objectOf(o.JSON))] = true
	}
	for _, o := range r.live.given() {
		if !files[keyOf(objectOf(o.JSON))] {
			r.given = append(r.given, o)
		}
	}
}

// notServed returns the kinds of documents that an API server does not serve, and that no CustomResourceDefinition among them has.
func notServed(ctx context.Context, source reader.Source, documents []requests.Document) map[schema.GroupVersionKind]bool {
	missing, defined := map[schema.GroupVersionKind]bool{}, map[schema.GroupKind]bool{}
	for object := range sent(documents) {
		missing[object.GroupVersionKind()] = true
	}
	for _, d := range documents {
		if is := objectOf(d.JSON); is.GetKind() == "CustomResourceDefinition" {
			group, _, _ := unstructured.NestedString(is.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(is.Object, "spec", "names", "kind")
			defined[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	maps.DeleteFunc(missing, func(gvk schema.GroupVersionKind, _ bool) bool {
		return defined[gvk.GroupKind()] || !errors.Is(discovery.ResourceOf(ctx, source, gvk).Err, reader.ErrNotFound)
	})
	return missing
}

// refuse notes in a report that the API server does not serve the kind of a manifest.
func (l *liveCluster) refuse(r *report.Report, gvk schema.GroupVersionKind) {
	if l.missing[gvk] && r.Verdict != report.Errored {
		r.Verdict, r.Hint = report.Invalid, ""
		r.Invalid = append(r.Invalid, fmt.Sprintf("no matches for kind %q in version %q", gvk.Kind, gvk.GroupVersion()))
	}
}

func keyOf(o *unstructured.Unstructured) string {
	return o.GroupVersionKind().GroupKind().String() + "/" + o.GetNamespace() + "/" + o.GetName()
}

// readLive reads what the API server and the steps of usher ask about requests in namespaces.
func readLive(ctx context.Context, source reader.Source, namespaces []string, kept []cluster.Kept) *liveCluster {
	l := &liveCluster{source: source, namespaces: namespaces, absent: map[string]bool{}}
	var calls []func()
	for _, kind := range decisive {
		calls = append(calls, func() { l.list(ctx, unread{Kind: kind}) })
	}
	for _, namespace := range namespaces {
		calls = append(calls, func() { l.get(ctx, unread{Kind: namespaceKind}, types.NamespacedName{Name: namespace}) })
		for _, kind := range decisiveInNamespace {
			calls = append(calls, func() { l.list(ctx, unread{Kind: kind, namespace: namespace}) })
		}
	}
	for _, k := range kept {
		if k.Name != admit.CollectionNamespaces {
			calls = append(calls, func() { l.collect(ctx, k) })
		}
	}
	parallel.Run(calls...)
	l.readParams(ctx)
	l.readRegistered()
	slices.SortFunc(l.unread, func(a, b unread) int { return strings.Compare(a.err.Error(), b.err.Error()) })
	return l
}

// collect reads a collection of the steps, and if that is not permitted, what is in the namespaces.
func (l *liveCluster) collect(ctx context.Context, k cluster.Kept) {
	u := unread{Kind: reader.Kind{GroupVersionKind: k.Kind, Resource: k.Resource}, collection: k.Name}
	switch {
	case k.Only.Name != "":
		l.get(ctx, u, k.Only)
	case !l.list(ctx, u) && k.Namespaced:
		for _, namespace := range l.namespaces {
			if list, err := l.source.List(ctx, u.Kind, namespace); err == nil {
				l.add(u.Kind, list...)
			}
		}
	}
}

// list reads the objects of a kind, and notes if that fails.
func (l *liveCluster) list(ctx context.Context, u unread) bool {
	list, err := l.source.List(ctx, u.Kind, u.namespace)
	return l.read(u, err, list...)
}

func (l *liveCluster) get(ctx context.Context, u unread, name types.NamespacedName) {
	raw, err := l.source.Get(ctx, u.Kind, name.Namespace, name.Name)
	if u.Kind == namespaceKind {
		u.namespace = name.Name
	}
	l.read(u, err, raw)
}

func (l *liveCluster) read(u unread, err error, list ...json.RawMessage) bool {
	switch {
	case errors.Is(err, reader.ErrNotFound):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.absent[u.namespace] = u.Kind == namespaceKind || l.absent[u.namespace]
	case err != nil:
		l.mu.Lock()
		defer l.mu.Unlock()
		u.err = err
		l.unread = append(l.unread, u)
		return false
	default:
		l.add(u.Kind, list...)
	}
	return true
}

// add adds objects of a kind, which lists do not name.
func (l *liveCluster) add(kind reader.Kind, list ...json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range list {
		object := objectOf(raw)
		object.SetGroupVersionKind(kind.GroupVersionKind)
		object.SetManagedFields(nil)
		l.objects = append(l.objects, object)
	}
}

// readParams reads the parameters of admission policies: what their bindings name, in the namespaces if they name none.
func (l *liveCluster) readParams(ctx context.Context) {
	kinds := map[schema.GroupVersionKind]bool{}
	for _, object := range l.objects {
		version, _, _ := unstructured.NestedString(object.Object, "spec", "paramKind", "apiVersion")
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "paramKind", "kind")
		if gvk := schema.FromAPIVersionAndKind(version, kind); object.GroupVersionKind().Group == registration.GroupName && kind != "" {
			kinds[gvk] = true
		}
	}
	for gvk := range kinds {
		is := discovery.ResourceOf(ctx, l.source, gvk)
		u := unread{Kind: reader.Kind{GroupVersionKind: gvk, Resource: is.Name}, err: is.Err}
		if is.Err != nil {
			l.unread = append(l.unread, u)
			continue
		}
		for _, u.namespace = range l.paramNamespaces(is.Namespaced) {
			l.list(ctx, u)
		}
	}
}

// readRegistered notes the webhooks of the configurations.
func (l *liveCluster) readRegistered() {
	for _, object := range l.objects {
		all, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, w := range all {
			entry, _ := w.(map[string]any)
			name, _, _ := unstructured.NestedString(entry, "name")
			url, _, _ := unstructured.NestedString(entry, "clientConfig", "url")
			path, _, _ := unstructured.NestedString(entry, "clientConfig", "service", "path")
			l.registered = append(l.registered, report.Webhook{Name: name, Path: cmp.Or(path, url)})
		}
	}
}

// paramNamespaces returns the namespaces in which bindings look for parameters of a kind; "" for one that is in none.
func (l *liveCluster) paramNamespaces(namespaced bool) (all []string) {
	if !namespaced {
		return []string{""}
	}
	all = slices.Clone(l.namespaces)
	for _, object := range l.objects {
		named, _, _ := unstructured.NestedString(object.Object, "spec", "paramRef", "namespace")
		if named != "" && !slices.Contains(all, named) {
			all = append(all, named)
		}
	}
	return all
}

// given returns the objects as the steps of usher take them.
func (l *liveCluster) given() (all []manifest.Object) {
	for _, object := range l.objects {
		raw, err := json.Marshal(object.Object)
		if err == nil {
			all = append(all, manifest.Object{TypeMeta: metav1.TypeMeta{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()},
				Place: manifest.Place{File: "the cluster"}, JSON: raw})
		}
	}
	return all
}

// doubt notes in a report what could not be read and might decide about an object otherwise.
func (l *liveCluster) doubt(r *report.Report, object *unstructured.Unstructured, routes []admit.Route) {
	is := reviewed{*r}
	defer func() { *r = is.Report }()
	if len(r.Unknown) > 0 {
		is.notJudged("kubectl refuses its unknown fields, unless the API server is newer and knows them")
	}
	for _, u := range l.unread {
		switch {
		case u.collection != "":
			if !asksFor(r, u.collection, routes) {
				continue
			}
		case u.namespace != "" && u.namespace != r.Namespace || !u.asks(object):
			continue
		}
		is.notJudged(printable.Line(u.err.Error()))
	}
}

// asksFor reports whether a step that was run looks at a collection.
func asksFor(r *report.Report, collection string, routes []admit.Route) bool {
	for _, call := range r.Calls {
		for _, route := range routes {
			if route.Path == call.Path && slices.ContainsFunc(route.Chain.Steps(), func(s admit.Step) bool {
				return !s.Idle && s.Mode != admit.Off && slices.Contains(s.Needs, collection)
			}) {
				return true
			}
		}
	}
	return false
}
