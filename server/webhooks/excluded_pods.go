package webhooks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.dev/usher/admit"
)

// podsCondition is the name of the condition that leaves out Address.ExcludedPods.
const podsCondition = "not-excluded-pods"

// notExcludedPods returns the condition that leaves out creations and updates of the pods of service accounts, each as
// namespace/name. A subresource, such as an ephemeral container, is never left out. The expression cannot fail, which would
// refuse the request.
func notExcludedPods(accounts []string) registration.MatchCondition {
	list, _ := json.Marshal(slices.Compact(slices.Sorted(slices.Values(accounts))))
	return registration.MatchCondition{Name: podsCondition,
		Expression: fmt.Sprintf(`!(request.resource.group == "" && request.resource.resource == "pods" &&
request.operation in ["CREATE", "UPDATE"] && (!has(request.subResource) || request.subResource == "") &&
has(object.spec) && has(object.spec.serviceAccountName) &&
request.namespace + "/" + object.spec.serviceAccountName in %s)`, list)}
}

// notExcludedTemplates is notExcludedPods for objects with a pod template.
func notExcludedTemplates(accounts []string) registration.MatchCondition {
	list, _ := json.Marshal(slices.Compact(slices.Sorted(slices.Values(accounts))))
	var names []string
	for _, path := range []string{"template", "spec.template", "spec.jobTemplate.spec.template"} {
		names = append(names, accountOf("object", path+".spec.serviceAccountName"))
	}
	return registration.MatchCondition{Name: podsCondition, Expression: fmt.Sprintf(`![%s].exists(name,
request.namespace + "/" + name in %s)`, strings.Join(names, ",\n"), list)}
}

// accountOf returns a CEL expression for a text at a path, or "" if there is none.
func accountOf(at, path string) string {
	var has []string
	for name := range strings.SplitSeq(path, ".") {
		at += "." + name
		has = append(has, "has("+at+")")
	}
	return strings.Join(has, " && ") + " ? " + at + ` : ""`
}

// excludedPods returns the service accounts of a condition that notExcludedPods or notExcludedTemplates has made.
func excludedPods(c registration.MatchCondition) (accounts []string) {
	text := strings.TrimSuffix(c.Expression[strings.LastIndex(c.Expression, " in ")+len(" in "):], ")")
	if c.Name != podsCondition || json.Unmarshal([]byte(text), &accounts) != nil ||
		notExcludedPods(accounts) != c && notExcludedTemplates(accounts) != c {
		return nil // somebody else's
	}
	return accounts
}

// CheckExcludedPods checks the values of --exclude-pods.
func CheckExcludedPods(accounts []string) error {
	for _, account := range accounts {
		namespace, name, _ := strings.Cut(account, "/")
		if problems := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Subdomain(name)...); len(problems) > 0 {
			return fmt.Errorf("--exclude-pods %q: must be namespace/serviceaccount, such as rook-ceph/rook-ceph-osd: %s", account,
				strings.Join(problems, "; "))
		}
	}
	return nil
}

// aboutWrittenPods reports whether an entry is for creations or updates of pods.
func (e Entry) aboutWrittenPods() bool {
	written := admit.Rule{Groups: []string{""}, Resources: []string{"pods"}, Operations: []admissionv1.Operation{admissionv1.Create, admissionv1.Update}}
	return slices.ContainsFunc(e.For, func(m admit.Match) bool {
		if e.byPolicy() {
			return m.Overlaps(written)
		}
		m.Groups = []string{m.Kind.Group}
		return m.Kind.Group == corev1.GroupName && m.Overlaps(written)
	})
}

// aboutTemplates reports whether an entry is for objects with a pod template, which are judged by their pods.
func (e Entry) aboutTemplates() bool {
	return slices.ContainsFunc(e.For, func(m admit.Match) bool {
		return slices.ContainsFunc(admit.WorkloadKinds(), func(k admit.WorkloadKind) bool { return m.Kind == k.GroupVersionKind })
	})
}
