package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"usher.dev/usher/cluster"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/usherctl/requests"
)

// first are kinds that others need, in order, and last those that might refuse what is there already.
var (
	first = []string{"CustomResourceDefinition", "Namespace", "PriorityClass", "RuntimeClass", "StorageClass", "ServiceAccount", "ConfigMap"}
	last  = []string{"LimitRange", "ResourceQuota"}
)

// loaded is a manifest to be loaded.
type loaded struct {
	source string
	object *unstructured.Unstructured
}

// readLoaded reads the objects of --load.
func (l *lab) readLoaded() (all []loaded, err error) {
	if len(l.load) == 0 {
		return nil, nil
	}
	for _, d := range requests.ReadFiles(l.Streams, l.load, false) {
		object := &unstructured.Unstructured{}
		err := d.Err
		if err == nil {
			err = object.UnmarshalJSON(d.JSON)
		}
		if object.GroupVersionKind().Group == "kustomize.config.k8s.io" {
			continue // no object
		}
		if err != nil {
			return nil, fmt.Errorf("--load %s: %w", d.Source, err)
		}
		all = append(all, loaded{d.Source, object})
	}
	slices.SortStableFunc(all, func(x, y loaded) int { return turn(x.object) - turn(y.object) })
	return all, nil
}

// loadAll creates the objects of --load, and says which it could not create: those of a kind that the lab does not have in one line.
func (l *lab) loadAll(ctx context.Context) error {
	to, err := newTarget(l.server.Config)
	if err != nil || len(l.manifests) == 0 {
		return err
	}
	done, unknown := 0, map[string]int{}
	for _, o := range l.manifests {
		switch err := to.add(ctx, o.object); {
		case err == nil:
			done++
		case meta.IsNoMatchError(err):
			unknown[o.object.GetKind()+" of "+o.object.GroupVersionKind().Group]++
		default:
			_, _ = fmt.Fprintf(l.Err, "not loaded: %s: %s\n", printable.Line(o.source), printable.Lines(err.Error()))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(unknown)) {
		_, _ = fmt.Fprintf(l.Err, "not loaded: %d objects of the kind %s: --load a file with its CustomResourceDefinition, too; deploy/crds has usher's\n",
			unknown[kind], printable.Line(kind))
	}
	l.Say(fmt.Sprintf("loaded %d of %d objects", done, len(l.manifests)), "")
	return ctx.Err()
}

// turn returns when a kind is loaded.
func turn(o *unstructured.Unstructured) int {
	switch i := slices.Index(first, o.GetKind()); {
	case i >= 0:
		return i
	case slices.Contains(last, o.GetKind()):
		return len(first) + 1
	case o.GroupVersionKind().Group == "admissionregistration.k8s.io":
		return len(first) + 2
	}
	return len(first)
}

// target creates objects of any kind.
type target struct {
	client dynamic.Interface
	kinds  *restmapper.DeferredDiscoveryRESTMapper
	coming map[schema.GroupKind]bool // by CustomResourceDefinitions that were created
}

func newTarget(config *rest.Config) (t target, err error) {
	if t.client, err = dynamic.NewForConfig(config); err != nil {
		return t, err
	}
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return t, err
	}
	t.coming = map[schema.GroupKind]bool{}
	t.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(known))
	return t, nil
}

// patience is the time after which a kind of a CustomResourceDefinition and the ServiceAccount of a Namespace are there.
const patience = 10 * time.Second

// errCalls is why webhooks are not loaded, and errAddresses why endpoints are not: they would be called.
var (
	errCalls     = errors.New("what a webhook configuration calls is not in the lab")
	errAddresses = errors.New("its addresses are not in the lab")
)

// add creates an object with its status, and its Namespace if that is missing.
func (t target) add(ctx context.Context, object *unstructured.Unstructured) error {
	if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
		return errCalls
	}
	if object.GetKind() == "EndpointSlice" || object.GetKind() == "Endpoints" {
		return errAddresses
	}
	for end := time.Now().Add(patience); ; {
		err := t.create(ctx, object)
		if !t.mayCome(ctx, object, err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
			t.kinds.Reset()
		}
	}
}

// mayCome reports whether what an object lacks will be there, and creates its Namespace if it lacks that.
func (t target) mayCome(ctx context.Context, object *unstructured.Unstructured, err error) bool {
	switch {
	case apierrors.IsNotFound(err) && strings.HasPrefix(err.Error(), "namespaces "):
		namespace := &unstructured.Unstructured{}
		namespace.SetAPIVersion("v1")
		namespace.SetKind("Namespace")
		namespace.SetName(object.GetNamespace())
		return t.create(ctx, namespace) == nil
	case meta.IsNoMatchError(err):
		return t.coming[object.GroupVersionKind().GroupKind()]
	}
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "error looking up service account")
}

func (t target) create(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := t.kinds.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = t.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(metav1.NamespaceDefault)
		}
		resource = t.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	if kind.Kind == "CustomResourceDefinition" {
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
		t.coming[schema.GroupKind{Group: group, Kind: name}] = true
	}
	status, given := object.Object["status"]
	made, err := resource.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // as the Namespace default is
		_, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "usherctl-lab", Force: true})
		return err
	}
	if err != nil || !given {
		return err
	}
	made.Object["status"] = status
	// usher's name: it does not touch the status of a quota that others write
	if _, err = resource.UpdateStatus(ctx, made, metav1.UpdateOptions{FieldManager: cluster.FieldManager}); apierrors.IsNotFound(err) {
		return nil // a kind without a status of its own
	}
	return err
}
