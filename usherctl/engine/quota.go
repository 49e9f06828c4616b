package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
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

// Used are the ResourceQuotas of Namespaces as the requests before left them.
type Used map[string][]corev1.ResourceQuota

// quotaPlugin is the name of the plug-in that counts.
const quotaPlugin = "ResourceQuota"

// quotas is the plug-in ResourceQuota. The API server's own writes what is used into the cluster; by the same code, this one adds it to the
// Used of a request.
type quotas struct {
	*admission.Handler
	configuration quota.Configuration
	evaluators    quota.Registry
}

// newQuotas returns the plug-in with what initializers give to it.
func newQuotas(initializers []admission.PluginInitializer) *quotas {
	q := &quotas{Handler: admission.NewHandler(admission.Create, admission.Update)}
	for _, i := range initializers {
		i.Initialize(q)
	}
	q.evaluators = generic.NewRegistry(q.configuration.Evaluators())
	return q
}

// SetQuotaConfiguration implements initializer.WantsQuotaConfiguration.
func (q *quotas) SetQuotaConfiguration(c quota.Configuration) { q.configuration = c }

// ValidateInitialization implements admission.InitializationValidator.
func (*quotas) ValidateInitialization() error { return nil }

// mostCounted is the maximum Request.Count that is counted.
const mostCounted = 10_000

// Validate implements admission.ValidationInterface.
func (q *quotas) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	asked, resource := requestFrom(ctx), a.GetResource().GroupResource()
	before, has := asked.Used[a.GetNamespace()]
	if !has {
		before = asked.engine.quotas[a.GetNamespace()]
	}
	if _, ignored := q.configuration.IgnoredResources()[resource]; ignored || len(before) == 0 {
		return nil
	}
	evaluator := q.evaluators.Get(resource)
	if evaluator == nil {
		evaluator = generic.NewObjectCountEvaluator(resource, nil, "")
		q.evaluators.Add(evaluator)
	}
	asked.used = before
	for range min(asked.count(), mostCounted) {
		after, err := resourcequota.CheckRequest(asked.used, a, evaluator, nil)
		if err != nil {
			return err
		}
		if asked.fit++; slices.EqualFunc(asked.used, after, sameUse) {
			asked.fit = asked.count() // none is counted
			return nil
		}
		asked.used, asked.counted = after, true
	}
	return nil
}

func sameUse(a, b corev1.ResourceQuota) bool { return quota.Equals(a.Status.Used, b.Status.Used) }

// count returns Request.Count, or 1.
func (r *asked) count() int64 {
	if r.Count == nil {
		return 1
	}
	return *r.Count
}

// keep adds to the Used of a request what its objects use, if they are stored, or those that fit.
func (r *asked) keep(v *Verdict) {
	v.Fit, v.Counted = r.fit, r.counted
	if r.Used != nil && r.used != nil && (v.Refusal == nil || v.By == quotaPlugin) {
		r.Used[r.Namespace] = r.used
	}
	if v.Refusal == nil && r.counted && r.count() > mostCounted {
		v.Unjudged = append(v.Unjudged, fmt.Sprintf("whether more than %d fit into the ResourceQuotas is not counted", mostCounted))
	}
}
