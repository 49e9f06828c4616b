package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/quota"
)

// The times of a simulated cluster. A request, a watch and an outage together take less than the expiry, as the
// protocol demands.
const (
	simExpiry      = 20 * time.Second
	simWebhook     = 3 * time.Second  // the API server's timeout for a webhook
	simRequest     = 9 * time.Second  // and for a request
	simLag         = 25 * time.Second // the maximum lag of a watch: even longer than the expiry of a reservation
	simOutage      = 2 * time.Second
	simPartition   = 8 * time.Second
	simBookmark    = 5 * time.Second        // between the bookmarks of a watch that has nothing to show
	simSkew        = 300 * time.Millisecond // of a replica's clock
	podKind        = 0
	quotaKind      = 1
	quotaNamespace = "quotas"
)

// cluster is a simulated API server: one store with one resourceVersion, and a log of what changed, which the watches
// read.
type cluster struct {
	t     *testing.T
	seed  uint64
	start time.Time

	calm atomic.Bool // nothing is lost any more

	dice sync.Mutex
	rng  *rand.Rand

	mu      sync.Mutex
	rv      int
	pods    map[string]*storedPod
	quotas  map[string]*storedQuota // by name
	tree    *quota.Tree
	logs    [2][]event
	more    chan struct{} // closed at the next change
	down    time.Time     // until then requests are not served
	broken  int           // outages so far: each breaks all watches
	reroots []reroot
	history []string
	failed  bool
	stats   simStats
}

// simStats prove that schedules were not empty.
type simStats struct {
	Schedules, Granted, Refused, NotReady, Stored, Updated, Conflicts, Writes, Lost, Late, Kills, Outages, Relists, Reroots, Announced, Partitions, Freezes int
	Spent                                                                                                                                                   int // pods that were admitted against a grant, by the replicas that lived to the end
	Enacted, Infeasible, Early, Withdrawn                                                                                                                   int
	Recreated                                                                                                                                               int // quotas that were deleted and created again
}

// storedPod is a pod in the store, with what granted its last growth.
type storedPod struct {
	pod     *quota.Pod
	node    nodeState
	version int
	grant   decision
	at      time.Time
}

// decision records when a request began, and the version of the quotas that the replica knew then.
type decision struct{ began, view time.Time }

// storedQuota is a quota object, with all specs it had.
type storedQuota struct {
	Object
	specs []spec
	gone  bool // it is deleted
}

type spec struct {
	at       time.Time
	quota    *quota.Quota
	late     bool // it was not announced in time: it counts from when a replica observes it
	unwaited bool // no replica was asked, so that nobody has waited for grants
}

// reroot is a change of the quotas that pods count in.
type reroot struct {
	at             time.Time
	late, unwaited bool
	into           map[string]bool // the quotas that pods count in which did not before
}

// concerns reports whether a request that began, or a view, at a time may have been decided before the change.
func (r reroot) concerns(began, view time.Time) bool {
	if r.unwaited {
		began = began.Add(-grantUse)
	}
	return !r.at.Before(began) || r.late && !r.at.Before(view)
}

// event is one change of a kind.
type event struct {
	rv      int
	at      time.Time
	seen    Seen
	removed bool
}

func newCluster(t *testing.T, seed uint64) *cluster {
	return &cluster{t: t, seed: seed, start: time.Now(), rng: rand.New(rand.NewPCG(seed, seed)),
		pods: map[string]*storedPod{}, quotas: map[string]*storedQuota{}, more: make(chan struct{})}
}

// chance returns true with probability p.
func (c *cluster) chance(p float64) bool {
	c.dice.Lock()
	defer c.dice.Unlock()
	return c.rng.Float64() < p
}

func (c *cluster) n(n int) int {
	c.dice.Lock()
	defer c.dice.Unlock()
	return c.rng.IntN(n)
}

// upTo returns a random duration below a bound, usually a small part of it.
func (c *cluster) upTo(bound time.Duration) time.Duration {
	c.dice.Lock()
	defer c.dice.Unlock()
	x := c.rng.Float64()
	return time.Duration(x * x * x * float64(bound))
}

// note writes a line of history. The caller holds mu.
func (c *cluster) note(format string, args ...any) {
	c.history = append(c.history, fmt.Sprintf("%8.3f rv%d ", time.Since(c.start).Seconds(), c.rv)+fmt.Sprintf(format, args...))
}

func (c *cluster) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(format, args...)
}

// fail reports, once, what is wrong with a schedule, with its history. The caller holds mu.
func (c *cluster) fail(format string, args ...any) {
	if c.failed {
		return
	}
	c.failed = true
	last := c.history[max(0, len(c.history)-*simHistory):]
	text := fmt.Sprintf("seed %d: ", c.seed) + fmt.Sprintf(format, args...)
	for _, line := range last {
		text += "\n\t" + line
	}
	c.t.Error(text)
}

func (c *cluster) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// commit logs a change and lets the watches know. The caller holds mu and has counted rv up.
func (c *cluster) commit(kind int, seen Seen, removed bool) {
	seen.Version = strconv.Itoa(c.rv)
	c.logs[kind] = append(c.logs[kind], event{c.rv, time.Now(), seen, removed})
	close(c.more)
	c.more = make(chan struct{})
}

// isDown reports whether requests are not served. The caller holds mu.
func (c *cluster) isDown() bool { return time.Now().Before(c.down) }

// putPod stores a pod, and checks that its growth is within the limits.
func (c *cluster) putPod(pod *quota.Pod, g *decision) {
	c.rv++
	now := &storedPod{pod: pod, version: c.rv, at: time.Now()}
	before := c.pods[podKey(pod)]
	if before != nil {
		now.grant, now.at, now.node = before.grant, before.at, before.node
	}
	c.pods[podKey(pod)] = now
	if g != nil {
		if now.at, now.grant.began = time.Now(), g.began; before == nil || g.view.Before(before.grant.view) {
			now.grant.view = g.view // else what it had before may have been granted from an older one
		}
		c.checkGrowth(now, before)
	}
	c.commit(podKind, Seen{Key: podKey(pod), Object: pod}, false)
}

func (c *cluster) removePod(key string) {
	c.rv++
	one := c.pods[key]
	delete(c.pods, key)
	c.commit(podKind, Seen{Key: key, Object: one.pod}, true)
}

// putQuota stores a quota's new spec, or only a new version of the object if that is nil.
func (c *cluster) putQuota(name string, q *quota.Quota) {
	one := c.quotas[name]
	if one == nil {
		one = &storedQuota{}
		c.quotas[name] = one
	}
	if one.gone && q == nil {
		return
	}
	c.rv++
	if q != nil {
		one.Quota, one.gone = q, false
		one.specs = append(one.specs, spec{at: time.Now(), quota: q})
		c.growTree()
	}
	c.logQuota(one)
}

// removeQuota deletes a quota, and with it its record.
func (c *cluster) removeQuota(one *storedQuota) {
	c.rv++
	one.gone, one.Record = true, ""
	one.specs = append(one.specs, spec{at: time.Now()})
	c.growTree()
	one.Version = strconv.Itoa(c.rv)
	c.commit(quotaKind, Seen{Key: keyOf(one.Quota).String(), Object: one.Quota}, true)
}

// logQuota logs a quota object in its current state.
func (c *cluster) logQuota(one *storedQuota) {
	one.Version = strconv.Itoa(c.rv)
	c.commit(quotaKind, Seen{Key: one.Quota.Namespace + "/" + one.Quota.Name, Object: one.Quota, Record: one.Record}, false)
}

func (c *cluster) growTree() {
	var all []*quota.Quota
	for _, one := range c.quotas {
		if !one.gone {
			all = append(all, one.Quota)
		}
	}
	c.tree = quota.NewTree(all)
}

// charge returns what a stored pod counts for now: at least its spec, as long as its node has not reported. A replica
// whose clock is ahead may already have dropped it.
func (p *storedPod) charge() corev1.ResourceList {
	if p.pod.Ended || !p.pod.Gone().IsZero() && !time.Now().Add(simSkew).Before(p.pod.Gone()) {
		return nil
	}
	if p.node.silent {
		return quantity.Larger(counting.Charge(p.pod), p.pod.Requests)
	}
	return counting.Charge(p.pod)
}

// pathOf returns the quotas that a pod counts in.
func (c *cluster) pathOf(p *quota.Pod) []*quota.Quota {
	return c.tree.Path(c.tree.Bind(p.BindingKey(), false).Name)
}

// used returns the charges of the stored pods of a quota and its descendants.
func (c *cluster) used(name string) sum {
	total := sum{}
	for _, p := range c.pods {
		if slices.ContainsFunc(c.pathOf(p.pod), func(q *quota.Quota) bool { return q.Name == name }) {
			total.add(p.charge())
		}
	}
	return total
}

// checkGrowth checks the guarantee: where a pod that was just stored has grown, all stored pods together are within a
// limit that was set at some time since the request began, or since what the replica had observed of a change that was
// not announced in time.
func (c *cluster) checkGrowth(now, before *storedPod) {
	began, view := now.grant.began, now.grant.view
	for _, p := range c.pods {
		if !p.at.Before(began) && p.grant.view.Before(view) {
			view = p.grant.view // a replica that decided later, from an older picture
		}
	}
	if slices.ContainsFunc(c.reroots, func(r reroot) bool { return r.concerns(began, view) }) {
		return
	}
	path := c.pathOf(now.pod)
	for i, q := range path {
		if i == len(path)-1 {
			view = began // the top's limits come with the version that is written; of a bypassing change, a grant may know later
		}
		used := c.used(q.Name)
		for name := range now.charge() {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory && c.movedSince(q.Name, view.Add(-simLag-simRequest)) {
				continue // nothing may have limited it where the reservation was made, which then does not hold it
			}
			if limit, limited := c.quotas[q.Name].highest(name, began, view); limited && c.grew(now, before, q, name) && limit.Cmp(used[name]) < 0 {
				total := used[name]
				c.note("STORED %s: %s of %s above %s in %s", podKey(now.pod), name, total.String(), limit.String(), q.Name)
				c.fail("quota %s: the pods ask for %s of %s, and the limit is %s", q.Name, total.String(), name, limit.String())
			}
		}
	}
}

// moved notes that pods may count in other quotas than in the tree before. The caller holds mu.
func (c *cluster) moved(before *quota.Tree, late, unwaited bool) {
	into := map[string]bool{}
	for name := range c.quotas {
		for _, key := range []quota.BindingKey{{Namespace: name}, {Label: name, Labelled: true}} {
			joins(into, before.Path(before.Bind(key, false).Name), c.tree.Path(c.tree.Bind(key, false).Name))
		}
	}
	c.reroots = append(c.reroots, reroot{time.Now(), late, unwaited, into})
}

// movedSince reports whether pods came into a quota by a change since some time. The caller holds mu.
func (c *cluster) movedSince(name string, at time.Time) bool {
	return slices.ContainsFunc(c.reroots, func(r reroot) bool { return r.into[name] && r.at.After(at) })
}

// grew reports whether a pod counts for more in a quota than before.
func (c *cluster) grew(now, before *storedPod, q *quota.Quota, name corev1.ResourceName) bool {
	if now.charge() == nil {
		return false
	}
	if before == nil || !slices.Contains(c.pathOf(before.pod), q) {
		return true
	}
	amount := now.charge()[name]
	return amount.Cmp(before.charge()[name]) > 0
}

// highest returns the highest limit at any time since a request began, or since the view of a replica if the change that
// followed was late.
func (o *storedQuota) highest(name corev1.ResourceName, began, view time.Time) (most quota.Amount, limited bool) {
	for i, s := range o.specs {
		if i+1 < len(o.specs) {
			next, since := o.specs[i+1], began
			if next.late {
				since = view
			}
			if next.unwaited && since.Equal(began) {
				since = began.Add(-grantUse)
			}
			if next.at.Before(since) {
				continue
			}
		}
		if s.quota == nil {
			return most, false
		}
		limit, _, ok := s.quota.Limit(name)
		if !ok {
			return most, false
		}
		if !limited || limit.Cmp(most) > 0 {
			most, limited = limit, true
		}
	}
	return most, limited
}

// room returns what still fits into the quotas on the path of a new pod.
func (c *cluster) fits(pod *quota.Pod) bool {
	if c.tree.Bind(pod.BindingKey(), false).Unknown() {
		return false
	}
	for _, q := range c.pathOf(pod) {
		used := c.used(q.Name)
		for name, want := range counting.Asked(pod) {
			if limit, _, ok := q.Limit(name); ok && want.Sign() > 0 {
				want = want.DeepCopy()
				want.Add(used[name])
				if want.Cmp(limit) > 0 {
					return false
				}
			}
		}
	}
	return true
}
