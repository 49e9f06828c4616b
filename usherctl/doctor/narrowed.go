package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/internal/resources"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// narrowed returns the findings for a registration to which something was added that leaves out more than usher does. It is a warning if
// authors of objects can decide what is left out, or if users who may do nearly everything or three quarters of the namespaces are.
func (w entry) narrowed(added []string, namespaces []corev1.Namespace) (found []report.Finding) {
	const leaves = "what was added to the registration leaves out more than usher does: %s. What is left out is neither checked nor changed."
	then, severe, mild := []string(nil), []string(nil), []string(nil)
	reasons := w.severeConditions(added)
	taken, all := w.takesIn(namespaces)
	for _, what := range added {
		field, rest, _ := strings.Cut(what, " ")
		name, _, _ := strings.Cut(rest, ":")
		switch {
		case field == "objectSelector" && w.forNamespaced():
			then = append(then, byAuthors)
		case field == "matchConditions" && reasons[name] != "":
			then = append(then, reasons[name])
		case field == "namespaceSelector" && all > 0 && taken*4 <= all:
			what += fmt.Sprintf(", which %d of the %d namespaces meet", taken, all)
		default:
			mild = append(mild, what)
			continue
		}
		severe = append(severe, what)
	}
	if len(severe) > 0 {
		found = append(found, problem("usher-leaves-out", w.about(), leaves+"%s", strings.Join(severe, "; "), strings.Join(once(then), "")))
	}
	if len(mild) > 0 {
		found = append(found, milder(problem("usher-leaves-out", w.about(), leaves, strings.Join(mild, "; ")), report.Info))
	}
	return found
}

// once returns names sorted, each once.
func once(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// forNamespaced reports whether the webhook is for objects in namespaces, which many people may write.
func (w entry) forNamespaced() bool {
	namespaced, _ := scopes(w.Rules, resources.BuiltIn())
	return namespaced
}

// written matches where an expression reads what the author of a request writes.
var written = regexp.MustCompile(`\b((object|oldObject)\b|request\.(name|options)\b)`)

// byAuthors is why it matters that something is asked of what the author of a request writes.
const byAuthors = " Whoever writes an object can decide whether usher sees it."

// severeConditions returns why some of the match conditions that were added matter, by name: they read what the author of a request writes, or
// leave out users who may do nearly everything.
func (w entry) severeConditions(additions []string) map[string]string {
	reasons := map[string]string{}
	for _, c := range w.MatchConditions {
		text := strings.ReplaceAll(c.Expression, "object.metadata.namespace", "") // which a right is needed for
		added := c.Name != "not-excluded-pods" && slices.ContainsFunc(additions,
			func(what string) bool { return strings.HasPrefix(what, "matchConditions "+c.Name+": ") })
		switch users := webhookmatch.LeavesOut(c, w.Rules); {
		case added && w.forNamespaced() && written.MatchString(text):
			reasons[c.Name] = byAuthors
		case added && len(users) > 0:
			reasons[c.Name] = fmt.Sprintf(" It leaves out %s.", report.List(users))
		}
	}
	return reasons
}

// takesIn returns for how many namespaces the webhook is called, of those that usher needs it for.
func (w entry) takesIn(namespaces []corev1.Namespace) (taken, all int) {
	needed, is := selector.Of(w.needed.NamespaceSelector), selector.Of(w.NamespaceSelector)
	for _, n := range namespaces {
		if needed.Matches(n.Labels) {
			if all++; is.Matches(n.Labels) {
				taken++
			}
		}
	}
	return taken, all
}
