package doctor

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
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/parallel"
)

// decisive are the kinds whose objects decide about requests, beside webhooks and policies; those in Namespaces only about requests in theirs.
var decisive = []struct {
	reader.Kind
	namespaced bool
}{
	{reader.NewKind("", "v1", "LimitRange", "limitranges"), true},
	{reader.NewKind("", "v1", "ResourceQuota", "resourcequotas"), true},
	{reader.NewKind("", "v1", "ServiceAccount", "serviceaccounts"), true},
	{reader.NewKind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"), false},
	{reader.NewKind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"), false},
	{reader.NewKind("networking.k8s.io", "v1", "IngressClass", "ingressclasses"), false},
	{reader.NewKind("storage.k8s.io", "v1", "StorageClass", "storageclasses"), false},
}

var definitions = reader.NewKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")

// state is a cluster as far as it decides about the requests of some Namespaces.
type state struct {
	lock     sync.Mutex
	objects  []*unstructured.Unstructured
	unread   []string                  // what could not be read
	open     map[string]bool           // resources of which not all objects are known
	unknown  map[string]string         // by policy: why its parameters are not known
	custom   map[schema.GroupKind]bool // the kinds that definitions have
	policies []admissionPolicies
}

// add adds an object, which lacks its kind if it comes from a list.
func (s *state) add(kind reader.Kind, raw json.RawMessage) {
	object := &unstructured.Unstructured{}
	if json.Unmarshal(raw, &object.Object) != nil {
		return
	}
	object.SetKind(kind.Kind)
	if object.GetAPIVersion() == "" {
		object.SetAPIVersion(schema.GroupVersion{Group: kind.Group, Version: kind.Version}.String())
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.objects = append(s.objects, object)
}

// failed notes what could not be read. A resource that is not served has no objects.
func (s *state) failed(resource, what string, err error) {
	if missingIsFine(err) == nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.open[resource] = true
	s.unread = append(s.unread, what+": "+err.Error())
}

// readState reads what decides about requests in the Namespaces of an examiner.
func (e *Examiner) readState(ctx context.Context) *state {
	s := &state{open: map[string]bool{}, unknown: map[string]string{}, custom: map[schema.GroupKind]bool{}}
	var calls []func()
	for _, kind := range decisive {
		spaces := []string{""}
		if kind.namespaced {
			spaces = slices.Collect(maps.Keys(e.spaces))
		}
		for _, space := range spaces {
			calls = append(calls, func() {
				list, err := e.source.List(ctx, kind.Kind, space)
				s.failed(kind.Resource, "what each "+kind.Kind.Kind+" says", err)
				for _, raw := range list {
					s.add(kind.Kind, raw)
				}
			})
		}
	}
	s.policies = make([]admissionPolicies, len(policyKinds))
	for i, kind := range policyKinds {
		calls = append(calls, func() { s.policies[i] = e.readPolicies(ctx, s, kind) })
	}
	parallel.Run(calls...)
	for _, all := range s.policies {
		e.readParams(ctx, s, all)
	}
	e.readDefinitions(ctx, s)
	e.addConfigurations(s)
	slices.Sort(s.unread)
	return s
}

// readPolicies reads the admission policies of a kind, with their bindings. The API server would not have stored a malformed one.
func (e *Examiner) readPolicies(ctx context.Context, s *state, kind string) admissionPolicies {
	all, problems := readPolicies(ctx, e.source, kind)
	for _, err := range problems {
		what := "what each " + kind + " says"
		if malformed, is := errors.AsType[*reader.MalformedError](err); is {
			what, err = "what the "+malformed.Object+" says", errors.New(malformed.Why)
		}
		s.failed(kind, what, err)
	}
	return all
}

// readParams reads the parameters that bindings name. If they are not known, the API server's code is to refuse what asks for them, which
// shows whether a request does.
func (e *Examiner) readParams(ctx context.Context, s *state, all admissionPolicies) {
	for _, b := range all.bindings {
		policy := all.bound(b)
		if policy == nil || policy.malformed || b.malformed {
			continue
		}
		if of, ref := policy.Spec.ParamKind, b.Spec.ParamRef; of != nil && ref != nil {
			found, err := e.params(ctx, s, *of, *ref)
			if err == nil && !found && !e.source.Live() {
				err = errors.New("no file has its parameters")
			}
			if err != nil {
				s.unknown[policy.Metadata.Name] = err.Error()
				_ = unstructured.SetNestedField(b.stored.Object, string(registration.DenyAction), "spec", "paramRef", "parameterNotFoundAction")
				_ = unstructured.SetNestedField(policy.stored.Object, string(registration.Fail), "spec", "failurePolicy")
			}
		}
	}
	for _, p := range slices.Concat(all.policies, all.bindings) {
		if !p.malformed {
			s.objects = append(s.objects, p.stored)
		}
	}
}

// params reads parameters of a kind, and reports whether there are any.
func (e *Examiner) params(ctx context.Context, s *state, of registration.ParamKind, ref registration.ParamRef) (found bool, err error) {
	gvk := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	e.wanted[gvk] = true
	resource := e.resourceOf(ctx, gvk)
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	kind := reader.NewKind(gvk.Group, gvk.Version, gvk.Kind, cmp.Or(resource.Name, plural.Resource))
	spaces := []string{ref.Namespace}
	if resource.Namespaced && ref.Namespace == "" {
		spaces = slices.Collect(maps.Keys(e.spaces))
	}
	for _, space := range spaces {
		var list []json.RawMessage
		if ref.Name != "" {
			one, failed := e.source.Get(ctx, kind, space, ref.Name)
			if list, err = []json.RawMessage{one}, cmp.Or(err, missingIsFine(failed)); failed != nil {
				continue
			}
		} else if list, err = e.source.List(ctx, kind, space); missingIsFine(err) != nil {
			return false, err
		}
		for _, raw := range list {
			s.add(kind, raw)
		}
		found = found || len(list) > 0
	}
	return found, missingIsFine(err)
}

// readDefinitions adds the CustomResourceDefinitions of the kinds that are asked for; for one that is not known, a definition that permits
// everything. Conversions are left out: their webhooks are not called here.
func (e *Examiner) readDefinitions(ctx context.Context, s *state) {
	byName := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
	for _, gvk := range slices.SortedFunc(maps.Keys(e.wanted), byName) {
		if s.custom[gvk.GroupKind()] || engine.BuiltIn(gvk.Group) {
			continue
		}
		s.custom[gvk.GroupKind()] = true
		is := e.resourceOf(ctx, gvk)
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		name := schema.GroupResource{Group: gvk.Group, Resource: cmp.Or(is.Name, plural.Resource)}
		raw, err := e.source.Get(ctx, definitions, "", name.String())
		if err != nil {
			s.objects = append(s.objects, e.permissive(ctx, gvk, name, is))
			continue
		}
		s.add(definitions, raw)
		unstructured.RemoveNestedField(s.objects[len(s.objects)-1].Object, "spec", "conversion")
	}
}

// permissive returns a definition of a kind that nothing else is known of.
func (e *Examiner) permissive(ctx context.Context, gvk schema.GroupVersionKind, name schema.GroupResource,
	is discovery.Resource) *unstructured.Unstructured {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name.String()}}
	d.Spec.Group, d.Spec.Scope = gvk.Group, apiextensionsv1.NamespaceScoped
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: name.Resource, Kind: gvk.Kind, ListKind: gvk.Kind + "List",
		Singular: strings.ToLower(gvk.Kind)}
	if is.Err == nil && !is.Namespaced || is.Err != nil && !e.kinds.Namespaced(gvk.GroupKind()) {
		d.Spec.Scope = apiextensionsv1.ClusterScoped
	}
	versions := []string{gvk.Version}
	others, _ := discovery.Equivalents(ctx, e.source, name.WithVersion(gvk.Version), "")
	for _, other := range others {
		versions = append(versions, other.Resource.Version)
	}
	for i, version := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Storage: i == 0,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
				XPreserveUnknownFields: new(true)}}})
	}
	return objectOf("apiextensions.k8s.io/v1", definitions.Kind, d)
}

// probe is the name of configurations whose webhooks see how far each request gets, before others, and what others would get.
const probe = "-probe"

// addConfigurations adds the webhook configurations, and the probes.
func (e *Examiner) addConfigurations(s *state) {
	everything := registration.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	seen := registration.MutatingWebhook{Name: "probe.usher.dev", SideEffects: new(registration.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"}, MatchPolicy: new(registration.Exact),
		ClientConfig: registration.WebhookClientConfig{URL: new("https://probe.invalid")},
		Rules:        []registration.RuleWithOperations{{Operations: []registration.OperationType{registration.OperationAll}, Rule: everything}}}
	all := map[[2]string]*registration.MutatingWebhookConfiguration{}
	for _, h := range append(slices.Clone(e.hooks), entry{kind: mutatingKind, configuration: metav1.ObjectMeta{Name: probe}, Hook: seen},
		entry{kind: validatingKind, configuration: metav1.ObjectMeta{Name: probe}, Hook: seen}) {
		key := [2]string{h.kind, h.configuration.Name}
		if all[key] == nil {
			all[key] = &registration.MutatingWebhookConfiguration{ObjectMeta: h.configuration}
		}
		if len(h.AdmissionReviewVersions) == 0 { // which no API server would have stored
			h.AdmissionReviewVersions = seen.AdmissionReviewVersions
		}
		all[key].Webhooks = append(all[key].Webhooks, h.Hook)
	}
	for key, configuration := range all {
		s.objects = append(s.objects, objectOf(registrationGroup+"/v1", key[0], configuration))
	}
}

// objectOf returns a typed object of a kind.
func objectOf(apiVersion, kind string, typed any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		panic(fmt.Sprintf("an object of a type of Kubernetes: %v", err))
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	return object
}

// assume adds what pods ask for and what is known neither to exist nor not to: it is taken to exist.
func (s *state) assume(live bool, pods []corev1.Pod) {
	for _, pod := range pods {
		for _, one := range []struct{ apiVersion, kind, resource, namespace, name string }{
			{"v1", "ServiceAccount", "serviceaccounts", pod.Namespace, pod.Spec.ServiceAccountName},
			{"scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "", pod.Spec.PriorityClassName},
			{"node.k8s.io/v1", "RuntimeClass", "runtimeclasses", "", ptr.Deref(pod.Spec.RuntimeClassName, "")},
		} {
			has := slices.ContainsFunc(s.objects, func(o *unstructured.Unstructured) bool {
				return o.GetKind() == one.kind && o.GetName() == one.name && o.GetNamespace() == one.namespace
			})
			system := one.kind == "PriorityClass" && strings.HasPrefix(one.name, "system-") // which each cluster has
			if one.name == "" || has || system || live && !s.open[one.resource] {
				continue
			}
			metadata := metav1.ObjectMeta{Namespace: one.namespace, Name: one.name}
			assumed := objectOf(one.apiVersion, one.kind, &metav1.PartialObjectMetadata{ObjectMeta: metadata})
			if one.kind == "RuntimeClass" {
				assumed.Object["handler"] = one.name
			}
			s.objects = append(s.objects, assumed)
		}
	}
}
