package doctor

import (
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

const (
	// maxTotalTimeout is the total timeout in seconds above which the webhooks of a pod are reported. The API server itself
	// ends a request after 34 s.
	maxTotalTimeout = 20
	// longWait is the timeoutSeconds from which one webhook is reported: the API server's default.
	longWait = 10
)

// callPath holds webhooks that one pod created in a namespace may be sent to, and what their selectors ask of it.
type callPath struct {
	namespace            string
	mutating, validating []entry
	pod, space           []metav1.LabelSelectorRequirement
}

// seconds returns how long the calls take at most: mutating webhooks are called one after the other, validating ones at
// the same time.
func (w callPath) seconds() (sum int32) {
	for _, m := range w.mutating {
		sum += m.timeout()
	}
	longest := int32(0)
	for _, v := range w.validating {
		longest = max(longest, v.timeout())
	}
	return sum + longest
}

// podProblems returns the finding for timeouts that are too long together for the creation of a pod.
func podProblems(all []entry, namespaces []corev1.Namespace) []report.Finding {
	if namespaces == nil {
		namespaces = []corev1.Namespace{{}}
	}
	longest := longestPath(all, namespaces)
	if longest.seconds() <= maxTotalTimeout {
		return nil
	}
	where := ""
	if longest.namespace != "" {
		where = " in namespace " + longest.namespace
	}
	about, names := shorten(all, namespaces)
	return []report.Finding{problem("pod-timeouts", about, "the creation of a pod%s may take %d s "+
		"while webhooks do not answer, more than %d s: mutating ones are called one after the other (%s), then validating ones at the same time "+
		"(%s). The API server gives up after 34 s. Shorten the longest, %s.",
		where, longest.seconds(), maxTotalTimeout, waits(longest.mutating), waits(longest.validating), report.List(names))}
}

// longestPath returns the webhooks of the namespace in which the creation of a pod takes longest.
func longestPath(all []entry, namespaces []corev1.Namespace) (longest callPath) {
	for _, n := range namespaces {
		if next := callPathOf(all, n); next.seconds() > longest.seconds() {
			longest = next
		}
	}
	return longest
}

// shorten returns the webhooks whose timeouts have to be shortened, the longest first, until no path is too long.
func shorten(all []entry, namespaces []corev1.Namespace) (about subject, names []string) {
	const short = 3
	left := slices.Clone(all)
	for {
		path := longestPath(left, namespaces)
		slowest := slices.MaxFunc(slices.Concat(path.mutating, path.validating), func(a, b entry) int { return int(a.timeout() - b.timeout()) })
		if path.seconds() <= maxTotalTimeout || slowest.timeout() <= short {
			return about, names
		}
		if names = append(names, slowest.Name); len(names) == 1 {
			about = slowest.about()
		}
		i := slices.IndexFunc(left, func(w entry) bool { return w.object() == slowest.object() && w.index == slowest.index })
		left[i].TimeoutSeconds = new(int32(short))
	}
}

// callPathOf returns the webhooks that one pod created in a namespace waits for longest: of webhooks whose selectors exclude each other,
// it meets one.
func callPathOf(all []entry, n corev1.Namespace) (longest callPath) {
	var mutating, validating []entry
	for _, w := range all {
		compiled, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
		called := covers(w.Rules, registration.Create, "", "pods") && err == nil && (n.Name == "" || selector.Empty(w.NamespaceSelector) ||
			compiled.Matches(labels.Set(n.Labels)))
		switch {
		case !called || slices.ContainsFunc(w.MatchConditions, func(m registration.MatchCondition) bool { return webhookmatch.Never(m, w.Rules) }):
		case w.mutating():
			mutating = append(mutating, w)
		default:
			validating = append(validating, w)
		}
	}
	tries := maxTries
	callPath{namespace: n.Name}.extend(mutating, validating, &longest, &tries)
	return longest
}

// maxTries bounds the search for the longest path among webhooks that exclude each other: after that, the longest one found counts.
const maxTries = 10_000

// extend finds the longest path that begins with this one.
func (p callPath) extend(mutating, validating []entry, longest *callPath, tries *int) {
	if *tries--; *tries < 0 {
		return
	}
	all := callPath{mutating: slices.Concat(p.mutating, mutating), validating: validating}
	switch {
	case all.seconds() <= longest.seconds():
		return
	case len(mutating) > 0:
		if next, possible := p.with(mutating[0]); possible {
			next.mutating = append(slices.Clip(p.mutating), mutating[0])
			next.extend(mutating[1:], validating, longest, tries)
		}
		p.extend(mutating[1:], validating, longest, tries)
		return
	}
	for _, v := range validating {
		if _, possible := p.with(v); possible {
			p.validating = append(p.validating, v)
		}
	}
	if p.seconds() > longest.seconds() {
		*longest = p
	}
}

// with returns what one more webhook asks of the pod and, if its labels are not known, of the namespace, and reports whether any meets it.
func (p callPath) with(w entry) (next callPath, possible bool) {
	met := func(all []metav1.LabelSelectorRequirement) bool {
		_, possible := selector.Possible(&metav1.LabelSelector{MatchExpressions: all})
		return possible
	}
	p.pod = slices.Concat(p.pod, selector.Requirements(w.ObjectSelector))
	if p.namespace == "" {
		p.space = slices.Concat(p.space, selector.Requirements(w.NamespaceSelector))
	}
	return p, met(p.pod) && met(p.space)
}

func waits(all []entry) string {
	var parts []string
	for _, w := range all {
		parts = append(parts, fmt.Sprintf("%s %d s", w.Name, w.timeout()))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// covers reports whether rules name an operation on a resource, in any version and scope.
func covers(rules []registration.RuleWithOperations, operation registration.OperationType, group, name string) bool {
	base, sub, _ := strings.Cut(name, "/")
	return webhookmatch.Covers(rules, operation, schema.GroupResource{Group: group, Resource: base}, sub)
}

// timeoutProblems returns the finding for a webhook for which the API server waits long.
func timeoutProblems(w entry) []report.Finding {
	if w.timeout() < longWait {
		return nil
	}
	why := "requests hang that long while the webhook does not answer"
	if w.TimeoutSeconds == nil || *w.TimeoutSeconds == longWait {
		why = "10 is the default; " + why
	}
	return []report.Finding{problem("timeout-long", w.about(), "timeoutSeconds is %d: %s.", w.timeout(), why)}
}

// amplifierProblems returns the finding for more than one webhook that may change the status of nodes.
func amplifierProblems(all []entry) []report.Finding {
	var found []entry
	for _, w := range all {
		if w.mutating() && covers(w.Rules, registration.Update, "", "nodes/status") {
			found = append(found, w)
		}
	}
	if len(found) < 2 {
		return nil
	}
	var names []string
	severity := report.Warning
	for _, w := range found {
		names = append(names, fmt.Sprintf("%s (%s %s)", w.Name, w.kind, w.configuration.Name))
		if w.ushers() {
			severity = report.Error
		}
	}
	extra := found[len(found)-1]
	for _, is := range []func(entry) bool{koordinators, func(w entry) bool { return !w.ushers() }, entry.unneeded} {
		if i := slices.IndexFunc(found, is); i >= 0 {
			extra = found[i]
			break
		}
	}
	two := problem("two-amplifiers", extra.about(), "%d mutating webhooks may change the status of nodes: %s. If two of them "+
		"multiply the resources of a node, the factors multiply, too, and the node takes more pods than it can run. Leave "+
		"one.", len(found), report.List(names))
	return []report.Finding{milder(two, severity)}
}

// unneeded reports whether a webhook of usher is registered for nothing.
func (w entry) unneeded() bool { return w.ushers() && w.needed == nil }

// koordinators reports whether a webhook is one of Koordinator's own.
func koordinators(w entry) bool {
	return strings.HasPrefix(w.configuration.Name, "koordinator-") && strings.HasSuffix(w.configuration.Name, "-webhook-configuration")
}
