package oracle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/generic"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// configurations are the two webhook configurations that usher prints.
type configurations struct {
	mutating   registration.MutatingWebhookConfiguration
	validating registration.ValidatingWebhookConfiguration
}

func parseConfigurations(text string) (c configurations, err error) {
	one, other, ok := strings.Cut(text, "\n---\n")
	if !ok {
		return c, fmt.Errorf("want two configurations, got\n%s", text)
	}
	if err := yaml.UnmarshalStrict([]byte(one), &c.mutating); err != nil {
		return c, err
	}
	err = yaml.UnmarshalStrict([]byte(other), &c.validating)
	return c, c.fill(err)
}

// fill sets the defaults that the API server sets in a stored configuration, and turns Ignore into Fail, so that
// invalid answers are detected.
func (c *configurations) fill(err error) error {
	fail := registration.Fail
	for i := range c.mutating.Webhooks {
		w := &c.mutating.Webhooks[i]
		w.FailurePolicy = &fail
		w.NamespaceSelector, w.ObjectSelector = everythingIfNil(w.NamespaceSelector), everythingIfNil(w.ObjectSelector)
	}
	for i := range c.validating.Webhooks {
		w := &c.validating.Webhooks[i]
		w.FailurePolicy = &fail
		w.NamespaceSelector, w.ObjectSelector = everythingIfNil(w.NamespaceSelector), everythingIfNil(w.ObjectSelector)
	}
	return err
}

func everythingIfNil(s *metav1.LabelSelector) *metav1.LabelSelector {
	if s == nil {
		return &metav1.LabelSelector{}
	}
	return s
}

// only keeps the webhook of one path, called with one version of the review.
func (c configurations) only(path, version string) configurations {
	var one configurations
	elsewhere := func(at registration.WebhookClientConfig) bool { return !strings.HasSuffix(*at.URL, path) }
	mutates := func(w registration.MutatingWebhook) bool { return elsewhere(w.ClientConfig) }
	validates := func(w registration.ValidatingWebhook) bool { return elsewhere(w.ClientConfig) }
	c.mutating.DeepCopyInto(&one.mutating)
	c.validating.DeepCopyInto(&one.validating)
	one.mutating.Webhooks = slices.DeleteFunc(one.mutating.Webhooks, mutates)
	one.validating.Webhooks = slices.DeleteFunc(one.validating.Webhooks, validates)
	for i := range one.mutating.Webhooks {
		one.mutating.Webhooks[i].AdmissionReviewVersions = []string{version}
	}
	for i := range one.validating.Webhooks {
		one.validating.Webhooks[i].AdmissionReviewVersions = []string{version}
	}
	return one
}

// apiServer is the part of an API server that calls webhooks: its two unmodified admission plugins.
type apiServer struct {
	chain admission.Interface
	calls calls
	lost  int // audit annotations that a webhook wrote differently when it was called again

	informers informers.SharedInformerFactory
	plugins   []*generic.Webhook
}

// newAPIServer starts no informers; it puts the configurations and namespaces into their stores. further is another
// plugin of the API server that runs after the mutating webhooks; it may be nil.
func newAPIServer(c configurations, namespaces []string, further admission.Interface) (*apiServer, error) {
	s := &apiServer{informers: informers.NewSharedInformerFactory(nil, 0)}
	if err := fillInformers(s.informers, c, namespaces); err != nil {
		return nil, err
	}
	known, names := admission.NewPlugins(), []string{mutating.PluginName, "Further", validating.PluginName}
	mutating.Register(known)
	validating.Register(known)
	known.Register("Further", func(io.Reader) (admission.Interface, error) { return further, nil })
	if further == nil {
		names = slices.Delete(names, 1, 2)
	}
	var err error
	if s.chain, err = known.NewFromPlugins(names, noConfig{}, s, nil); err != nil {
		return nil, err
	}
	for _, plugin := range s.plugins {
		plugin.SetReadyFunc(func() bool { return true }) // no informer runs, the stores are complete
	}
	return s, nil
}

type noConfig struct{}

func (noConfig) ConfigFor(string) (io.Reader, error) { return nil, nil } //nolint:nilnil // as the plug-in reads "no configuration"

func fillInformers(factory informers.SharedInformerFactory, c configurations, namespaces []string) error {
	hooks := factory.Admissionregistration().V1()
	if err := hooks.MutatingWebhookConfigurations().Informer().GetIndexer().Add(&c.mutating); err != nil {
		return err
	}
	if err := hooks.ValidatingWebhookConfigurations().Informer().GetIndexer().Add(&c.validating); err != nil {
		return err
	}
	for _, name := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"kubernetes.io/metadata.name": name, "admission-webhook": "enabled"}}}
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(ns); err != nil {
			return err
		}
	}
	return nil
}

// Initialize sets the dependencies of a webhook plugin, as an API server does.
func (s *apiServer) Initialize(plugin admission.Interface) {
	var hooks *generic.Webhook
	switch plugin := plugin.(type) {
	case *mutating.Plugin:
		hooks = plugin.Webhook
	case *validating.Plugin:
		hooks = plugin.Webhook
	default:
		return
	}
	s.plugins = append(s.plugins, hooks)
	nowhere := kubernetes.NewForConfigOrDie(&rest.Config{Host: "127.0.0.1:1"}) // used only for a namespace that does not exist
	hooks.SetExternalKubeClientSet(nowhere)
	hooks.SetExternalKubeInformerFactory(s.informers)
	type resolver = webhookutil.AuthenticationInfoResolver
	hooks.SetAuthenticationInfoResolverWrapper(func(usual resolver) resolver {
		return &webhookutil.AuthenticationInfoResolverDelegator{
			ClientConfigForServiceFunc: usual.ClientConfigForService,
			ClientConfigForFunc: func(host string) (*rest.Config, error) {
				config, err := usual.ClientConfigFor(host)
				if err == nil {
					config.Wrap(s.calls.record)
				}
				return config, err
			},
		}
	})
}

// calls are the HTTP requests and responses of one admission.
type calls struct{ sent, answered [][]byte }

// record wraps a transport and records its requests and responses.
func (c *calls) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(sent))
		answer, err := next.RoundTrip(again)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(bytes.NewReader(text))
		c.sent, c.answered = append(c.sent, sent), append(c.answered, text)
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// outcome is the API server's result for a request.
type outcome struct {
	object   runtime.Object // as it would be stored; nil for a deletion
	err      error          // why it is refused
	warnings []string
	audit    map[string]string // as WEBHOOK/KEY
	calls    calls
}

// admit runs the plugins on a request, in the order of an API server.
func (s *apiServer) admit(attributes admission.Attributes) outcome {
	s.calls = calls{}
	o := outcome{audit: map[string]string{}}
	ctx := warning.WithWarningRecorder(context.Background(), &o)
	noted := &annotated{Attributes: attributes, notes: o.audit}
	if s.chain.Handles(attributes.GetOperation()) {
		o.err = s.chain.(admission.MutationInterface).Admit(ctx, noted, interfaces)
	}
	if o.err == nil {
		o.err = s.chain.(admission.ValidationInterface).Validate(ctx, noted, interfaces)
	}
	if o.err == nil {
		o.err = noted.bad
	}
	s.lost += noted.lost
	o.object, o.calls = attributes.GetObject(), s.calls
	return o
}

// AddWarning makes an outcome the recorder of the API server's warnings.
func (o *outcome) AddWarning(_, text string) { o.warnings = append(o.warnings, text) }

// annotated records the audit annotations, which an API server writes to its log.
type annotated struct {
	admission.Attributes
	notes map[string]string
	bad   error // the API server does not accept an annotation
	lost  int   // the API server keeps the first annotation of a key, and only logs later ones
}

func (a *annotated) AddAnnotation(key, value string) error {
	if before, ok := a.notes[key]; ok && before != value && a.GetReinvocationContext().IsReinvoke() {
		a.lost++
		return nil
	}
	if err := a.Attributes.AddAnnotation(key, value); err != nil {
		a.bad = fmt.Errorf("audit annotation %q: %w", key, err)
		return err
	}
	a.notes[key] = value
	return nil
}

// interfaces are the API server's types: here the published types without the defaults of the internal ones, so that
// usher receives the sample unchanged.
var interfaces = func() admission.ObjectInterfaces {
	usual := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	return &objectInterfaces{ObjectInterfaces: usual, ObjectConvertor: sameType{usual.GetObjectConvertor()}}
}()

type objectInterfaces struct {
	admission.ObjectInterfaces
	runtime.ObjectConvertor
}

func (o *objectInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return o.ObjectConvertor }

// sameType converts between equal types, where the API server would go through an internal type.
type sameType struct{ runtime.ObjectConvertor }

func (c sameType) Convert(in, out, context any) error {
	from, to := reflect.ValueOf(in), reflect.ValueOf(out)
	if from.Type() != to.Type() || from.Kind() != reflect.Pointer {
		return c.ObjectConvertor.Convert(in, out, context)
	}
	to.Elem().Set(from.Elem())
	return nil
}
