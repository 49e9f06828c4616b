package doctor

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/internal/resources"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// namespaceProblems returns what is wrong with the namespaceSelector of a webhook. namespaces are the cluster's;
// nil: unknown.
func namespaceProblems(w entry, namespaces []corev1.Namespace, all resources.Table) []report.Finding {
	if selector.Empty(w.NamespaceSelector) {
		return nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		return []report.Finding{problem("selector-no-namespace", subject{entry: w, misspelt: true}, "namespaceSelector is invalid: %v.", err)}
	}
	namespaced, cluster := scopes(w.Rules, all)
	if !namespaced {
		if cluster && webhookmatch.AsksForLabel(w.NamespaceSelector) {
			return []report.Finding{problem("selector-no-effect", w.lacks("namespaceSelector", struct{}{}), "namespaceSelector (%s) "+
				"has no effect: the rules are only for cluster-scoped objects, all of which are sent. Use objectSelector or "+
				"matchConditions.", compiled)}
		}
		return nil
	}
	if namespaces == nil {
		return nil
	}
	near := nearMisses(w.NamespaceSelector, namespaces)
	if slices.ContainsFunc(namespaces, func(n corev1.Namespace) bool { return compiled.Matches(labels.Set(n.Labels)) }) {
		return w.nearProblems(append(near, notLeftOut(w.NamespaceSelector, namespaces)...))
	}
	return []report.Finding{w.noNamespace(near, namespaces, compiled)}
}

// noNamespace returns the finding for a namespaceSelector that matches none of the namespaces, of which some have a misspelt label.
func (w entry) noNamespace(near []nearMiss, namespaces []corev1.Namespace, compiled labels.Selector) report.Finding {
	about, then, severity := w.about(), "Label those that it is for.", report.Warning
	labelled, but := leftOut(w.NamespaceSelector, namespaces)
	key, possible := selector.Of(w.NamespaceSelector).Possible()
	switch {
	case !possible:
		then = "It asks for the label " + key + " in two ways that exclude each other: no label helps."
	case len(near) == 0 && labelled != "":
		then = fmt.Sprintf("Namespace %s has the label %s, and the selector also %s.", labelled, wantedLabel(w.NamespaceSelector), but)
	case len(near) > 0:
		asked := wantedLabel(w.NamespaceSelector) // if usher needs that label, it is not the selector that is wrong
		about.misspelt, then = asked == "" || w.needed == nil || wantedLabel(w.needed.NamespaceSelector) != asked, near[0].text()
	case !w.ushers() && wantedLabel(w.NamespaceSelector) != "":
		then, severity = "It is for namespaces with that label, and there is none.", report.Info
	}
	found := problem("selector-no-namespace", about, "namespaceSelector (%s) matches none of the %d namespaces, so that the "+
		"webhook is never called for what is in them. %s", compiled, len(namespaces), then)
	return milder(found, severity)
}

// nearProblems returns the findings for namespaces whose label is misspelt, beside others that are right.
func (w entry) nearProblems(near []nearMiss) (found []report.Finding) {
	for _, m := range near {
		about, then := subject{entry: w, misspelt: m.leftIn}, "not called for what is in some namespaces"
		if m.leftIn {
			then = "also called for what is in namespaces that were perhaps to be left out"
		}
		found = append(found, problem("selector-near-miss", about, "the webhook is %s. %s", then, m.text()))
	}
	return found
}

// leftOut returns a namespace that has each label that a selector asks for, and the requirement that leaves it out; "" if there is none.
func leftOut(s *metav1.LabelSelector, namespaces []corev1.Namespace) (name, but string) {
	if !webhookmatch.AsksForLabel(s) {
		return "", ""
	}
	for _, n := range namespaces {
		has := true
		for _, r := range selector.Requirements(s) {
			asks := r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists
			if of := selector.Only(r); of.Matches(n.Labels) {
				continue
			}
			has, but = has && !asks, webhookmatch.Asks(r)
		}
		if has && but != "" {
			return n.Name, but
		}
	}
	return "", ""
}

// wantedLabel returns the label that a selector asks for as an argument of kubectl label, or "" if it is not one.
func wantedLabel(s *metav1.LabelSelector) string {
	var wanted []string
	for _, r := range selector.Requirements(s) {
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			wanted = append(wanted, r.Key+"="+r.Values[0])
		case metav1.LabelSelectorOpExists:
			wanted = append(wanted, r.Key+"=true")
		}
	}
	slices.Sort(wanted)
	for i := range wanted {
		wanted[i] = report.Word(wanted[i])
	}
	if slices.ContainsFunc(wanted, func(label string) bool { return strings.HasPrefix(label, corev1.LabelMetadataName+"=") }) {
		return "" // a label that cannot be set
	}
	return strings.Join(wanted, " ")
}

// scopes reports whether rules may match namespaced objects, and whether they may match cluster-scoped ones. A Namespace
// counts as namespaced: a namespaceSelector has an effect on it.
func scopes(rules []registration.RuleWithOperations, all resources.Table) (namespaced, cluster bool) {
	for _, rule := range rules {
		for _, name := range rule.Resources {
			base, _, _ := strings.Cut(name, "/")
			r := all.Has(rule.APIGroups, base)
			switch {
			case base == "namespaces":
				namespaced = true
			case rule.Scope != nil && *rule.Scope == registration.ClusterScope && base != "*" && (r == nil || r.ClusterScoped):
				cluster = true
			case r == nil || base == "*" || len(rule.APIGroups) != 1 || rule.APIGroups[0] == "*": // others may have it in namespaces
				namespaced, cluster = true, true
			case r.ClusterScoped:
				cluster = true
			default:
				namespaced = true
			}
		}
	}
	return namespaced, cluster
}

// unlabelled are the resources of which a webhook sees an object without labels of its own.
var unlabelled = []string{"pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "nodes/proxy", "services/proxy", "pods/binding",
	"pods/eviction", "serviceaccounts/token", "bindings", "deployments/scale", "replicasets/scale", "statefulsets/scale",
	"replicationcontrollers/scale"}

// objectSelectorProblems returns the finding for an objectSelector that no object of the rules can match.
func objectSelectorProblems(w entry) []report.Finding {
	if selector.Empty(w.ObjectSelector) {
		return nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(w.ObjectSelector)
	if err != nil {
		return []report.Finding{problem("object-selector-never", w.about(), "objectSelector is invalid: %v.", err)}
	}
	if key, possible := selector.Of(w.ObjectSelector).Possible(); !possible {
		severity := report.Warning
		if w.ushers() {
			severity = report.Error
		}
		return []report.Finding{milder(problem("object-selector-never", w.about(),
			"objectSelector (%s) asks for the label %s in two ways that exclude each other. "+
				"The webhook is never called.", compiled, key), severity)}
	}
	var with, without []string
	for _, rule := range w.Rules {
		for _, name := range rule.Resources {
			if slices.Contains(unlabelled, name) {
				without = append(without, name)
			} else {
				with = append(with, name)
			}
		}
	}
	if len(without) == 0 || !webhookmatch.AsksForLabel(w.ObjectSelector) {
		return nil
	}
	if len(with) > 0 {
		return []report.Finding{milder(problem("object-selector-never", w.about(), "objectSelector (%s) asks for labels, and the object of a request for "+
			"%s has none: the webhook is called for %s alone. Give the others an entry of their own.", compiled, report.List(once(without)),
			report.List(once(with))), report.Warning)}
	}
	return []report.Finding{problem("object-selector-never", w.about(), "objectSelector (%s) asks for "+
		"labels, and the object of a request for %s has none: it is not the pod. The webhook is never called. Use namespaceSelector or "+
		"matchConditions.",
		compiled, report.List(without))}
}

// settingsProblems returns what is wrong with the plain settings of a webhook.
func settingsProblems(w entry) (found []report.Finding) {
	if len(w.AdmissionReviewVersions) > 0 && !slices.Contains(w.AdmissionReviewVersions, "v1") {
		severity, why := report.Warning, "v1beta1 is the old form, without which newer API servers may do"
		if !slices.Contains(w.AdmissionReviewVersions, "v1beta1") {
			severity, why = report.Error, "the API server knows none of these, and cannot call the webhook"
		}
		old := problem("review-version-v1", w.about(), "admissionReviewVersions is %s, without v1: %s.", report.List(w.AdmissionReviewVersions), why)
		found = append(found, milder(old, severity))
	}
	if s := w.SideEffects; s != nil && (*s == registration.SideEffectClassSome || *s == registration.SideEffectClassUnknown) {
		found = append(found, problem("side-effects", w.about(), "sideEffects is "+
			"%s, so a dry run (kubectl diff, kubectl apply --dry-run=server) that the webhook is for is refused. Set None or NoneOnDryRun if that "+
			"is true of it.", *s))
	}
	return found
}
