package review

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// Ledger has what the objects of a run, one after the other, use of the ResourceQuotas.
type Ledger struct {
	used    engine.Used
	counted map[string]bool // objects that were admitted, by ledgerKey
	open    map[string]bool // Namespaces with an object that was counted, and may be refused
	last    string          // the Namespace of the last object if it was counted
	refused string          // the source of the last object that was refused itself
}

// NewLedger returns a ledger in which nothing is used beside what the cluster has.
func NewLedger() *Ledger {
	return &Ledger{used: engine.Used{}, counted: map[string]bool{}, open: map[string]bool{}}
}

func ledgerKey(d requests.Document) string { return d.Of + " " + keyOf(objectOf(d.File().JSON)) }

// counting makes a request count what was used before, unless it is not sent, or counted already. unknown says why the number of pods is not known.
func (l *Ledger) counting(r *engine.Request, d requests.Document) (unknown string) {
	if d.Of != "" && r.Operation == admissionv1.Create {
		r.Count, unknown = newPods(d.File())
	}
	if l != nil && !r.DryRun && (d.Of == "" || l.refused != d.Source) && !l.counted[ledgerKey(d)] {
		r.Used = l.used
	}
	return unknown
}

// newPods returns how many pods are created because of a workload: of an update that changes no template, those that it adds.
func newPods(file requests.Document) (*int64, string) {
	count, unknown := countOf(objectOf(file.JSON))
	if unknown != "" {
		return nil, unknown
	}
	if len(file.Old) > 0 && file.KeepsTemplate() {
		if had, unknown := countOf(objectOf(file.Old)); unknown == "" {
			count = max(count-had, 0)
		}
	}
	return &count, ""
}

// add notes that the object of a document was judged.
func (l *Ledger) add(d requests.Document, r engine.Request, namespace string, v engine.Verdict) {
	if l == nil {
		return
	}
	if l.last = ""; v.Counted && v.Allowed() && r.Used != nil {
		l.last = namespace
		l.counted[ledgerKey(d)] = objectOf(d.File().JSON).GetName() != ""
	}
}

// settle notes what is known of the last object in the end.
func (l *Ledger) settle(d requests.Document, verdict report.Verdict) {
	switch refused := verdict == report.Denied || verdict == report.Invalid; {
	case l == nil:
	case d.Of == "" && refused:
		l.refused = d.Source
	case l.last != "" && verdict != report.Allowed && verdict != report.Skipped:
		l.open[l.last] = true
	}
}

// fitting says in a refusal by a ResourceQuota how many pods of a workload fit.
func fitting(v *engine.Verdict, r engine.Request, d requests.Document) {
	if v.By == quotaPlugin && r.Count != nil && *r.Count > 1 {
		of, _, _ := strings.Cut(d.Of, " → ")
		v.Refusal.Message = fmt.Sprintf("%d of %d pods of %s fit: %s", v.Fit, *r.Count, of, v.Refusal.Message)
	}
}

// quotaPlugin is the plug-in that counts.
const quotaPlugin = "ResourceQuota"
