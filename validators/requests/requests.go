// Package requests names requests in sections of the policy that are about objects of any kind.
package requests

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/resources"
)

// Requests names requests in a section of the policy, with the fields of a rule of a webhook.
type Requests struct {
	APIGroups     []string               `json:"apiGroups" doc:"API groups; an empty text is the group of pods, * is any" schema:"required,items=1,most=100"`
	APIVersions   []string               `json:"apiVersions,omitempty" doc:"versions of the groups" schema:"most=100" default:"all"`
	Resources     []string               `json:"resources" doc:"resources in the plural, such as pods, or subresources, such as pods/exec; * is any" schema:"required,items=1,is=resource,most=100"`
	Operations    []string               `json:"operations" doc:"what is done to the objects; * is all of them" schema:"required,items=1,enum=CREATE|UPDATE|DELETE|CONNECT|*"`
	Scope         registration.ScopeType `json:"scope,omitempty" doc:"whether the objects are in namespaces" schema:"enum=Namespaced|Cluster|*" default:"*"`
	ResourceNames []string               `json:"resourceNames,omitempty" doc:"exact names of the objects" schema:"is=exact-name" default:"all"`
}

// allOperations are the operations that webhooks are called for.
var allOperations = []string{string(admissionv1.Create), string(admissionv1.Update), string(admissionv1.Delete), string(admissionv1.Connect)}

// Rule returns the rule of a webhook that names the same requests.
func (r Requests) Rule() admit.Rule {
	rule := admit.Rule{Groups: r.APIGroups, Versions: r.APIVersions, Resources: r.Resources, Scope: r.Scope, Names: r.ResourceNames}
	if len(rule.Versions) == 0 {
		rule.Versions = []string{"*"}
	}
	operations := r.Operations
	if slices.Contains(operations, "*") {
		operations = allOperations
	}
	for _, o := range operations {
		rule.Operations = append(rule.Operations, admissionv1.Operation(o))
	}
	return rule
}

// Check returns all problems of the fields. What would stop a cluster while usher is unavailable is a problem, too.
func (r Requests) Check(at *field.Path) field.ErrorList {
	problems := r.checkFields(at)
	for i, name := range r.Resources {
		if isResource(name) {
			problems = append(problems, r.checkVital(name, at.Child("resources").Index(i))...)
		}
	}
	return problems
}

// checkFields returns the problems of the fields themselves.
func (r Requests) checkFields(at *field.Path) (problems field.ErrorList) {
	if len(r.APIGroups) == 0 {
		problems = append(problems, field.Required(at.Child("apiGroups"), `such as [apps]; [""] is the group of pods`))
	}
	if len(r.Resources) == 0 {
		problems = append(problems, field.Required(at.Child("resources"), "such as [pods, pods/exec]"))
	}
	if len(r.Operations) == 0 {
		problems = append(problems, field.Required(at.Child("operations"), "some of "+strings.Join(allOperations, ", ")))
	}
	for i, o := range r.Operations {
		if o != "*" && !slices.Contains(allOperations, o) {
			problems = append(problems, field.NotSupported(at.Child("operations").Index(i), o, append(slices.Clone(allOperations), "*")))
		}
	}
	scopes := []registration.ScopeType{"", registration.NamespacedScope, registration.ClusterScope, registration.AllScopes}
	if !slices.Contains(scopes, r.Scope) {
		problems = append(problems, field.NotSupported(at.Child("scope"), r.Scope, scopes))
	}
	for i, name := range r.Resources {
		if !isResource(name) {
			problems = append(problems, field.Invalid(at.Child("resources").Index(i), name,
				"must be a resource in the plural and in lower case, such as pods or pods/exec"))
		}
	}
	for i, name := range r.ResourceNames {
		if name == "" || strings.Contains(name, "*") {
			problems = append(problems, field.Invalid(at.Child("resourceNames").Index(i), name,
				"must be the exact name of an object; leave resourceNames out for all"))
		}
	}
	return problems
}

// Warnings returns the resources of which no request matches, as far as they are known: those of Kubernetes.
func (r Requests) Warnings(at *field.Path, known resources.Table) (texts []string) {
	for i, name := range r.Resources {
		if miss := known.Misses(r.ofWebhook(), name); miss != nil {
			texts = append(texts, fmt.Sprintf("%s: no request matches %s: %s", at.Child("resources").Index(i), name, miss.Why))
		}
	}
	return texts
}

// ofWebhook returns the rule as it stands in a webhook configuration.
func (r Requests) ofWebhook() registration.RuleWithOperations {
	is := r.Rule()
	rule := registration.RuleWithOperations{Rule: registration.Rule{APIGroups: is.Groups, APIVersions: is.Versions, Resources: is.Resources}}
	for _, o := range is.Operations {
		rule.Operations = append(rule.Operations, registration.OperationType(o))
	}
	if is.Scope != "" {
		rule.Scope = &is.Scope
	}
	return rule
}

// isResource reports whether a text may be the name of a resource or a subresource.
func isResource(name string) bool {
	return name != "" && name == strings.ToLower(name) && strings.Count(name, "/") <= 1
}

// checkVital returns the problem of a resource that no section may match.
func (r Requests) checkVital(name string, at *field.Path) field.ErrorList {
	for _, v := range vital {
		one := admit.Rule{Groups: r.APIGroups, Versions: []string{"*"}, Resources: []string{name}, Operations: []admissionv1.Operation{admissionv1.Update}}
		if one.Covers(v.request()) {
			return field.ErrorList{field.Invalid(at, name, "must not match "+v.name()+": "+v.why)}
		}
	}
	return nil
}

// vital lists what a cluster needs all the time, and what the API server sends to no webhook.
var vital = []vitalResource{
	{"coordination.k8s.io", "leases", "", "nodes and controllers renew them to show that they are alive; name the resources that are meant"},
	{"", "nodes", "status", "kubelets report by it; name the subresources that are meant"},
	{"", "pods", "status", "kubelets report by it; name the subresources that are meant"},
	{"authentication.k8s.io", "tokenreviews", "", "no request could be authenticated while usher is unavailable"},
	{"authorization.k8s.io", "subjectaccessreviews", "", "no request could be authorized while usher is unavailable"},
	{"authorization.k8s.io", "localsubjectaccessreviews", "", "no request could be authorized while usher is unavailable"},
	{"authorization.k8s.io", "selfsubjectaccessreviews", "", "no request could be authorized while usher is unavailable"},
	{"admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "the API server sends them to no webhook; guard them with RBAC"},
	{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "the API server sends them to no webhook; guard them with RBAC"},
	{"admissionregistration.k8s.io", "validatingadmissionpolicies", "", "the API server sends them to no webhook; guard them with RBAC"},
	{"admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "the API server sends them to no webhook; guard them with RBAC"},
	{"admissionregistration.k8s.io", "mutatingadmissionpolicies", "", "the API server sends them to no webhook; guard them with RBAC"},
	{"admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "", "the API server sends them to no webhook; guard them with RBAC"},
}

// vitalResource is a resource or a subresource, and why no section may match it.
type vitalResource struct{ group, resource, sub, why string }

func (v vitalResource) name() string {
	if v.sub != "" {
		return v.resource + "/" + v.sub
	}
	return v.resource
}

// request returns an update of the resource.
func (v vitalResource) request() *admit.Request {
	req := &admit.Request{Operation: admissionv1.Update, SubResource: v.sub}
	req.Resource.Group, req.Resource.Version, req.Resource.Resource = v.group, "v1", v.resource
	return req
}

// MaxRequests is the maximum number of lists of requests in a section: each becomes a rule of a webhook, and they are compared with each
// other.
const MaxRequests = 2000

// CheckNumber returns the problem of a section with more lists of requests than it may have.
func CheckNumber(n int, at *field.Path) field.ErrorList {
	if n <= MaxRequests {
		return nil
	}
	return field.ErrorList{{Type: field.ErrorTypeTooMany, Field: at.String(), BadValue: n, Detail: fmt.Sprintf(
		"must have at most %d lists of requests together; write several resources into one list", MaxRequests)}}
}
