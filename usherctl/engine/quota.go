package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	of, named := map[schema.GroupVersionResource]lister{}, map[schema.GroupResource]lister{}
	var uncounted []*corev1.ResourceQuota
	for _, object := range s.typed {
		if q, is := object.(*corev1.ResourceQuota); is && q.Status.Hard == nil {
			uncounted = append(uncounted, q)
		}
	}
	if len(uncounted) == 0 {
		return nil
	}
	for _, object := range slices.Concat(s.typed, s.custom) {
		gvk := object.GetObjectKind().GroupVersionKind()
		resource := cmp.Or(r.kinds[gvk].resource, s.kinds[gvk].resource)
		of[resource] = append(of[resource], object)
		named[resource.GroupResource()] = append(named[resource.GroupResource()], object)
	}
	configuration, err := install.NewQuotaConfigurationForControllers(
		func(resource schema.GroupVersionResource) (cache.GenericLister, error) { return of[resource], nil },
		informers.NewSharedInformerFactory(newClient(nil, nil), 0))
	if err != nil {
		return err
	}
	evaluators := generic.NewRegistry(configuration.Evaluators())
	for _, q := range uncounted {
		addCounts(evaluators, q, named)
		used, err := quota.CalculateUsage(q.Namespace, q.Spec.Scopes, q.Spec.Hard, evaluators, q.Spec.ScopeSelector)
		if err != nil {
			return fmt.Errorf("ResourceQuota %s/%s: %w", q.Namespace, q.Name, err)
		}
		q.Status.Hard, q.Status.Used = q.Spec.Hard, used
	}
	return nil
}

// addCounts adds what counts the objects of each resource that a quota names as count/RESOURCE, as the controller of quotas does.
func addCounts(evaluators quota.Registry, q *corev1.ResourceQuota, named map[schema.GroupResource]lister) {
	for name := range q.Spec.Hard {
		text, counts := strings.CutPrefix(string(name), "count/")
		resource := schema.ParseGroupResource(text)
		if !counts || evaluators.Get(resource) != nil {
			continue
		}
		evaluators.Add(generic.NewObjectCountEvaluator(resource, func(namespace string) ([]runtime.Object, error) {
			return named[resource].ByNamespace(namespace).List(labels.Everything())
		}, ""))
	}
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
