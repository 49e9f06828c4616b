package webhooks

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/cluster/reader"
	labelselector "usher.dev/usher/internal/selector"
)

// Hook describes when and how the API server calls a registered webhook, in the form of a mutating webhook.
type Hook = registration.MutatingWebhook

// HooksOf returns the webhooks for routes, in order.
func HooksOf(routes []admit.Route, at Address) []Hook {
	all := needed(routes, at)
	return slices.Concat(all[0].Webhooks, all[1].Webhooks)
}

// Differences returns, one a line, how registered webhooks differ from those that are wanted, and what to do about
// each. A caBundle is compared if one is wanted.
func Differences(wanted, registered []Hook) (lines []string) {
	byName := map[string]Hook{}
	for _, w := range registered {
		byName[w.Name] = w
	}
	for _, w := range wanted {
		is, found := byName[w.Name]
		delete(byName, w.Name)
		if !found {
			lines = append(lines, w.Name+": is not registered, and the policy needs it for "+rulesText(w.Rules))
			continue
		}
		if len(w.ClientConfig.CABundle) == 0 {
			is.ClientConfig.CABundle = nil
		}
		for _, part := range differing(w, is) {
			lines = append(lines, fmt.Sprintf("%s: %s differ: registered %s, needed %s", w.Name, part.name, part.is, part.want))
		}
	}
	for _, w := range registered {
		if _, left := byName[w.Name]; left {
			lines = append(lines, w.Name+": is registered for nothing: the policy does not need it")
		}
	}
	return lines
}

// difference is a part of a webhook that is registered in another way than it should be: its name in a sentence, the
// field of the API, and its two values.
type difference struct{ name, field, is, want string }

// differing returns the parts of two registrations of one webhook that differ.
func differing(want, is Hook) (parts []difference) {
	add := func(name, field, want, is string) {
		if want != is {
			parts = append(parts, difference{name, field, is, want})
		}
	}
	add("rules", "rules", rulesText(want.Rules), rulesText(is.Rules))
	add("namespaceSelectors", "namespaceSelector", selectorText(want.NamespaceSelector), selectorText(is.NamespaceSelector))
	add("objectSelectors", "objectSelector", selectorText(want.ObjectSelector), selectorText(is.ObjectSelector))
	add("matchConditions", "matchConditions", jsonText(want.MatchConditions), jsonText(is.MatchConditions))
	add("failurePolicies", "failurePolicy", jsonText(want.FailurePolicy), jsonText(is.FailurePolicy))
	add("timeoutSeconds", "timeoutSeconds", jsonText(want.TimeoutSeconds), jsonText(is.TimeoutSeconds))
	if is.ReinvocationPolicy != nil && want.ReinvocationPolicy != nil {
		add("reinvocationPolicies", "reinvocationPolicy", string(*want.ReinvocationPolicy), string(*is.ReinvocationPolicy))
	}
	add("clientConfigs", "clientConfig", target(want.ClientConfig), target(is.ClientConfig))
	add("caBundles", "caBundle", bundleText(want.ClientConfig.CABundle), bundleText(is.ClientConfig.CABundle))
	add("matchPolicies", "matchPolicy", jsonText(want.MatchPolicy), jsonText(is.MatchPolicy))
	add("sideEffects", "sideEffects", jsonText(want.SideEffects), jsonText(is.SideEffects))
	add("admissionReviewVersions", "admissionReviewVersions",
		strings.Join(want.AdmissionReviewVersions, " "), strings.Join(is.AdmissionReviewVersions, " "))
	return parts
}

// reaching are the fields that say how the API server reaches usher, and what an answer may be.
var reaching = []string{"clientConfig", "caBundle", "matchPolicy", "sideEffects", "admissionReviewVersions"}

// Lacks returns how a registered webhook falls short of the needed one. A choice made at registration does not count: a
// longer or shorter timeout, another failurePolicy, where that may be chosen, additions to selectors and match conditions.
func Lacks(needed, registered Hook) (lacks []string) {
	for _, part := range lacking(needed, registered) {
		lacks = append(lacks, fmt.Sprintf("%s: registered %s, needed %s", part.field, part.is, part.want))
	}
	return lacks
}

// lacking returns the differences that Lacks is about.
func lacking(needed, registered Hook) (parts []difference) {
	needed.NamespaceSelector = withOthers(needed.NamespaceSelector, registered.NamespaceSelector)
	needed.ObjectSelector = withOthers(needed.ObjectSelector, registered.ObjectSelector)
	for _, part := range differing(needed, registered) {
		switch {
		case slices.Contains(reaching, part.field), part.field == "timeoutSeconds",
			part.field == "failurePolicy" && (part.is == jsonText(registration.Ignore) || !aboutHeartbeats(needed.Rules)),
			part.field == "namespaceSelector" && leavesOut(needed.NamespaceSelector, registered.NamespaceSelector),
			part.field == "matchConditions" && hasAll(registered.MatchConditions, needed.MatchConditions) && !hasStale(registered, needed):
			continue
		}
		parts = append(parts, part)
	}
	if is := registered.MatchPolicy; is != nil && *is == registration.Exact && (needed.MatchPolicy == nil || *needed.MatchPolicy != *is) {
		parts = append(parts, difference{"matchPolicies", "matchPolicy", string(*is), string(registration.Equivalent)})
	}
	return parts
}

// aboutHeartbeats reports whether rules name the status of nodes.
func aboutHeartbeats(rules []registration.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r registration.RuleWithOperations) bool { return slices.Contains(r.Resources, "nodes/status") })
}

// hasStale reports whether a registered webhook has a condition of an older policy.
func hasStale(registered, needed Hook) bool {
	return slices.ContainsFunc(registered.MatchConditions, func(c registration.MatchCondition) bool {
		return slices.Contains(ownConditions, c.Name) && !slices.Contains(needed.MatchConditions, c)
	})
}

// Additions returns the parts of a registered webhook that leave out more than the needed one does.
func Additions(needed, registered Hook) (added []string) {
	for _, s := range []struct {
		field     string
		want, are *metav1.LabelSelector
	}{
		{"namespaceSelector", needed.NamespaceSelector, registered.NamespaceSelector}, {"objectSelector", needed.ObjectSelector, registered.ObjectSelector},
	} {
		if more := beyond(s.want, s.are); len(more.MatchExpressions) > 0 {
			added = append(added, s.field+" "+selectorText(more))
		}
	}
	for _, c := range registered.MatchConditions {
		if !slices.Contains(needed.MatchConditions, c) && c.Expression != notKubelet {
			added = append(added, "matchConditions "+c.Name+": "+strings.Join(strings.Fields(c.Expression), " "))
		}
	}
	return added
}

// beyond returns the parts of a selector that another one lacks, apart from namespaces that are left out by name.
func beyond(want, is *metav1.LabelSelector) *metav1.LabelSelector {
	more := &metav1.LabelSelector{}
	for _, r := range labelselector.Requirements(is) {
		if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
			continue // by --exclude-namespace
		}
		if want != nil && misspelt(want, r.Key) != "" {
			continue // not added, but written in place of another
		}
		for _, w := range labelselector.Requirements(want) {
			if w.Key == r.Key && w.Operator == r.Operator {
				r.Values = slices.DeleteFunc(slices.Clone(r.Values), func(value string) bool { return slices.Contains(w.Values, value) })
				if len(r.Values) == 0 {
					r.Key = ""
				}
			}
		}
		if r.Key != "" {
			more.MatchExpressions = append(more.MatchExpressions, r)
		}
	}
	return more
}

// hasAll reports whether match conditions include others.
func hasAll(all, some []registration.MatchCondition) bool {
	return !slices.ContainsFunc(some, func(c registration.MatchCondition) bool { return !slices.Contains(all, c) })
}

// rulesText returns rules in short: "CREATE UPDATE of pods pods/exec (v1)".
func rulesText(rules []registration.RuleWithOperations) string {
	var all []string
	for _, r := range rules {
		var operations []string
		for _, o := range r.Operations {
			operations = append(operations, string(o))
		}
		scope := ""
		if r.Scope != nil && *r.Scope != registration.AllScopes {
			scope = ", " + string(*r.Scope)
		}
		all = append(all, fmt.Sprintf("%s of %s (%s%s)", strings.Join(operations, " "), strings.Join(r.Resources, " "),
			strings.TrimPrefix(strings.Join(r.APIGroups, " ")+"/"+strings.Join(r.APIVersions, " "), "/"), scope))
	}
	return strings.Join(all, "; ")
}

// selectorText returns a selector as text; a missing selector selects everything.
func selectorText(s *metav1.LabelSelector) string {
	if s == nil {
		s = &metav1.LabelSelector{}
	}
	return metav1.FormatLabelSelector(s)
}

func jsonText(value any) string {
	text, _ := json.Marshal(value)
	if string(text) == "null" {
		return "none"
	}
	return string(text)
}

// ReadRegistered returns the webhooks of configurations named usher, from a file or, for "-", from in.
func ReadRegistered(file string, in io.Reader) (all []Hook, err error) {
	content, err := readAll(file, in)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	objects, problems := manifest.Read(file, content)
	if len(problems) > 0 {
		return nil, fmt.Errorf("--compare: %w", problems[0])
	}
	found := false
	for _, o := range objects {
		hooks, is, err := registeredIn(o)
		if err != nil {
			return nil, fmt.Errorf("--compare %s: %w", o.Place, err)
		}
		found, all = found || is, append(all, hooks...)
	}
	if !found {
		return nil, fmt.Errorf("--compare %s: has no webhook configuration named %s; print it with kubectl get "+
			"mutatingwebhookconfiguration,validatingwebhookconfiguration %[2]s -o yaml", file, Name)
	}
	return all, nil
}

func readAll(file string, in io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(in, manifest.MaxBytes))
	}
	return os.ReadFile(file)
}

// registeredIn returns the webhooks of an object, and whether it is a webhook configuration of usher.
func registeredIn(o manifest.Object) (hooks []Hook, is bool, err error) {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(o.JSON, &meta); err != nil || meta.Name != Name {
		return nil, false, err
	}
	if o.Kind != configurationType("Mutating").Kind && o.Kind != configurationType("Validating").Kind {
		return nil, false, nil
	}
	c, err := readConfiguration(o.JSON)
	return c.Webhooks, true, reader.WrongType(err)
}
