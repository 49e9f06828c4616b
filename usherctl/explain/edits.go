package explain

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// objects has the last stored object of a log by its type and UID, as the event that has it.
type objects map[[3]string]*Event

// before returns the event with the object as it was before an event, if the log has both, and keeps the newer one. The events come in the order
// in which they were received, and may have been stored in another.
func (o objects) before(e *Event) *Event {
	_, stored := e.heads()
	key := [3]string{stored.APIVersion, stored.Kind, stored.Metadata.UID}
	if e.stored() == nil || stored.Metadata.UID == "" {
		return nil
	}
	last := o[key]
	if last == nil {
		o[key] = e
		return nil
	}
	_, was := last.heads()
	order, err := resourceversion.CompareResourceVersion(was.Metadata.ResourceVersion, stored.Metadata.ResourceVersion)
	if err != nil || order >= 0 {
		return nil
	}
	o[key] = e
	return last
}

// edited notes what a request changed in the object that the log had last, beside what webhooks patched.
func (x *explaining) edited() {
	last := x.e.before
	if last == nil {
		return
	}
	was, errWas := requests.DecodeJSON(last.ResponseObject)
	is, errIs := requests.DecodeJSON(x.e.ResponseObject)
	if errWas != nil || errIs != nil {
		return
	}
	changes := slices.DeleteFunc(differences(was, is), x.isNoEdit)
	if len(changes) == 0 {
		return
	}
	sent, _ := x.e.heads()
	_, before := last.heads()
	by := "this request"
	if sent.Metadata.ResourceVersion != before.Metadata.ResourceVersion {
		by += ", or one before it that is not listed"
	}
	if slices.ContainsFunc(x.report.Findings, func(f report.Finding) bool { return f.ID == "patch-not-recorded" }) {
		by += ", or webhooks whose patches the event does not have"
	}
	texts := maskTexts(x.mask, x.phrases(changes))
	lines := []string{fmt.Sprintf("changed since %s by %s, beside what webhooks patched:", last.Place, by)}
	for _, text := range texts {
		lines = append(lines, "  "+text)
	}
	x.report.Notes = append(x.report.Notes, suite.Note{Name: "edited", Lines: lines,
		Value: map[string]any{"since": last.Place.String(), "by": by, "changes": texts}})
}

// isNoEdit reports whether a change is of what the API server counts, or is the patch of a webhook, or a part of it.
func (x *explaining) isNoEdit(c change) bool {
	if len(c.path) > 1 && c.path[0].key == "metadata" && slices.Contains([]string{"managedFields", "resourceVersion", "generation"}, c.path[1].key) {
		return true
	}
	return slices.ContainsFunc(x.ledger.entries, func(e entry) bool { return len(e.path) <= len(c.path) && meets(e.path, c.path) })
}

// meets reports whether two paths agree as far as both go. A patch may name an element of a list by its place alone, which may be any.
func meets(a, b path) bool {
	for i := range min(len(a), len(b)) {
		either := a[i].isItem && b[i].isItem && (a[i].name == "" || b[i].name == "" || a[i].name == b[i].name)
		if !either && a[i] != b[i] {
			return false
		}
	}
	return true
}
