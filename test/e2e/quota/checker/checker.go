// Package checker replays what was stored in etcd, and checks that no quota ever held more than its limit. Of usher it
// uses only the keys of labels, and the reservations in the record on the top quota.
package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/e2e/kubetest"
)

const (
	prefix   = "quota.scheduling.koordinator.sh/"
	recordOf = "usher.dev/reservations"
)

// Checker takes the changes of pods and quotas in some namespaces in the order of their resourceVersions. Its methods may
// be called from any goroutine.
type Checker struct {
	namespaces map[string]bool

	mu       sync.Mutex
	sums     sums
	uids     map[string]string           // of the stored pods, by key
	reserved map[string][]string         // the keys in the record of a quota
	grants   map[string]map[string]int64 // by the quota with the record and the quota that they are in
	apart    map[string]bool             // the UIDs of the pods that held something else than they asked
	revision int64
	told     Told
}

// Told holds what a checker has seen.
type Told struct {
	Overshoots []string // each change of a pod that took quotas above what was allowed
	Uncovered  []string // each change of a pod that made it count for more than was reserved for it

	Added, Grown, Ended, Deleted, Records int
	Apart                                 int     // pods that held something else than they asked, at some time
	Infeasible                            int     // resizes that the node refused
	Lowered                               int     // limits that fell below what was held
	Moved                                 int     // quotas with another parent
	Granted                               int     // pods that were not reserved by name when they were stored, but by a grant
	Fullest                               float64 // the largest part of its limit that a quota held, in percent, while that had not been lowered
}

// New returns a checker for namespaces in which nothing exists yet.
func New(namespaces ...string) *Checker {
	in := map[string]bool{}
	for _, name := range namespaces {
		in[name] = true
	}
	return &Checker{namespaces: in, sums: sums{quotas: map[string]*quota{}, pods: map[string]*entry{}},
		uids: map[string]string{}, reserved: map[string][]string{}, grants: map[string]map[string]int64{}, apart: map[string]bool{}}
}

// Take takes the next change. Changes of other objects are ignored.
func (c *Checker) Take(change kubetest.Change) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.has("/registry/pods/", change.Key):
		err = c.pod(change)
	case c.has("/registry/scheduling.sigs.k8s.io/elasticquotas/", change.Key) && !change.Deleted:
		err = c.quota(change)
	}
	c.revision = change.Revision
	return err
}

// has reports whether a key is that of an object of a kind in one of the namespaces.
func (c *Checker) has(kind, key string) bool {
	rest, ok := strings.CutPrefix(key, kind)
	namespace, _, _ := strings.Cut(rest, "/")
	return ok && c.namespaces[namespace]
}

// Revision returns the revision of the last change.
func (c *Checker) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// Told returns what the checker has seen until now.
func (c *Checker) Told() Told {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	told.Apart = len(c.apart)
	return told
}

// pod handles a created, changed or deleted pod.
func (c *Checker) pod(change kubetest.Change) error {
	key := strings.TrimPrefix(change.Key, "/registry/pods/")
	before := c.sums.entry(key)
	now := &entry{reserved: before.reserved}
	if change.Deleted {
		c.told.Deleted++
		delete(c.uids, key)
		c.sums.set(key, now)
		return nil
	}
	pod, err := decodePod(change.Value)
	if err != nil {
		return err
	}
	now.in, now.stored = pod.Labels[prefix+"name"], count(pod)
	c.note(key, string(pod.UID), before, now)
	c.covered(change, before, now)
	if over := c.sums.set(key, now); len(over) > 0 {
		c.told.Overshoots = append(c.told.Overshoots, fmt.Sprintf("%s of quota %s, created %s, took at revision %d %v; it counts for %+v, before for %+v",
			key, now.in, pod.CreationTimestamp, change.Revision, over, now.stored, before.stored))
	}
	c.fill(now.in)
	return nil
}

// note counts what happened to a pod.
func (c *Checker) note(key, uid string, before, now *entry) {
	switch {
	case c.uids[key] != uid:
		c.told.Added++
	case now.stored.held == 0 && before.stored.held > 0:
		c.told.Ended++
	case now.in != before.in || now.stored.held > before.stored.held:
		c.told.Grown++
	}
	if now.stored.held < now.stored.asked && before.stored.held >= before.stored.asked {
		c.told.Infeasible++
	}
	c.uids[key] = uid
	if now.stored.held != now.stored.asked {
		c.apart[uid] = true
	}
}

// covered checks that a pod counts for no more, in each of its quotas, than it did before or was reserved for it, or for new
// pods like it.
func (c *Checker) covered(change kubetest.Change, before, now *entry) {
	was := c.sums.counts(before)
	for _, name := range c.sums.path(now.in) {
		if now.stored.claimed > was[name].claimed {
			if before.in == "" && c.granted(now.in) >= now.stored.claimed {
				c.told.Granted++
				return
			}
			c.told.Uncovered = append(c.told.Uncovered, fmt.Sprintf("%s counts for %d in quota %s from revision %d, with a reservation for %d",
				change.Key, now.stored.claimed, name, change.Revision, was[name].claimed))
			return
		}
	}
}

// granted returns the sum of the grants in a quota.
func (c *Checker) granted(quota string) (all int64) {
	for _, grants := range c.grants {
		all += grants[quota]
	}
	return all
}

// fill remembers how full the quotas of a path are.
func (c *Checker) fill(name string) {
	for _, name := range c.sums.path(name) {
		if q := c.sums.quotas[name]; q.bound == q.limit {
			c.told.Fullest = max(c.told.Fullest, 100*float64(q.held)/float64(q.limit))
		}
	}
}

// quota updates a quota's place, its limit, and the reservations in its record.
func (c *Checker) quota(change kubetest.Change) error {
	var q struct {
		Metadata struct {
			Name                string
			Labels, Annotations map[string]string
		}
		Spec struct{ Max map[string]resource.Quantity }
	}
	if err := json.Unmarshal(change.Value, &q); err != nil {
		return err
	}
	name, parent := q.Metadata.Name, q.Metadata.Labels[prefix+"parent"]
	limit := q.Spec.Max["cpu"]
	if before := c.sums.quotas[name]; before != nil {
		if before.parent != parent {
			c.told.Moved++
		}
		if limit.MilliValue() < before.limit && limit.MilliValue() < before.held {
			c.told.Lowered++
		}
	}
	c.sums.place(name, parent, limit.MilliValue())
	return c.record(name, q.Metadata.Annotations[recordOf])
}

// record replaces the reservations in the record of a quota.
func (c *Checker) record(name, text string) error {
	var record struct {
		Pods []struct {
			Pod, Quota string
			Grant      bool
			Request    map[string]resource.Quantity
		}
	}
	if text != "" {
		c.told.Records++
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			return fmt.Errorf("the record of %s: %w", name, err)
		}
	}
	reserved := map[string][]charge{}
	c.grants[name] = map[string]int64{}
	for _, r := range record.Pods {
		cpu := r.Request["cpu"]
		if r.Grant {
			c.grants[name][r.Quota] += cpu.MilliValue()
		}
		reserved[r.Pod] = append(reserved[r.Pod], charge{r.Quota, cpu.MilliValue()})
	}
	for _, key := range c.reserved[name] {
		if _, stands := reserved[key]; !stands {
			reserved[key] = nil
		}
	}
	c.reserved[name] = nil
	for key, charges := range reserved {
		if len(charges) > 0 {
			c.reserved[name] = append(c.reserved[name], key)
		}
		if before := c.sums.entry(key); !slices.Equal(before.reserved, charges) {
			c.sums.set(key, &entry{stored: before.stored, in: before.in, reserved: charges})
		}
	}
	return nil
}

// Room returns what still fits into a quota, in thousandths of a core. It is negative where a limit was lowered.
func (c *Checker) Room(quota string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var room int64 = 1 << 62
	for _, name := range c.sums.path(quota) {
		room = min(room, c.sums.quotas[name].limit-c.sums.quotas[name].held)
	}
	return room
}

// Sums returns what the pods of each quota hold, and what they ask, in thousandths of a core.
func (c *Checker) Sums() (held, asked map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, asked = map[string]int64{}, map[string]int64{}
	for name, q := range c.sums.quotas {
		held[name], asked[name] = q.held, q.asked
	}
	return held, asked
}

// Pods returns a line for each stored pod.
func (c *Checker) Pods() (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.sums.pods {
		if e.in != "" {
			lines = append(lines, fmt.Sprintf("%s of %s: holds %dm, asks %dm", key, e.in, e.stored.held, e.stored.asked))
		}
	}
	slices.Sort(lines)
	return lines
}
