// Package sections has the colocation suite's sections of the policy file, and evaluates them for nodes and users.
package sections

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/config"
)

// Binding is the policy on which users may bind pods to nodes. Without users, every user may.
type Binding struct {
	Users             []string `json:"users,omitempty" doc:"names of the only users who may bind; the last part of a name, after a colon, may be *, which stands for exactly one part" schema:"is=user" default:"every user"`
	Namespaces        []string `json:"namespaces,omitempty" doc:"names of the namespaces whose pods are protected, or only * for all; needed with users" schema:"is=namespace"`
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty" doc:"names of namespaces whose pods are not protected; [] is none" schema:"is=dns-label" default:"kube-system"`
	BypassLabels      []string `json:"bypassLabels,omitempty" doc:"keys of labels whose presence lets every user bind the pod; [] is none" schema:"is=label-key" default:"koordinator.sh/binding-admission-bypass"`
	BypassAnnotations []string `json:"bypassAnnotations,omitempty" doc:"keys of annotations with the same effect" schema:"is=label-key" default:"none"`
}

// AllNamespaces as the only element of Binding.Namespaces means every namespace.
const AllNamespaces = "*"

// AnyPart at the end of one of Binding.Users matches any single part of a name.
const AnyPart = ":*"

// Excluded returns ExcludeNamespaces, or its default.
func (b *Binding) Excluded() []string {
	if b.ExcludeNamespaces == nil {
		return []string{"kube-system"}
	}
	return b.ExcludeNamespaces
}

// Bypassing returns BypassLabels, or its default.
func (b *Binding) Bypassing() []string {
	if b.BypassLabels == nil {
		return []string{api.LabelBindingBypass}
	}
	return b.BypassLabels
}

// BindingSection is the section binding.
var BindingSection = config.Section[*Binding]{Name: "binding", Check: (*Binding).check, Tag: `doc:"who may bind pods to nodes"`, Default: `binding:    {users: ["system:kube-scheduler", "system:serviceaccount:koordinator-system:koord-scheduler"], namespaces: ["*"]}   # behind gate BindingAdmissionWebhook
`}

// check returns all problems of the section.
func (b *Binding) check(at *field.Path) field.ErrorList {
	problems := checkEach(b.Users, at.Child("users"), checkUser)
	if len(b.Users) > 0 && b.Namespaces == nil {
		problems = append(problems, field.Required(at.Child("namespaces"),
			`write ["*"] to protect the pods of all namespaces, or their names`))
	}
	if !slices.Equal(b.Namespaces, []string{AllNamespaces}) {
		problems = append(problems, checkEach(b.Namespaces, at.Child("namespaces"), checkNamespace)...)
	}
	return slices.Concat(problems,
		checkEach(b.ExcludeNamespaces, at.Child("excludeNamespaces"), validation.IsDNS1123Label),
		checkEach(b.BypassLabels, at.Child("bypassLabels"), validation.IsQualifiedName),
		checkEach(b.BypassAnnotations, at.Child("bypassAnnotations"), validation.IsQualifiedName))
}

func checkEach(values []string, at *field.Path, check func(string) []string) (problems field.ErrorList) {
	for i, value := range values {
		for _, problem := range check(value) {
			problems = append(problems, field.Invalid(at.Index(i), value, problem))
		}
	}
	return problems
}

func checkNamespace(name string) []string {
	if name == AllNamespaces {
		return []string{`stands for all namespaces, so it stands alone: write ["*"]`}
	}
	return validation.IsDNS1123Label(name)
}

// checkUser returns what is wrong with a user. The rules are strict because a pattern that matches more than its
// author meant lets unintended users bind pods.
func checkUser(user string) []string {
	prefix, _ := strings.CutSuffix(user, AnyPart)
	account, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
	switch {
	case strings.TrimSpace(user) != user || prefix == "":
		return []string{"must be the exact name of a user, without blanks around it"}
	case strings.Contains(prefix, "*"):
		return []string{`"*" can only be the whole last part of a name, after a colon, such as system:serviceaccount:kube-system:*`}
	case isAccount:
		return checkServiceAccount(account)
	}
	return nil
}

// checkServiceAccount checks the part of a user's name after system:serviceaccount:.
func checkServiceAccount(account string) []string {
	namespace, name, _ := strings.Cut(account, ":")
	if len(validation.IsDNS1123Label(namespace)) > 0 || name != "*" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return []string{"must be system:serviceaccount:NAMESPACE:NAME, or * for the name"}
	}
	return nil
}
