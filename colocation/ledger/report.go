package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// Row is how a quota stands, for people. Its JSON form is what /debug/quotas gives; fields are only ever added.
type Row struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	TreeID    string `json:"treeID,omitempty"`
	IsParent  bool   `json:"isParent,omitempty"`
	// Resources are those that are limited or counted, by name, sorted.
	Resources []ResourceRow `json:"resources,omitempty"`
	// Waiting are the pods of the quota itself that were admitted and may not have been seen by everybody; WaitingPods is how many.
	Waiting     []WaitingRow `json:"waiting,omitempty"`
	WaitingPods int          `json:"waitingPods,omitempty"`
	Children    []Row        `json:"children,omitempty"`
}

// ResourceRow is one resource of a quota and all below it.
type ResourceRow struct {
	Name corev1.ResourceName `json:"name"`
	// Used is what the pods that were seen count for; Reserved is what those count for that were not. Limit is nil where there is none;
	// Source says where it stands.
	Used     quota.Amount  `json:"used"`
	Reserved quota.Amount  `json:"reserved"`
	Limit    *quota.Amount `json:"limit,omitempty"`
	Source   string        `json:"source,omitempty"`
	Min      *quota.Amount `json:"min,omitempty"`
}

// String is the resource on a line: cpu: used 3, reserved 1, limit 8 (spec.max).
func (r ResourceRow) String() string {
	text := fmt.Sprintf("%s: used %s, reserved %s", r.Name, &r.Used, &r.Reserved)
	if r.Limit == nil {
		return text + ", no limit"
	}
	return fmt.Sprintf("%s, limit %s (%s)", text, r.Limit, r.Source)
}

// WaitingRow is room that is held for a pod.
type WaitingRow struct {
	Pod     string              `json:"pod"`
	Request corev1.ResourceList `json:"request"`
	Since   time.Time           `json:"since"`
}

// Report is the forest of all quotas as this replica knows it: one row for each top, with what is below it. The error wraps
// admit.ErrNotReady as long as the quotas are not known.
func (l *Ledger) Report() ([]Row, error) {
	tree, err := l.tree()
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	for _, name := range tree.Names() {
		path := tree.Path(name)
		if len(path) == 0 || path[len(path)-1].Name != name {
			continue // the root quota, or below another one
		}
		l.look(tree, path[len(path)-1], func(h *holdings) { rows = append(rows, h.row(path[len(path)-1], map[string]bool{})) })
	}
	return rows, nil
}

// Path is how a quota and those above it stand, up to the top of its tree, without what else is below them. Empty if there is no such quota.
func (l *Ledger) Path(name string) (rows []Row, _ error) {
	tree, err := l.tree()
	if err != nil {
		return nil, err
	}
	path := tree.Path(name)
	if len(path) == 0 {
		return nil, nil
	}
	l.look(tree, path[len(path)-1], func(h *holdings) {
		for _, q := range path {
			row := h.row(q, map[string]bool{})
			row.Waiting, row.WaitingPods, row.Children = nil, 0, nil
			rows = append(rows, row)
		}
	})
	return rows, nil
}

// look lets see what counts in a tree now.
func (l *Ledger) look(tree *quota.Tree, top *quota.Quota, see func(*holdings)) {
	object, known := l.objects.get(keyOf(top))
	if alone, ok := l.options.Store.(*memory); ok && !known {
		object, _ = alone.Read(context.Background(), keyOf(top)) // never fails
	}
	found, err := parseRecord(object.Record)
	if err != nil {
		found = record{} // whoever writes next says so
	}
	v := view{tree: tree, top: object, misplaced: l.objects.misplacedBelow(tree, top.Name), now: l.options.Now()}
	l.accounts.with(tree, func(a *accounts) {
		own, _ := l.dropSeen(a, v, found)
		misplaced, _ := l.dropSeen(a, v, v.misplaced)
		see(newHoldings(tree, a, pointers(own.Pods), pointers(misplaced.Pods)))
	})
}

// maxDepth is as deep as a report goes. The rules allow less, but a tree may be older than they are.
const maxDepth = 50

// row is a quota and what is below it; done keeps a cycle from having no end.
func (h *holdings) row(q *quota.Quota, done map[string]bool) Row {
	done[q.Name] = true
	row := Row{Name: q.Name, Namespace: q.Namespace, TreeID: q.TreeID, IsParent: q.IsParent, Resources: h.resources(q), Waiting: h.waiting(q)}
	row.WaitingPods = len(row.Waiting)
	for _, name := range h.tree.Children(q.Name) {
		if child, ok := h.tree.Get(name); ok && !done[name] && len(h.path(name)) <= maxDepth {
			row.Children = append(row.Children, h.row(child, done))
		}
	}
	return row
}

func (h *holdings) resources(q *quota.Quota) (rows []ResourceRow) {
	used, reserved := h.accounts.used[q.Name], h.reserved[q.Name]
	names := map[corev1.ResourceName]bool{}
	for name := range q.Max {
		names[name] = true
	}
	for name := range q.Admission {
		names[name] = true
	}
	for _, list := range []sum{used, reserved} {
		for name, amount := range list {
			if !amount.IsZero() {
				names[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row := ResourceRow{Name: name, Used: used[name], Reserved: reserved[name]}
		if limit, source, ok := q.Limit(name); ok {
			row.Limit, row.Source = &limit, source
		}
		if least, ok := q.Min[name]; ok {
			row.Min = &least
		}
		rows = append(rows, row)
	}
	return rows
}

func (h *holdings) waiting(q *quota.Quota) (rows []WaitingRow) {
	for _, key := range slices.Sorted(maps.Keys(h.byPod)) {
		for _, r := range h.byPod[key] {
			if r.Quota == q.Name {
				rows = append(rows, WaitingRow{r.Pod, r.request(), time.UnixMilli(r.At).UTC()})
			}
		}
	}
	return rows
}

// Sums are what the pods of each quota and all below it ask for, seen or not, as the annotation child-request tells it.
func (l *Ledger) Sums() (map[string]api.ResourceList, error) {
	rows, err := l.Report()
	sums := map[string]api.ResourceList{}
	var note func(Row)
	note = func(row Row) {
		of := api.ResourceList{}
		for _, r := range row.Resources {
			total := sum{r.Name: r.Used}
			total.plus(r.Name, r.Reserved)
			if all := total[r.Name]; !all.IsZero() {
				of[r.Name] = all
			}
		}
		sums[row.Name] = of
		for _, child := range row.Children {
			note(child)
		}
	}
	for _, row := range rows {
		note(row)
	}
	return sums, err
}

// counters count what happened to records.
type counters struct{ writes, conflicts, failures atomic.Int64 }

// Stats are numbers about a ledger since it began; Reservations is how many there are now.
type Stats struct {
	// Writes are attempts to write a record; Conflicts those of them that another write had overtaken, Failures those that did not work.
	Writes, Conflicts, Failures int64
	Reservations                int
}

// Stats gives the numbers.
func (l *Ledger) Stats() Stats {
	s := Stats{Writes: l.counts.writes.Load(), Conflicts: l.counts.conflicts.Load(), Failures: l.counts.failures.Load()}
	for _, object := range l.records() {
		if found, err := parseRecord(object.Record); err == nil {
			s.Reservations += len(found.Pods)
		}
	}
	return s
}

// records are the objects that have a record.
func (l *Ledger) records() []Object {
	if alone, ok := l.options.Store.(*memory); ok {
		return alone.all()
	}
	return l.objects.withRecord()
}
