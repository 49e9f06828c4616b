package requests

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/internal/selector"
)

// Match names requests as the matchConstraints of a ValidatingAdmissionPolicy do. One list of them may also be written
// without resourceRules.
type Match struct {
	_ struct{} `schema:"either=apiGroups+resources+operations|resourceRules"`

	Requests
	ResourceRules        []Requests            `json:"resourceRules,omitempty" doc:"lists of requests, instead of apiGroups, resources and operations; the requests of any list match"`
	ExcludeResourceRules []Requests            `json:"excludeResourceRules,omitempty" doc:"lists of requests that do not match; they take precedence, and hold for all versions of a resource"`
	NamespaceSelector    *metav1.LabelSelector `json:"namespaceSelector,omitempty" doc:"selects objects by the labels of their namespace, Namespaces by their own; other cluster-scoped objects always match" default:"all"`
	ObjectSelector       *metav1.LabelSelector `json:"objectSelector,omitempty" doc:"selects objects by the labels that they have or had" default:"all"`
}

// Rules returns the rules that cover the requests that match, apart from the selectors.
func (m *Match) Rules() (all []admit.Rule) {
	var except []admit.Rule
	for _, one := range m.ExcludeResourceRules {
		rule := one.Rule()
		rule.Versions = []string{"*"} // matchPolicy Equivalent: the request may arrive in another version
		except = append(except, rule)
	}
	m.Each(nil, func(one *Requests, _ *field.Path) {
		rule := one.Rule()
		rule.Except = except
		all = append(all, rule)
	})
	return all
}

// Each calls a function for each list of the requests that match, with its path.
func (m *Match) Each(at *field.Path, do func(*Requests, *field.Path)) {
	for i := range m.ResourceRules {
		do(&m.ResourceRules[i], at.Child("resourceRules").Index(i))
	}
	if len(m.ResourceRules) == 0 {
		do(&m.Requests, at)
	}
}

// Check returns all problems of the fields.
func (m *Match) Check(at *field.Path) (problems field.ErrorList) {
	if len(m.ResourceRules) > 0 && !reflect.ValueOf(m.Requests).IsZero() {
		problems = append(problems, field.Forbidden(at.Child("resourceRules"),
			"apiGroups, resources or operations stand beside it; write them as one more of resourceRules"))
	}
	m.Each(at, func(one *Requests, at *field.Path) { problems = append(problems, one.Check(at)...) })
	for i, one := range m.ExcludeResourceRules {
		problems = append(problems, one.checkFields(at.Child("excludeResourceRules").Index(i))...)
	}
	if m.NamespaceSelector != nil {
		problems = append(problems, selector.Check(m.NamespaceSelector, at.Child("namespaceSelector"))...)
	}
	if m.ObjectSelector != nil {
		problems = append(problems, selector.Check(m.ObjectSelector, at.Child("objectSelector"))...)
	}
	return problems
}

// Warnings returns the resources of which there are no such requests, as far as they are known.
func (m *Match) Warnings(at *field.Path, known resources.Table) (texts []string) {
	m.Each(at, func(one *Requests, at *field.Path) { texts = append(texts, one.Warnings(at, known)...) })
	for i, one := range m.ExcludeResourceRules {
		texts = append(texts, one.Warnings(at.Child("excludeResourceRules").Index(i), known)...)
	}
	return texts
}
