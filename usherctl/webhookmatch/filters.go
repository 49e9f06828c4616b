package webhookmatch

import (
	"context"
	"errors"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	spaces "k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	corelisters "k8s.io/client-go/listers/core/v1"
	defaults "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"

	"usher.dev/usher/internal/selector"
)

// One returns the verdict for one webhook, without regard to others.
func (m *Matcher) One(ctx context.Context, r Request, h Hook) Verdict {
	defaults.SetDefaults_ValidatingWebhook(&h.ValidatingWebhook)
	own := Equivalent{Resource: r.resource(), Kind: r.kind(), SameFields: true}
	bare := r.attributes(own, nil, nil)
	if v := r.exempt(h, bare); v.decided() {
		return v
	}
	as, v := r.meetsRules(h, own, bare)
	if v.decided() {
		return v
	}
	sent, err := r.objects(h, as)
	if err != nil {
		return skip(Unknown, "the object cannot be read: %v", err)
	}
	space, labelled := r.meetsNamespaces(h, sent), r.meetsObjects(h, sent)
	switch {
	case space.Filter == NamespaceSelector && labelled.decided():
		space.Why += "; and objectSelector: " + labelled.Why
		return space
	case labelled.Filter == ObjectSelector || !space.decided():
		space = labelled
	}
	if space.decided() {
		return space
	}
	if v := m.meets(ctx, r, as, h, sent); v.decided() {
		return v
	}
	if v := r.dryRunnable(h); v.decided() || as.Resource == own.Resource {
		v.Called = !v.decided()
		return v
	}
	return Verdict{Called: true, As: as.Resource}
}

// attributes returns the request as the API server's own code has it, with objects in the version in which a webhook gets them. Those of a
// connection are options, which have no metadata.
func (r Request) attributes(as Equivalent, sent, old *unstructured.Unstructured) *admission.VersionedAttributes {
	info := &user.DefaultInfo{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: map[string][]string{}}
	for key, values := range r.UserInfo.Extra {
		info.Extra[key] = values
	}
	var all [2]runtime.Object
	for i, o := range []*unstructured.Unstructured{sent, old} {
		if o != nil {
			all[i] = o
		}
	}
	in := all
	if r.Operation == "CONNECT" {
		in = [2]runtime.Object{}
	}
	own := admission.NewAttributesRecord(in[0], in[1], r.kind(), r.Namespace, r.Name, r.resource(), r.subresource(),
		admission.Operation(r.Operation), r.options(), valueOr(r.DryRun, false), info)
	return &admission.VersionedAttributes{Attributes: own, VersionedKind: as.Kind, VersionedObject: admission.NewLazyObject(all[0]),
		VersionedOldObject: admission.NewLazyObject(all[1])}
}

// objects returns the request with its objects, if a webhook asks for what is in them.
func (r Request) objects(h Hook, as Equivalent) (*admission.VersionedAttributes, error) {
	if !h.ReadsObject() && (!r.isNamespaces() || selector.Empty(h.NamespaceSelector)) {
		return r.attributes(as, nil, nil), nil
	}
	sent, err := r.decode(r.Object.Raw, as)
	old, oldErr := r.decode(r.OldObject.Raw, as)
	return r.attributes(as, sent, old), errors.Join(err, oldErr)
}

// decode returns an object in another version; nil if there is none. A Namespace has the label that the API server sets.
func (r Request) decode(raw []byte, as Equivalent) (*unstructured.Unstructured, error) {
	if isAbsent(raw) {
		return nil, nil //nolint:nilnil // as admission.Attributes wants it
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
		return nil, err
	}
	if u.Object == nil {
		return nil, errors.New("it is not an object")
	}
	u.SetGroupVersionKind(as.Kind)
	if r.isNamespaces() && r.subresource() == "" {
		u.SetLabels(named(u.GetLabels(), r.Namespace))
	}
	return u, nil
}

// options returns the options of the operation.
func (r Request) options() runtime.Object {
	into := map[string]runtime.Object{"CREATE": &metav1.CreateOptions{}, "UPDATE": &metav1.UpdateOptions{},
		"DELETE": &metav1.DeleteOptions{}}[string(r.Operation)]
	if into != nil {
		_ = utiljson.Unmarshal(r.Options.Raw, into) // a manifest has none
	}
	return into
}

// exempt decides for the objects of which the API server asks no webhook.
func (r Request) exempt(from Hook, attr admission.Attributes) Verdict {
	switch resource := r.resource().GroupResource(); {
	case rules.IsExemptAdmissionConfigurationResource(attr) && !OnDisk(from.Configuration):
		return skip(Exempt, "the API server calls no webhook for a %s: a webhook could keep it from being corrected", r.kind().Kind)
	case !r.SendsVirtualResources && slices.Contains(exclusion.Excluded(), resource):
		return skip(Exempt, "since Kubernetes 1.37 the API server calls no webhook for %s: a webhook could lock the cluster", resource.Resource)
	}
	return Verdict{}
}

// under is a request under another resource.
type under struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

// GetResource returns the other resource.
func (u under) GetResource() schema.GroupVersionResource { return u.resource }

// matches reports whether a rule is for a request.
func matches(rule registration.RuleWithOperations, attr admission.Attributes) bool {
	return (&rules.Matcher{Rule: rule, Attr: attr}).Matches()
}

// Covers reports whether rules name an operation on a resource, which may have a subresource, in any version and scope.
func Covers(all []registration.RuleWithOperations, operation registration.OperationType, of schema.GroupResource, sub string) bool {
	attr := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", of.WithVersion(""), sub,
		admission.Operation(operation), nil, false, nil)
	return slices.ContainsFunc(all, func(rule registration.RuleWithOperations) bool {
		rule.APIVersions, rule.Scope = anything, nil
		return matches(rule, attr)
	})
}

// meetsRules decides by rules and matchPolicy. If the rules match, as is the equivalent that the webhook gets.
func (r Request) meetsRules(h Hook, own Equivalent, attr admission.Attributes) (as Equivalent, v Verdict) {
	if slices.ContainsFunc(h.Rules, func(rule registration.RuleWithOperations) bool { return matches(rule, attr) }) {
		return own, v
	}
	exact := *h.MatchPolicy == registration.Exact
	for _, rule := range h.Rules {
		for _, other := range r.Equivalents {
			switch {
			case other.Resource == own.Resource || !matches(rule, under{attr, other.Resource}):
			case exact:
				return own, skip(MatchPolicy, "is Exact, and the rules are for %s, which has the same objects, but not for %s; use Equivalent",
					versioned(other.Resource), versioned(own.Resource))
			default:
				return other, v
			}
		}
	}
	byVersion := func(rule registration.RuleWithOperations) bool {
		rule.APIGroups, rule.APIVersions = anything, anything
		return matches(rule, attr)
	}
	if !exact && r.EquivalentsErr != nil && slices.ContainsFunc(h.Rules, byVersion) {
		return own, skip(Unknown, "rules: are for another version or group, and whether the API server converts to it is not known: %v",
			r.EquivalentsErr)
	}
	return own, r.missed(h.Rules, attr)
}

// space is the Namespace of a request, for the matcher of namespaceSelectors.
type space struct {
	corelisters.NamespaceLister
	of map[string]string
}

// Get returns the Namespace.
func (s space) Get(name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.of}}, nil
}

// named returns labels of a namespace with the label that the API server sets.
func named(of labels.Set, name string) labels.Set {
	if name == "" {
		return of
	}
	return labels.Merge(of, labels.Set{corev1.LabelMetadataName: name})
}

// meetsNamespaces decides by namespaceSelector, which concerns Namespaces and what is in one. If the labels of the namespace are not known,
// one of them is.
func (r Request) meetsNamespaces(h Hook, attr *admission.VersionedAttributes) Verdict {
	wanted, of := selector.Requirements(h.NamespaceSelector), named(r.InNamespace.Labels, r.Namespace)
	var unknown []metav1.LabelSelectorRequirement
	if r.isNamespaces() && attr.GetObject() != nil && attr.GetOperation() != admission.Delete && r.subresource() == "" {
		of = attr.GetObject().(*unstructured.Unstructured).GetLabels() //nolint:forcetypeassert // decode has made it
	} else if r.InNamespace.Err != nil {
		isName := func(w metav1.LabelSelectorRequirement) bool { return w.Key == corev1.LabelMetadataName }
		unknown = slices.DeleteFunc(slices.Clone(wanted), isName)
		wanted = slices.DeleteFunc(wanted, func(w metav1.LabelSelectorRequirement) bool { return !isName(w) })
		h.NamespaceSelector, of = &metav1.LabelSelector{MatchExpressions: wanted}, named(nil, r.Namespace)
	}
	met, err := (&spaces.Matcher{NamespaceLister: space{of: of}}).MatchNamespaceSelector(h.accessor(), attr)
	switch {
	case err != nil:
		return unusable(NamespaceSelector, err)
	case !met:
		return mismatch(NamespaceSelector, wanted, of, "namespace "+r.Namespace)
	case len(unknown) > 0 && (r.Namespace != "" || r.isNamespaces()):
		return skip(Unknown, "namespaceSelector: %s, and the labels of namespace %s are not known: %v", textOf(unknown), r.Namespace, r.InNamespace.Err)
	}
	return Verdict{}
}

// meetsObjects decides by objectSelector: the object before or after the request has to match.
func (r Request) meetsObjects(h Hook, attr *admission.VersionedAttributes) Verdict {
	met, err := (&object.Matcher{}).MatchObjectSelector(h.accessor(), attr.Attributes)
	wanted := selector.Requirements(h.ObjectSelector)
	switch {
	case err != nil:
		return unusable(ObjectSelector, err)
	case met:
		return Verdict{}
	case r.Operation == "CONNECT":
		return skip(ObjectSelector, "%s, and the object of a CONNECT request has no labels", textOf(wanted))
	}
	of := func(o runtime.Object) labels.Set {
		if u, is := o.(*unstructured.Unstructured); is {
			return u.GetLabels()
		}
		return nil
	}
	sent, old := of(attr.GetObject()), of(attr.GetOldObject())
	switch {
	case attr.GetObject() == nil:
		sent = old
	case attr.GetOldObject() != nil && !labels.Equals(sent, old):
		v := mismatch(ObjectSelector, wanted, sent, "the new object")
		v.Why += "; the old one does not match either"
		return v
	}
	return mismatch(ObjectSelector, wanted, sent, "the object")
}

// unusable is the verdict for a selector that cannot be parsed; the API server would not store it.
func unusable(filter string, err error) Verdict {
	return Verdict{Filter: filter, Why: "cannot be used: " + strings.TrimPrefix(err.Error(), "Internal error occurred: "), Refuses: true}
}

// accessor returns the webhook as the API server's own code has it.
func (h Hook) accessor() webhook.WebhookAccessor {
	return webhook.NewValidatingWebhookAccessor("", h.Configuration, &h.ValidatingWebhook)
}
