package override

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/selector"
)

// List is a list of exceptions to the modes of steps, tried in order: the first that matches a request sets the mode.
type List []Spec

// Spec is one exception, as the policy file has it. It matches a request if all its conditions do; a condition that is left out is none.
type Spec struct {
	_ struct{} `schema:"either=mode|enforcePercent"`

	Name              string                `json:"name" doc:"shown wherever the override is used; enforcePercent hashes it" schema:"required,is=dns-label"`
	Steps             []string              `json:"steps" doc:"the steps whose mode it sets" schema:"required,items=1,is=step"`
	Namespaces        []string              `json:"namespaces,omitempty" doc:"exact names of namespaces; not together with namespaceSelector" schema:"is=dns-label" default:"all, and objects outside of namespaces"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty" doc:"selects namespaces by their labels" default:"all, and objects outside of namespaces"`
	Selector          *metav1.LabelSelector `json:"selector,omitempty" doc:"selects objects by their labels" default:"all objects"`
	Users             []string              `json:"users,omitempty" doc:"exact names of users; the user must be one of them, or in one of the groups" schema:"is=exact-name" default:"all users"`
	Groups            []string              `json:"groups,omitempty" doc:"exact names of groups" schema:"is=exact-name" default:"all users"`
	Mode              admit.Mode            `json:"mode,omitempty" doc:"the mode of the steps; with enforcePercent, the mode for the other workloads" default:"warn with enforcePercent; else it is required"`
	EnforcePercent    *int                  `json:"enforcePercent,omitempty" doc:"the percentage of workloads for which the steps are enforced" schema:"min=0,max=100"`
	Until             string                `json:"until,omitempty" doc:"the last day, in UTC, such as 2027-01-31, or the moment when the override ends, such as 2027-01-31T18:00:00Z" schema:"is=moment" default:"no end"`
	Reason            string                `json:"reason" doc:"why there is an exception; it is shown where the override is used" schema:"required,is=name"`
	Ticket            string                `json:"ticket,omitempty" doc:"where that was decided"`
}

// Check returns all problems of the overrides that CheckSteps does not find. at is their path in the policy file.
func (all List) Check(at *field.Path) field.ErrorList {
	return check.Named(all, at, func(e *Spec) string { return e.Name }, (*Spec).check)
}

func (o *Spec) check(at *field.Path) (problems field.ErrorList) {
	if at := at.Child("name"); o.Name == "" {
		problems = append(problems, field.Required(at, "it is shown wherever the override is used"))
	} else {
		problems = check.LabelName(o.Name, at)
	}
	if len(o.Steps) == 0 {
		problems = append(problems, field.Required(at.Child("steps"),
			"the names of the steps that meet the requests in another mode; `usherctl steps` lists them"))
	}
	problems = append(problems, repeated(o.Steps, at.Child("steps"))...)
	problems = append(problems, o.checkNamespaces(at)...)
	problems = append(problems, selector.CheckPossible(o.Selector, at.Child("selector"))...)
	problems = append(problems, o.checkSubjects(at)...)
	problems = append(problems, o.checkMode(at)...)
	if _, err := parseUntil(o.Until); err != nil {
		problems = append(problems, field.Invalid(at.Child("until"), o.Until, err.Error()))
	}
	if strings.TrimSpace(o.Reason) == "" {
		problems = append(problems, field.Required(at.Child("reason"), "say why there is an exception: it is shown where the override is used"))
	}
	return problems
}

func (o *Spec) checkNamespaces(at *field.Path) (problems field.ErrorList) {
	if len(o.Namespaces) > 0 && !selector.Empty(o.NamespaceSelector) {
		problems = append(problems, field.Forbidden(at.Child("namespaceSelector"),
			"there is also namespaces; use one of the two, or two overrides (label kubernetes.io/metadata.name is a namespace's name)"))
	}
	problems = append(problems, repeated(o.Namespaces, at.Child("namespaces"))...)
	for i, name := range o.Namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			problems = append(problems, field.Invalid(at.Child("namespaces").Index(i), name,
				"can never be the name of a namespace: use exact names of lower-case letters, digits and '-'"))
		}
	}
	return append(problems, selector.CheckPossible(o.NamespaceSelector, at.Child("namespaceSelector"))...)
}

func (o *Spec) checkSubjects(at *field.Path) (problems field.ErrorList) {
	problems = append(repeated(o.Users, at.Child("users")), repeated(o.Groups, at.Child("groups"))...)
	for i, user := range o.Users {
		account, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
		switch at := at.Child("users").Index(i); {
		case user == "":
			problems = append(problems, field.Invalid(at, user, "can never match: every request has a user"))
		case strings.Contains(user, "*"):
			problems = append(problems, field.Invalid(at, user,
				"users are exact names; the service accounts of a namespace are the group system:serviceaccounts:NAMESPACE"))
		case isAccount && !isServiceAccount(account):
			problems = append(problems, field.Invalid(at, user, "can never match: a service account is system:serviceaccount:NAMESPACE:NAME"))
		}
	}
	for i, group := range o.Groups {
		if at := at.Child("groups").Index(i); group == "" || strings.Contains(group, "*") {
			problems = append(problems, field.Invalid(at, group, "can never match: groups are exact names, such as system:serviceaccounts:NAMESPACE"))
		}
	}
	return problems
}

// isServiceAccount reports whether the text is NAMESPACE:NAME.
func isServiceAccount(text string) bool {
	namespace, name, found := strings.Cut(text, ":")
	return found && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

func (o *Spec) checkMode(at *field.Path) (problems field.ErrorList) {
	switch percent := o.EnforcePercent; {
	case percent == nil && o.Mode == "":
		problems = append(problems, field.Required(at.Child("mode"), fmt.Sprintf("one of %v", admit.AllModes)))
	case percent != nil && (*percent < 0 || *percent > 100):
		problems = append(problems, field.Invalid(at.Child("enforcePercent"), *percent, "must be from 0 to 100"))
	case percent != nil && o.Mode == admit.Enforce:
		problems = append(problems, field.Invalid(at.Child("mode"), o.Mode,
			"is the mode of the workloads beyond enforcePercent: use warn, dryrun or off"))
	}
	return problems
}

// repeated returns a problem for each value that occurs again.
func repeated(values []string, at *field.Path) (problems field.ErrorList) {
	for i, value := range values {
		if slices.Contains(values[:i], value) {
			problems = append(problems, field.Duplicate(at.Index(i), value))
		}
	}
	return problems
}

// End returns the moment from which on the override is void; zero if there is none.
func (o *Spec) End() time.Time {
	end, _ := parseUntil(o.Until) // checked
	return end
}

// parseUntil returns the first moment at which an override is void; zero for an empty text.
func parseUntil(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	if moment, err := time.Parse(time.RFC3339, text); err == nil {
		return moment.UTC().Truncate(time.Second), nil
	}
	return time.Time{}, fmt.Errorf("must be the last day, such as 2027-01-31, or a moment, such as 2027-01-31T18:00:00Z")
}

// compile returns the override in the form that chains use.
func (o *Spec) compile() admit.Override {
	made := admit.Override{
		Name: o.Name, Steps: o.Steps, Namespaces: o.Namespaces, Users: o.Users, Groups: o.Groups, Mode: o.Mode, Until: o.End(),
		NamespaceSelector: selector.Compile(o.NamespaceSelector), Selector: selector.Compile(o.Selector), Reason: o.Reason, Ticket: o.Ticket,
	}
	if o.EnforcePercent != nil {
		made.EnforcePercent = *o.EnforcePercent
		if o.Mode == "" {
			made.Mode = admit.Warn
		}
	}
	return made
}

// Compile returns the overrides in the form that chains use. They must have been checked.
func (all List) Compile() []admit.Override {
	made := make([]admit.Override, len(all))
	for i := range all {
		made[i] = all[i].compile()
	}
	return made
}
