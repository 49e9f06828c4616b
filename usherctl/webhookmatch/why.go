package webhookmatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"usher.dev/usher/internal/selector"
)

// anything is what a field of a rule without a restriction holds.
var anything = []string{"*"}

// The fields of a rule, in the order in which they say what it is for: the resource without its subresource first.
var fields = []string{"", "apiGroups", "resources", "apiVersions", "operations", "scope"}

// only returns a rule that restricts one field as another rule does, and nothing else; what that field holds, and what a request has there.
func (r Request) only(field int, rule registration.RuleWithOperations) (made registration.RuleWithOperations, list, value string) {
	made.Operations, made.APIGroups, made.APIVersions, made.Resources = []registration.OperationType{"*"}, anything, anything, []string{"*/*"}
	switch fields[field] {
	case "":
		made.Resources = nil
		for _, name := range rule.Resources {
			base, _, _ := strings.Cut(name, "/")
			made.Resources = append(made.Resources, base+"/*")
		}
	case "apiGroups":
		made.APIGroups, list, value = rule.APIGroups, listed(rule.APIGroups), strconv.Quote(r.resource().Group)
	case "resources":
		made.Resources, list, value = rule.Resources, listed(rule.Resources), r.fullName()
	case "apiVersions":
		made.APIVersions, list, value = rule.APIVersions, listed(rule.APIVersions), r.resource().Version
	case "operations":
		made.Operations, list, value = rule.Operations, listed(rule.Operations), string(r.Operation)
	default:
		made.Scope = rule.Scope
	}
	return made, list, value
}

// missed is the verdict for rules none of which matches: it names the field of the one that the request misses by the least.
func (r Request) missed(all []registration.RuleWithOperations, attr admission.Attributes) Verdict {
	closest, best := -1, 0
	var names []string
	for i, rule := range all {
		for by := range fields {
			if made, _, _ := r.only(by, rule); matches(made, attr) {
				continue
			}
			if by > closest {
				closest, best = by, i
			}
			break
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				names = append(names, schema.GroupResource{Group: group, Resource: resource}.String())
			}
		}
	}
	if closest < 0 {
		return skip(Rules, "there are none")
	}
	_, list, value := r.only(closest, all[best])
	v := skip(Rules, "rules[%d].%s is %s, which does not contain %s", best, fields[closest], list, value)
	switch fields[closest] {
	case "":
		slices.Sort(names)
		v.Why = fmt.Sprintf("are for %s, not for %s", listed(slices.Compact(names)),
			schema.GroupResource{Group: r.resource().Group, Resource: r.fullName()})
	case "resources":
		if r.subresource() != "" {
			v.Why += fmt.Sprintf("; a resource does not include its subresources, %s/* does", r.resource().Resource)
		}
	case "scope":
		v = skip(Scope, "rules[%d].scope is Cluster, and %s are in namespaces; use Namespaced or *", best, r.fullName())
		if *all[best].Scope == registration.NamespacedScope {
			v.Why = fmt.Sprintf("rules[%d].scope is Namespaced, and %s are not in a namespace; use Cluster or *", best, r.fullName())
		}
	}
	return v
}

// listed shows a list of a rule. The core group is "".
func listed[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = string(one)
		if one == "" {
			texts[i] = `""`
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// versioned returns a resource as in the path of the API, such as apps/v1 deployments.
func versioned(r schema.GroupVersionResource) string {
	return r.GroupVersion().String() + " " + r.Resource
}

// Asks says what a part of a selector asks for, such as "asks for the label app".
func Asks(r metav1.LabelSelectorRequirement) string {
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		if len(r.Values) == 1 {
			return fmt.Sprintf("asks for the label %s: %s", r.Key, r.Values[0])
		}
		return fmt.Sprintf("asks for the label %s with one of the values %s", r.Key, strings.Join(r.Values, ", "))
	case metav1.LabelSelectorOpNotIn:
		return fmt.Sprintf("leaves out %s: %s", r.Key, strings.Join(r.Values, ", "))
	case metav1.LabelSelectorOpExists:
		return "asks for the label " + r.Key
	}
	return "leaves out what has the label " + r.Key
}

// AsksForLabel reports whether a valid selector matches no object without labels.
func AsksForLabel(s *metav1.LabelSelector) bool { return len(selector.Of(s).Terms()) > 0 }

// textOf formats the requirements of a selector.
func textOf(wanted []metav1.LabelSelectorRequirement) string {
	texts := make([]string, len(wanted))
	for i, w := range wanted {
		texts[i] = Asks(w)
	}
	return strings.Join(texts, " and ")
}

// mismatch names the parts of a selector that labels do not meet.
func mismatch(filter string, wanted []metav1.LabelSelectorRequirement, of labels.Set, whose string) Verdict {
	var missed []string
	for _, w := range wanted {
		if part := selector.Only(w); !part.Matches(of) {
			missed = append(missed, missText(w, of, whose))
		}
	}
	return skip(filter, "%s", strings.Join(missed, "; "))
}

// missText says what a part of a selector asks for, and what is there.
func missText(r metav1.LabelSelectorRequirement, of labels.Set, whose string) string {
	is, has := of[r.Key]
	switch {
	case r.Operator == metav1.LabelSelectorOpNotIn && r.Key == corev1.LabelMetadataName:
		return "leaves out " + whose
	case r.Operator == metav1.LabelSelectorOpNotIn:
		return fmt.Sprintf("leaves out %s: %s, which %s has", r.Key, is, whose)
	case r.Operator == metav1.LabelSelectorOpDoesNotExist:
		return fmt.Sprintf("%s, as %s has", Asks(r), whose)
	case has && r.Operator == metav1.LabelSelectorOpIn:
		return fmt.Sprintf("%s, and %s has %s: %s", Asks(r), whose, r.Key, is)
	}
	return fmt.Sprintf("%s, which %s does not have", Asks(r), whose)
}
