package engine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/install"
)

// count gives each ResourceQuota without a status, which no controller has seen, what the objects of its Namespace use.
func (s *state) count(r *registries) error {
	of := map[schema.GroupVersionResource]lister{}
	var uncounted []*corev1.ResourceQuota
	for _, object := range s.typed {
		if q, is := object.(*corev1.ResourceQuota); is && q.Status.Hard == nil {
			uncounted = append(uncounted, q)
		}
	}
	if len(uncounted) == 0 {
		return nil
	}
	for _, object := range s.typed {
		resource := r.kinds[object.GetObjectKind().GroupVersionKind()].resource
		of[resource] = append(of[resource], object)
	}
	configuration, err := install.NewQuotaConfigurationForControllers(
		func(resource schema.GroupVersionResource) (cache.GenericLister, error) { return of[resource], nil },
		informers.NewSharedInformerFactory(newClient(nil, nil), 0))
	if err != nil {
		return err
	}
	evaluators := generic.NewRegistry(configuration.Evaluators())
	for _, q := range uncounted {
		used, err := quota.CalculateUsage(q.Namespace, q.Spec.Scopes, q.Spec.Hard, evaluators, q.Spec.ScopeSelector)
		if err != nil {
			return fmt.Errorf("ResourceQuota %s/%s: %w", q.Namespace, q.Name, err)
		}
		q.Status.Hard, q.Status.Used = q.Spec.Hard, used
	}
	return nil
}

// lister lists objects of a kind.
type lister []runtime.Object

// List implements cache.GenericLister.
func (l lister) List(labels.Selector) ([]runtime.Object, error) { return l, nil }

// Get implements cache.GenericLister.
func (l lister) Get(name string) (runtime.Object, error) {
	return nil, errors.NewNotFound(schema.GroupResource{}, name)
}

// ByNamespace implements cache.GenericLister.
func (l lister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	var in lister
	for _, object := range l {
		if m, err := meta.Accessor(object); err == nil && m.GetNamespace() == namespace {
			in = append(in, object)
		}
	}
	return in
}
