package sections

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/selector"
)

// Quotas is the policy on whose elastic quotas are whose. What is left out is allowed to every user, as in Koordinator.
type Quotas struct {
	Selection           []QuotaSelection     `json:"selection,omitempty" doc:"which quotas pods may name by their label, besides those in their namespace and the quota that they would belong to without it" default:"all quotas"`
	Reserved            ReservedQuotas       `json:"reserved" doc:"how pods may get into the reserved quotas, which limit nothing"`
	DeviceClassMappings []DeviceClassMapping `json:"deviceClassMappings,omitempty" doc:"as which resources quotas count the devices that pods claim by DRA (gate QuotaByDeviceClasses); devices of other classes do not count" default:"none"`
	Administrators      *QuotaAdministrators `json:"administrators,omitempty" doc:"the only users who may shape the tree beyond the quotas of their own namespace" default:"every user"`
}

// QuotaSelection lets the pods of some namespaces name some quotas.
type QuotaSelection struct {
	_ struct{} `schema:"either=namespaces|namespaceSelector"`

	Name              string                `json:"name" doc:"shown by usherctl review --explain" schema:"required,is=not-empty"`
	Quotas            []string              `json:"quotas,omitempty" doc:"names of quotas; without quotas and trees, all quotas" schema:"is=object-name"`
	Trees             []string              `json:"trees,omitempty" doc:"IDs of trees all of whose quotas may be named" schema:"is=tree-id"`
	Namespaces        []string              `json:"namespaces,omitempty" doc:"names of namespaces whose pods may name the quotas" schema:"is=dns-label"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty" doc:"selects more such namespaces by their labels; {} selects all"`
}

// ReservedQuotas says how pods may get into a quota that limits nothing. Each defaults to true.
type ReservedQuotas struct {
	Label   *bool `json:"label,omitempty" doc:"whether the label of a pod may name one" default:"true"`
	Default *bool `json:"default,omitempty" doc:"whether a pod may be in one because no other quota is found for it" default:"true"`
	Move    *bool `json:"move,omitempty" doc:"whether an update may take a pod to one from a quota that has limits" default:"true"`
}

// DeviceClassMapping names the resource as which quotas count the devices of some classes, as in Kueue.
type DeviceClassMapping struct {
	Name             corev1.ResourceName `json:"name" doc:"name of the resource in spec.max of quotas" schema:"required,is=not-empty"`
	DeviceClassNames []string            `json:"deviceClassNames" doc:"names of DeviceClasses; each may be in one mapping" schema:"required,is=object-name"`
}

// QuotaAdministrators are the users who may shape the tree of quotas.
type QuotaAdministrators struct {
	_ struct{} `schema:"either=namespaces|groups"`

	Namespaces []string `json:"namespaces,omitempty" doc:"namespaces whose elastic quotas administrators manage: RBAC decides who they are" schema:"is=dns-label"`
	Groups     []string `json:"groups,omitempty" doc:"groups of users who administer the elastic quotas of every namespace" schema:"is=group"`
}

// QuotasSection is the section quotas.
var QuotasSection = config.Section[*Quotas]{Name: "quotas", Check: (*Quotas).check,
	Tag: `doc:"who may use and change which elastic quotas; what is left out is allowed to every user"`}

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
	problems = append(problems, checkMappings(q.DeviceClassMappings, at.Child("deviceClassMappings"))...)
	return append(problems, q.Administrators.check(at.Child("administrators"))...)
}

func checkMappings(mappings []DeviceClassMapping, at *field.Path) (problems field.ErrorList) {
	if len(mappings) > api.MaxDeviceNames {
		problems = append(problems, field.TooMany(at, len(mappings), api.MaxDeviceNames))
	}
	names, classes := map[corev1.ResourceName]bool{}, map[string]bool{}
	for i, m := range mappings {
		at := at.Index(i)
		for _, why := range validation.IsQualifiedName(string(m.Name)) {
			problems = append(problems, field.Invalid(at.Child("name"), m.Name, why))
		}
		if names[m.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), m.Name))
		}
		names[m.Name] = true
		if len(m.DeviceClassNames) == 0 {
			problems = append(problems, field.Required(at.Child("deviceClassNames"), "the classes whose devices count as this resource"))
		}
		problems = append(problems, checkEach(m.DeviceClassNames, at.Child("deviceClassNames"), validation.IsDNS1123Subdomain)...)
		for j, class := range m.DeviceClassNames {
			if classes[class] {
				problems = append(problems, field.Duplicate(at.Child("deviceClassNames").Index(j), class))
			}
			classes[class] = true
		}
	}
	return problems
}

// DeviceClasses returns the resources as which devices count, by device class. A nil section counts none.
func (q *Quotas) DeviceClasses() map[string]corev1.ResourceName {
	classes := map[string]corev1.ResourceName{}
	if q == nil {
		return classes
	}
	for _, m := range q.DeviceClassMappings {
		for _, class := range m.DeviceClassNames {
			classes[class] = m.Name
		}
	}
	return classes
}

func (s *QuotaSelection) check(at *field.Path) (problems field.ErrorList) {
	if s.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "usherctl review --explain shows which entry allows a quota"))
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
