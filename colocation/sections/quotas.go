package sections

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/selector"
)

// Quotas is the policy on whose elastic quotas are whose. What is left out is allowed to every user, as in Koordinator.
type Quotas struct {
	// Selection lists which quotas pods may name by their label. Without entries, pods may name every quota. With
	// entries, they may name the quotas in their namespace, the quotas that an entry allows to it, and the quota they would
	// belong to without the label.
	Selection []QuotaSelection `json:"selection,omitempty"`
	// Reserved says how pods may get into the reserved quotas, which limit nothing.
	Reserved ReservedQuotas `json:"reserved"`
	// Administrators, if set, are the only users who may shape the tree beyond the quotas of their own namespace.
	Administrators *QuotaAdministrators `json:"administrators,omitempty"`
}

// QuotaSelection lets the pods of some namespaces name some quotas.
type QuotaSelection struct {
	Name string `json:"name"`
	// Quotas are names of quotas, and Trees are IDs of trees whose quotas are meant. Without both, all quotas are.
	Quotas []string `json:"quotas,omitempty"`
	Trees  []string `json:"trees,omitempty"`
	// Namespaces are names of namespaces, and NamespaceSelector selects others by their labels; an empty one selects all.
	Namespaces        []string              `json:"namespaces,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// ReservedQuotas says how pods may get into a quota that limits nothing. Each defaults to true.
type ReservedQuotas struct {
	// Label reports whether the label of a pod may name one.
	Label *bool `json:"label,omitempty"`
	// Default reports whether a pod may be in one because no other quota is found for it.
	Default *bool `json:"default,omitempty"`
	// Move reports whether an update may take a pod to one from a quota that has limits.
	Move *bool `json:"move,omitempty"`
}

// QuotaAdministrators are the users who may shape the tree of quotas.
type QuotaAdministrators struct {
	// Namespaces are those whose elastic quotas are in the hands of administrators: RBAC decides who they are.
	Namespaces []string `json:"namespaces,omitempty"`
	// Groups are groups of users who administer the elastic quotas of every namespace.
	Groups []string `json:"groups,omitempty"`
}

// QuotasSection is the section quotas.
var QuotasSection = config.Section[*Quotas]{Name: "quotas", Check: (*Quotas).check}

// check returns all problems of the section.
func (q *Quotas) check(at *field.Path) (problems field.ErrorList) {
	seen := map[string]bool{}
	for i := range q.Selection {
		entry, at := &q.Selection[i], at.Child("selection").Index(i)
		problems = append(problems, entry.check(at)...)
		if entry.Name != "" && seen[entry.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), entry.Name))
		}
		seen[entry.Name] = true
	}
	return append(problems, q.Administrators.check(at.Child("administrators"))...)
}

func (s *QuotaSelection) check(at *field.Path) (problems field.ErrorList) {
	if s.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "usher review --explain shows which entry allows a quota"))
	}
	problems = append(problems, checkEach(s.Quotas, at.Child("quotas"), validation.IsDNS1123Subdomain)...)
	problems = append(problems, checkEach(s.Trees, at.Child("trees"), checkTreeID)...)
	problems = append(problems, checkEach(s.Namespaces, at.Child("namespaces"), checkNamespaceName)...)
	if s.NamespaceSelector != nil {
		problems = append(problems, selector.Check(s.NamespaceSelector, at.Child("namespaceSelector"))...)
	} else if len(s.Namespaces) == 0 {
		problems = append(problems, field.Required(at.Child("namespaces"),
			"the namespaces whose pods may name the quotas; or namespaceSelector, where {} selects all"))
	}
	return problems
}

func (a *QuotaAdministrators) check(at *field.Path) (problems field.ErrorList) {
	if a == nil {
		return nil
	}
	if len(a.Namespaces)+len(a.Groups) == 0 {
		problems = append(problems, field.Required(at, "namespaces or groups; leave administrators out if every user may shape the tree"))
	}
	problems = append(problems, checkEach(a.Namespaces, at.Child("namespaces"), validation.IsDNS1123Label)...)
	return append(problems, checkEach(a.Groups, at.Child("groups"), checkGroup)...)
}

func checkTreeID(id string) []string {
	if id == "" {
		return []string{"must not be empty: quotas without a tree ID can only be named"}
	}
	return validation.IsValidLabelValue(id)
}

func checkNamespaceName(name string) []string {
	if name == AllNamespaces {
		return []string{"write namespaceSelector: {} for all namespaces"}
	}
	return validation.IsDNS1123Label(name)
}

func checkGroup(name string) []string {
	if strings.TrimSpace(name) != name || name == "" || strings.Contains(name, "*") {
		return []string{"must be the exact name of a group, such as system:serviceaccounts:koordinator-system"}
	}
	return nil
}
