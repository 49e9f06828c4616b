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

// Row is the state of one quota, for display. It is served as JSON at /debug/quotas; fields are only ever added.
type Row struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	TreeID    string `json:"treeID,omitempty"`
	IsParent  bool   `json:"isParent,omitempty"`
	// Resources are the resources that are limited or used, sorted by name.
	Resources []ResourceRow `json:"resources,omitempty"`
	// Waiting are the pods of the quota itself that were admitted and that some replica may not have observed yet;
	// WaitingPods is their number.
	Waiting     []WaitingRow `json:"waiting,omitempty"`
	WaitingPods int          `json:"waitingPods,omitempty"`
	Children    []Row        `json:"children,omitempty"`
}

// ResourceRow is one resource of a quota, including all its descendants.
type ResourceRow struct {
	Name corev1.ResourceName `json:"name"`
	// Used is the total of the observed pods, Reserved the total of the pods that were admitted but not observed. Limit
	// is nil if there is none; Source is the field that sets it.
	Used quota.Amount `json:"used"`
	// Asked is Used by the specs of the pods alone; nil if it is the same.
	Asked    *quota.Amount `json:"asked,omitempty"`
	Reserved quota.Amount  `json:"reserved"`
	Limit    *quota.Amount `json:"limit,omitempty"`
	Source   string        `json:"source,omitempty"`
	Min      *quota.Amount `json:"min,omitempty"`
}

// String returns the resource on one line, such as "cpu: used 3, reserved 1, limit 8 (spec.max)" or, if nodes hold more
// than the specs of the pods request, "cpu: used 3 (2 by spec), reserved 1, limit 8 (spec.max)".
func (r ResourceRow) String() string {
	text := fmt.Sprintf("%s: used %s%s, reserved %s", r.Name, &r.Used, quota.BySpec(r.Asked), &r.Reserved)
	if r.Limit == nil {
		return text + ", no limit"
	}
	return fmt.Sprintf("%s, limit %s (%s)", text, r.Limit, r.Source)
}

// WaitingRow is the reservation of one pod.
type WaitingRow struct {
	Pod     string              `json:"pod"`
	Request corev1.ResourceList `json:"request"`
	Since   time.Time           `json:"since"`
}

// Report returns all quotas as this replica knows them: one row for each top quota, with its descendants. The error
// wraps admit.ErrNotReady until the quotas are known.
func (l *Ledger) Report() ([]Row, error) {
	tree, err := l.tree()
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	for _, name := range tree.Names() {
		path := tree.Path(name)
		if len(path) == 0 || path[len(path)-1].Name != name {
			continue // the root quota, or not a top
		}
		l.withHoldings(tree, path[len(path)-1], func(h *holdings) { rows = append(rows, h.row(path[len(path)-1], map[string]bool{})) })
	}
	return rows, nil
}

// Path returns the rows of a quota and its ancestors up to the top of the tree, without their other descendants. It is
// empty if the quota does not exist. It fails like Report.
func (l *Ledger) Path(name string) (rows []Row, _ error) {
	tree, err := l.tree()
	if err != nil {
		return nil, err
	}
	path := tree.Path(name)
	if len(path) == 0 {
		return nil, nil
	}
	l.withHoldings(tree, path[len(path)-1], func(h *holdings) {
		for _, q := range path {
			row := h.row(q, map[string]bool{})
			row.Waiting, row.WaitingPods, row.Children = nil, 0, nil
			rows = append(rows, row)
		}
	})
	return rows, nil
}

// withHoldings calls do with the current holdings of a tree.
func (l *Ledger) withHoldings(tree *quota.Tree, top *quota.Quota, do func(*holdings)) {
	object, known := l.objects.get(keyOf(top))
	if alone, ok := l.options.Store.(*memStore); ok && !known {
		object, _ = alone.Read(context.Background(), keyOf(top)) // its error is always nil
	}
	if object.Quota == nil { // the watch of the ledger has not shown it yet
		object.Quota = top
	}
	found, err := parseRecord(object.Record)
	if err != nil {
		found = record{} // the next write reports it
	}
	v := view{tree: tree, top: object, misplaced: l.objects.misplacedBelow(tree, top.Name), now: l.options.Now()}
	l.accounts.with(tree, func(a *accounts) {
		entered, _ := l.pending.enterSpent(a, v, found)
		own, _ := l.pending.dropSeen(a, v, entered)
		// Grants that can be recalled are not reported as reserved.
		own.Pods = slices.DeleteFunc(own.Pods, func(r reservation) bool { return l.grants.live(&r, v.now) })
		misplaced, _ := l.pending.dropSeen(a, v, v.misplaced)
		h := newHoldings(tree, a, pointers(own.Pods), pointers(misplaced.Pods))
		h.needs = newest(found.Seen, v.misplaced.Seen)
		do(h)
	})
}

// maxDepth is the depth of a report. The rules allow less, but a tree may predate them.
const maxDepth = 50

// row returns a quota with its descendants. done guards against cycles.
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
	used, reserved, apart := h.accounts.used[q.Name], h.reserved[q.Name], h.accounts.apart[q.Name]
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
		row := ResourceRow{Name: name, Used: used[name], Asked: without(used[name], apart[name]), Reserved: reserved[name]}
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
			if r.quotaIn(h.tree) == q.Name {
				rows = append(rows, WaitingRow{r.Pod, r.request(), time.UnixMilli(r.At).UTC()})
			}
		}
	}
	return rows
}

// Sums returns what the pods of each quota and its descendants request by their specs, observed or reserved, in the
// form of the child-request annotation. It fails like Report.
func (l *Ledger) Sums() (map[string]api.ResourceList, error) {
	rows, err := l.Report()
	sums := map[string]api.ResourceList{}
	var note func(Row)
	note = func(row Row) {
		of := api.ResourceList{}
		for _, r := range row.Resources {
			total := sum{r.Name: r.Used}
			if r.Asked != nil {
				total[r.Name] = *r.Asked
			}
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

// counters counts decisions, and operations on records.
type counters struct {
	writes, conflicts, failures, decided, granted, reads     atomic.Int64
	waitsForPods, waitsForTree, waitsForChange, waitsForTurn atomic.Int64
}

// Stats holds counts since the ledger was created, and the current number of reservations.
type Stats struct {
	// Writes counts attempts to write a record, Conflicts those that another write overtook, and Failures all other
	// failed ones.
	Writes, Conflicts, Failures int64
	// Decided counts the pods that were decided on, Granted those of them that were admitted against a grant; Reads the
	// reads of quota objects after a conflict or before the first decision.
	Decided, Granted, Reads int64
	// WaitsForPods and WaitsForTree count the waits for the watch of the pods and of the quotas, WaitsForChange those for
	// a change of a quota that was admitted, and WaitsForTurn those for other replicas' writes.
	WaitsForPods, WaitsForTree, WaitsForChange, WaitsForTurn int64
	Reservations                                             int
	// Oldest is the time of the oldest reservation; zero if there is none.
	Oldest time.Time
	// Revived is the number of pods that had ended and run again, although no replica has admitted that.
	Revived int
}

// Stats returns the current counts.
func (l *Ledger) Stats() Stats {
	s := Stats{
		Writes: l.counts.writes.Load(), Conflicts: l.counts.conflicts.Load(), Failures: l.counts.failures.Load(),
		Decided: l.counts.decided.Load(), Granted: l.counts.granted.Load(), Reads: l.counts.reads.Load(),
		WaitsForPods: l.counts.waitsForPods.Load(), WaitsForTree: l.counts.waitsForTree.Load(),
		WaitsForChange: l.counts.waitsForChange.Load(), WaitsForTurn: l.counts.waitsForTurn.Load(), Revived: l.revivals.count(),
	}
	for _, object := range l.records.all() {
		if found, err := parseRecord(object.Record); err == nil {
			s.Reservations += len(found.Pods)
			s.Oldest = found.oldest(s.Oldest)
		}
	}
	return s
}

// oldest returns the time of the oldest reservation, or before if that is older.
func (r record) oldest(before time.Time) time.Time {
	for i := range r.Pods {
		if at := time.UnixMilli(r.Pods[i].At); before.IsZero() || at.Before(before) {
			before = at
		}
	}
	return before
}
