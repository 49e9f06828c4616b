package validators

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/validators/requests"
)

// Restrictions say who may do what in which namespaces.
type Restrictions []Restriction

// Restriction restricts requests to some users. Without allow and deny it refuses them for all users. The control plane
// is not restricted unless deny names it.
type Restriction struct {
	Name              string                `json:"name" doc:"shown in refusals" schema:"required,is=not-empty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty" doc:"selects namespaces by their labels; the only cluster-scoped objects that are then restricted are the selected Namespaces" default:"all requests"`
	Requests          []requests.Requests   `json:"requests" doc:"the requests that are restricted" schema:"required,items=1"`
	Deny              *Users                `json:"deny,omitempty" doc:"users who may not, even if allow also names them"`
	Allow             *Users                `json:"allow,omitempty" doc:"the only users who may; without allow and deny, no user may"`
	Message           string                `json:"message,omitempty" doc:"what to do instead; users read it"`
}

// Users names users as the API server authenticates them.
type Users struct {
	_ struct{} `schema:"either=users|groups|serviceAccounts"`

	Users           []string `json:"users,omitempty" doc:"exact names of users" schema:"is=exact-name"`
	Groups          []string `json:"groups,omitempty" doc:"exact names of groups" schema:"is=exact-name"`
	ServiceAccounts []string `json:"serviceAccounts,omitempty" doc:"service accounts as NAMESPACE/NAME; NAMESPACE/* is all of a namespace" schema:"is=service-account"`
}

// restrictionsSection is the section restrictions.
var restrictionsSection = config.Section[Restrictions]{Name: "restrictions", Check: Restrictions.check, Warnings: Restrictions.warnings,
	Tag: `doc:"who may do what in which namespaces; the control plane is not restricted unless deny names it"`}

// check returns all problems of the section.
func (r Restrictions) check(at *field.Path) field.ErrorList {
	n := 0
	for i := range r {
		n += len(r[i].Requests)
	}
	if tooMany := requests.CheckNumber(n, at); tooMany != nil {
		return tooMany
	}
	return check.Named(r, at, func(e *Restriction) string { return e.Name }, (*Restriction).check)
}

// warnings returns the requests that there cannot be.
func (r Restrictions) warnings(_ *config.Policy, at *field.Path) (texts []string) {
	known := resources.BuiltIn()
	for i := range r {
		for j, one := range r[i].Requests {
			texts = append(texts, one.Warnings(at.Index(i).Child("requests").Index(j), known)...)
		}
	}
	return texts
}

func (r Restriction) check(at *field.Path) (problems field.ErrorList) {
	if r.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "refusals name it"))
	}
	if r.NamespaceSelector != nil {
		problems = append(problems, selector.Check(r.NamespaceSelector, at.Child("namespaceSelector"))...)
	}
	if len(r.Requests) == 0 {
		problems = append(problems, field.Required(at.Child("requests"), `such as {apiGroups: [""], resources: [pods/exec], operations: [CONNECT]}`))
	}
	for i, one := range r.Requests {
		problems = append(problems, one.Check(at.Child("requests").Index(i))...)
	}
	return append(append(problems, r.Deny.check(at.Child("deny"))...), r.Allow.check(at.Child("allow"))...)
}

func (u *Users) check(at *field.Path) (problems field.ErrorList) {
	if u == nil {
		return nil
	}
	if len(u.Users)+len(u.Groups)+len(u.ServiceAccounts) == 0 {
		problems = append(problems, field.Required(at, "users, groups or serviceAccounts; leave it out for no such list"))
	}
	for i, name := range u.Users {
		if name == "" || strings.Contains(name, "*") {
			problems = append(problems, field.Invalid(at.Child("users").Index(i), name, "must be the exact name of a user; use groups for several"))
		}
	}
	for i, name := range u.Groups {
		if name == "" || strings.Contains(name, "*") {
			problems = append(problems, field.Invalid(at.Child("groups").Index(i), name,
				"must be the exact name of a group; system:authenticated has all users"))
		}
	}
	for i, account := range u.ServiceAccounts {
		namespace, name, found := strings.Cut(account, "/")
		if !found || len(validation.IsDNS1123Label(namespace)) > 0 || name != "*" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			problems = append(problems, field.Invalid(at.Child("serviceAccounts").Index(i), account,
				"must be namespace/name, or namespace/* for all of a namespace"))
		}
	}
	return problems
}

// Contain reports whether the list names a user. Service accounts are also users by their full name, and members of the
// groups that the API server puts them into.
func (u *Users) Contain(user string, groups []string) bool {
	if u == nil {
		return false
	}
	return slices.Contains(u.Users, user) || u.hasGroup(groups) || u.hasAccount(user)
}

func (u *Users) hasGroup(groups []string) bool {
	return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(u.Groups, g) })
}

// serviceAccountPrefix begins the user names of service accounts: system:serviceaccount:NAMESPACE:NAME.
const serviceAccountPrefix = "system:serviceaccount:"

func (u *Users) hasAccount(user string) bool {
	full, isAccount := strings.CutPrefix(user, serviceAccountPrefix)
	if !isAccount || len(u.ServiceAccounts) == 0 {
		return false
	}
	namespace, name, _ := strings.Cut(full, ":")
	return slices.Contains(u.ServiceAccounts, namespace+"/*") || slices.Contains(u.ServiceAccounts, namespace+"/"+name)
}

// String lists the users for messages: "group oncall, service account ci/deployer".
func (u *Users) String() string {
	var all []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"user", u.Users}, {"group", u.Groups}, {"service account", u.ServiceAccounts}} {
		for _, name := range part.names {
			all = append(all, fmt.Sprintf("%s %s", part.what, name))
		}
	}
	return strings.Join(all, ", ")
}

// Rules returns the rules of a webhook that sees all requests that are restricted, and as few others as rules can say.
func (r Restrictions) Rules() (all []admit.Rule) {
	for _, one := range r {
		for _, some := range one.Requests {
			for _, rule := range leastScopes(some.Rule(), one.NamespaceSelector != nil) {
				if !slices.ContainsFunc(all, func(other admit.Rule) bool { return reflect.DeepEqual(rule, other) }) {
					all = append(all, rule)
				}
			}
		}
	}
	return all
}

// leastScopes returns a rule in the scopes in which it can apply: a selector of namespaces selects objects in namespaces,
// and Namespaces themselves, which are cluster-scoped.
func leastScopes(rule admit.Rule, selectsNamespaces bool) (all []admit.Rule) {
	if !selectsNamespaces {
		return []admit.Rule{rule}
	}
	within, namespaces := rule, rule
	isNamespaces := func(resource string) bool {
		return (resource == "namespaces" || strings.HasPrefix(resource, "namespaces/")) && slices.Contains(rule.Groups, "")
	}
	within.Resources, within.Scope = slices.DeleteFunc(slices.Clone(rule.Resources), isNamespaces), registration.NamespacedScope
	namespaces.Resources = slices.DeleteFunc(slices.Clone(rule.Resources), func(name string) bool { return !isNamespaces(name) })
	namespaces.Groups, namespaces.Scope = []string{""}, registration.ClusterScope
	if len(within.Resources) > 0 && rule.Scope != registration.ClusterScope {
		all = append(all, within)
	}
	if len(namespaces.Resources) > 0 && rule.Scope != registration.NamespacedScope {
		all = append(all, namespaces)
	}
	return all
}
