package engine

import (
	"context"

	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
	kubeapiserveradmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// newChain returns the admission plug-ins that kube-apiserver has by default, in its order, over the objects of informers.
func newChain(ctx context.Context, a authorizer.Authorizer, c client, params dynamic.Interface,
	factory informers.SharedInformerFactory) (admission.Interface, error) {
	server := genericapiserver.NewConfig(legacyscheme.Codecs)
	server.Authorization.Authorizer = a
	own, err := (&kubeapiserveradmission.Config{}).New()
	if err != nil {
		return nil, err
	}
	generic, err := (&controlplaneadmission.Config{ExternalInformers: factory, LoopbackClientConfig: loopback()}).New(nil, nil,
		webhook.NewDefaultServiceResolver(), noop.NewTracerProvider())
	if err != nil {
		return nil, err
	}
	own = append(append(generic, own...), webhookinit.NewPluginInitializer(inProcess, webhook.NewDefaultServiceResolver()))
	o, counts := options.NewAdmissionOptions(), newQuotas(generic)
	o.GenericAdmission.Decorators = append(o.GenericAdmission.Decorators, admission.DecoratorFunc(
		func(plugin admission.Interface, name string) admission.Interface {
			if name == quotaPlugin {
				plugin = counts
			}
			return recorder{plugin, name}
		}))
	if err := o.ApplyTo(server, factory, c, params, utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), own...); err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	return server.AdmissionControl, nil
}

// chained is the admission chain of the cluster that a request's context has.
type chained struct{}

var _ = admission.MutationInterface(chained{})

// Handles implements admission.Interface.
func (chained) Handles(admission.Operation) bool { return true }

// Admit implements admission.MutationInterface.
func (chained) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if requestFrom(ctx) == nil {
		return nil
	}
	asked := requestFrom(ctx)
	asked.unconditional(a)
	chain, mutates := asked.engine.chain.(admission.MutationInterface)
	if !mutates || !chain.Handles(a.GetOperation()) {
		return nil
	}
	return chain.Admit(ctx, asked.attributes(a), o)
}

// Validate implements admission.ValidationInterface.
func (chained) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	asked := requestFrom(ctx)
	chain, validates := asked.engine.chain.(admission.ValidationInterface)
	if validates && chain.Handles(a.GetOperation()) {
		if err := chain.Validate(ctx, asked.withStableName(asked.attributes(a)), o); err != nil {
			return err
		}
	}
	asked.admitted = true
	return nil
}

// withName are the attributes of an object whose name the API server has made.
type withName struct {
	admission.Attributes
	name string
}

// GetName implements admission.Attributes.
func (a withName) GetName() string { return a.name }

// withStableName returns attributes whose name, if it is made of a generateName, is always the same. The object is a copy.
func (r *asked) withStableName(a admission.Attributes) admission.Attributes {
	object, is := a.GetObject().(metav1.Object)
	if !is || r.prefix == "" {
		return a
	}
	object.SetName(r.stable(object.GetName()))
	return withName{a, object.GetName()}
}

// unconditional gives an UPDATE without a resourceVersion that of the stored object, as kubectl does.
func (r *asked) unconditional(a admission.Attributes) {
	now, is := a.GetObject().(metav1.Object)
	old, was := a.GetOldObject().(metav1.Object)
	if is && was && a.GetOperation() == admission.Update && now.GetResourceVersion() == "" {
		now.SetResourceVersion(old.GetResourceVersion())
	}
}

// attributes are those that plug-ins see: the storage gets a dry run in any case, they only if the request is one.
type attributes struct {
	admission.Attributes
	options runtime.Object
}

// IsDryRun implements admission.Attributes.
func (attributes) IsDryRun() bool { return false }

// GetOperationOptions implements admission.Attributes.
func (a attributes) GetOperationOptions() runtime.Object { return a.options }

func (r *asked) attributes(a admission.Attributes) admission.Attributes {
	if r.DryRun || !a.IsDryRun() {
		return a
	}
	if r.seen != nil && r.seen.Attributes == a {
		return r.seen // one value a request: it has the state of reinvocation
	}
	options := a.GetOperationOptions().DeepCopyObject()
	switch o := options.(type) {
	case *metav1.CreateOptions:
		o.DryRun = nil
	case *metav1.UpdateOptions:
		o.DryRun = nil
	case *metav1.DeleteOptions:
		o.DryRun = nil
	}
	r.seen = &attributes{a, options}
	return r.seen
}

// listKinds are the kinds of lists that a dynamic client of custom resources needs.
func listKinds(kinds map[schema.GroupVersionKind]kind) map[schema.GroupVersionResource]string {
	lists := map[schema.GroupVersionResource]string{}
	for gvk, k := range kinds {
		lists[k.resource] = gvk.Kind + "List"
	}
	return lists
}
