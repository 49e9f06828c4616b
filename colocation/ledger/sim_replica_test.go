package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
)

// replica is one process: a ledger, its watches and its way to the API server.
type replica struct {
	c      *cluster
	name   string
	ledger *Ledger
	lag    [2]time.Duration // of its watches
	faults float64          // of its calls
	ctx    context.Context
	kill   context.CancelFunc
	halts  bool // it may freeze

	mu     sync.Mutex
	quotas map[string]*quota.Quota
	tree   *quota.Tree
	rv     [2]int       // its watches have delivered everything up to here; 0 before the first list
	cut    time.Time    // until then it does not reach the API server, nor the API server's events it
	frozen [2]time.Time // from when until when the process stands still
}

// kind describes a simulated replica.
type kind struct {
	halts  bool // it may freeze
	sweeps bool
}

func newReplica(c *cluster, name string, lag [2]time.Duration, faults float64, k kind) *replica {
	r := &replica{c: c, name: name, lag: lag, faults: faults, halts: k.halts, quotas: map[string]*quota.Quota{}}
	r.ctx, r.kill = context.WithCancel(context.Background())
	skew := c.upTo(simSkew)
	now := func() time.Time { return time.Now().Add(skew) }
	r.ledger = New(Options{Tree: r.known, Store: &simStore{r}, Counting: counting, Expiry: simExpiry, Replica: name,
		Now: func() time.Time { return r.clock(now()) }})
	r.ledger.accounts.now = now // is asked under a lock, where the model cannot stop
	go r.watch(podKind)
	go r.watch(quotaKind)
	if k.sweeps {
		go r.ledger.Run(r.ctx)
	}
	return r
}

// known is the replica's tree.
func (r *replica) known(context.Context, string) (*quota.Tree, error) {
	r.step()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rv[podKind] == 0 || r.rv[quotaKind] == 0 {
		return nil, admit.ErrNotReady
	}
	return r.tree, nil
}

// view returns the version as of which the replica knows the quotas.
func (r *replica) view() time.Time {
	r.mu.Lock()
	rv := r.rv[quotaKind]
	r.mu.Unlock()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if next := since(r.c.logs[quotaKind], rv); len(next) > 0 {
		return next[0].at
	}
	return time.Now()
}

// since returns the changes after a version.
func since(log []event, rv int) []event {
	i, _ := slices.BinarySearchFunc(log, rv+1, func(c event, rv int) int { return c.rv - rv })
	return log[i:]
}

// watch delivers the changes of a kind to the ledger, in order but late.
func (r *replica) watch(kind int) {
	rv, broken := r.list(kind, 0)
	for r.ctx.Err() == nil {
		if !r.up() {
			return
		}
		r.c.mu.Lock()
		next, more, outages := since(r.c.logs[kind], rv), r.c.more, r.c.broken
		r.c.mu.Unlock()
		if len(next) == 0 && outages == broken {
			select {
			case <-more:
			case <-time.After(simBookmark):
				rv = r.bookmark(kind, rv)
			case <-r.ctx.Done():
			}
			continue
		}
		if len(next) > 0 && !r.sleep(time.Until(next[0].at.Add(r.c.upTo(r.lag[kind])))) {
			return
		}
		if outages != broken && r.c.chance(0.7) || r.c.chance(0.01) {
			rv, broken = r.list(kind, rv)
			continue
		}
		broken = outages
		if !r.up() {
			return
		}
		if len(next) > 0 {
			rv = next[0].rv
			r.tell(kind, next[0])
		}
	}
}

// bookmark delivers the version of the store, if a watch at a version has shown everything.
func (r *replica) bookmark(kind, rv int) int {
	r.c.mu.Lock()
	if now := r.c.rv; len(since(r.c.logs[kind], rv)) == 0 && !r.c.isDown() {
		rv = now
	}
	r.c.mu.Unlock()
	if kind == podKind {
		r.ledger.Pods().Reached(strconv.Itoa(rv))
	} else {
		r.ledger.Quotas().Reached(strconv.Itoa(rv))
	}
	r.reached(kind, rv)
	return rv
}

// A freeze stops a process between any two of its steps: a machine is suspended, or a container has no CPU. All others go on,
// and so do the messages that are under way. When it is over, the process goes on as if nothing had happened: with the clock
// that it has read, the timers that have fired meanwhile, and answers that nobody may wait for any more. In the model a
// process stops where it asks for the time, the tree or the store, where something arrives, and where it answers.

// step is a moment at which the process may freeze, or is frozen.
func (r *replica) step() {
	if r.halts && !r.c.calm.Load() && r.c.chance(0.0005) {
		r.freeze()
	}
	r.awake()
}

// freeze stops the process: for less than a request waits, or for longer than grants and reservations count.
func (r *replica) freeze() {
	long := r.c.upTo(2 * grantEnd)
	if r.c.chance(0.7) {
		long = grantUse + r.c.upTo([]time.Duration{2 * grantUse, 2 * simExpiry}[r.c.n(2)])
	}
	r.mu.Lock()
	r.frozen = [2]time.Time{time.Now(), time.Now().Add(long)}
	r.mu.Unlock()
	r.c.say("%s freezes for %s", r.name, long)
	r.c.count(func(s *simStats) { s.Freezes++ })
}

// awake waits until the process is not frozen, and returns since when it was.
func (r *replica) awake() (since time.Time) {
	for {
		r.mu.Lock()
		from, until := r.frozen[0], r.frozen[1]
		r.mu.Unlock()
		if time.Until(until) <= 0 || !r.sleep(time.Until(until)) {
			return since
		}
		since = from
	}
}

// clock returns the time. The process may freeze before it has asked, or after that.
func (r *replica) clock(now time.Time) time.Time {
	asked := time.Now()
	r.step()
	if since := time.Since(asked); since > 0 && r.c.chance(0.5) {
		return now.Add(since)
	}
	return now
}

func (r *replica) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return r.ctx.Err() == nil
	case <-r.ctx.Done():
		return false
	}
}

// cutFor returns for how long the replica is still cut off.
func (r *replica) cutFor() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.cut)
}

// up waits until the API server is available.
func (r *replica) up() bool {
	for {
		r.c.mu.Lock()
		wait := time.Until(r.c.down)
		r.c.mu.Unlock()
		if wait = max(wait, r.cutFor()); wait <= 0 {
			return r.ctx.Err() == nil
		}
		if !r.sleep(wait) {
			return false
		}
	}
}

// list reads a kind again: the current state, or a slightly stale one from a cache, but never older than what was
// delivered.
func (r *replica) list(kind, least int) (rv, broken int) {
	if !r.sleep(r.c.upTo(200*time.Millisecond)) || !r.up() {
		return 0, 0
	}
	stale := r.c.chance(0.5)
	r.c.mu.Lock()
	rv, broken = r.c.rv, r.c.broken
	r.c.stats.Relists++
	if stale {
		for _, one := range r.c.logs[kind] {
			if one.rv > least && time.Since(one.at) < r.lag[kind] {
				rv = one.rv
				break
			}
		}
	}
	all := map[string]Seen{}
	for _, one := range r.c.logs[kind] {
		if one.rv > rv {
			break
		}
		if all[one.seen.Key] = one.seen; one.removed {
			delete(all, one.seen.Key)
		}
	}
	r.c.note("%s lists %s at %d", r.name, kindName(kind), rv)
	r.c.mu.Unlock()
	r.replace(kind, slices.Collect(maps.Values(all)), rv)
	return rv, broken
}

func kindName(kind int) string { return []string{"pods", "quotas"}[kind] }

func (r *replica) replace(kind int, all []Seen, rv int) {
	r.step()
	if kind == podKind {
		r.ledger.Pods().Replace(all, strconv.Itoa(rv))
	} else {
		r.forget()
		r.keep(all...)
		r.ledger.Quotas().Replace(all, strconv.Itoa(rv))
	}
	r.reached(kind, rv)
}

// tell delivers a change that is already applied.
func (r *replica) tell(kind int, one event) {
	r.step()
	to := r.ledger.Pods()
	if kind == quotaKind {
		if to = r.ledger.Quotas(); one.removed {
			r.forget(one.seen.Object.(*quota.Quota).Name)
		}
		if !one.removed {
			r.keep(one.seen)
		}
	}
	if one.removed {
		to.Remove(one.seen)
	} else {
		to.Put(one.seen)
	}
	r.reached(kind, one.rv)
}

func (r *replica) reached(kind, rv int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rv[kind] = rv
}

// forget drops quotas, or all if none is named; the tree stays in the latter case.
func (r *replica) forget(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		delete(r.quotas, name)
		r.tree = quota.NewTree(slices.Collect(maps.Values(r.quotas)))
	}
	if len(names) == 0 {
		r.quotas = map[string]*quota.Quota{}
	}
}

// keep stores quotas. The tree stays if only records changed.
func (r *replica) keep(all ...Seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.tree == nil
	for _, seen := range all {
		q := seen.Object.(*quota.Quota)
		changed = changed || r.quotas[q.Name] != q
		r.quotas[q.Name] = q
	}
	if changed {
		r.tree = quota.NewTree(slices.Collect(maps.Values(r.quotas)))
	}
}

// simStore is a replica's access to the records: slow, and sometimes failing before or after the operation.
type simStore struct{ r *replica }

var errNetwork = errors.New("the network is broken")

// travel simulates one direction; it returns false if the message is lost.
func (s *simStore) travel(ctx context.Context) error {
	s.r.step()
	defer s.r.step()
	bound := 10 * time.Millisecond
	if s.fault() {
		bound = simWebhook
	}
	if cut := s.r.cutFor(); cut > 0 {
		bound = cut
	}
	select {
	case <-time.After(s.r.c.upTo(bound)):
	case <-ctx.Done():
		return ctx.Err()
	case <-s.r.ctx.Done():
		return errNetwork
	}
	if s.fault() || s.r.cutFor() > 0 {
		return errNetwork
	}
	return nil
}

// fault reports whether an error is to be injected now.
func (s *simStore) fault() bool { return !s.r.c.calm.Load() && s.r.c.chance(s.r.faults) }

func (s *simStore) Read(ctx context.Context, key types.NamespacedName) (Object, error) {
	if err := s.travel(ctx); err != nil {
		return Object{}, err
	}
	s.r.c.mu.Lock()
	one := s.r.c.quotas[key.Name]
	if s.r.c.isDown() || one == nil || one.gone {
		gone := !s.r.c.isDown() && one != nil
		s.r.c.mu.Unlock()
		if gone {
			return Object{}, ErrGone
		}
		return Object{}, errNetwork
	}
	found := one.Object
	s.r.c.mu.Unlock()
	return found, s.travel(ctx)
}

func (s *simStore) Pod(ctx context.Context, key types.NamespacedName) (string, error) {
	if err := s.travel(ctx); err != nil {
		return "", err
	}
	s.r.c.mu.Lock()
	one, down := s.r.c.pods[key.String()], s.r.c.isDown()
	s.r.c.mu.Unlock()
	switch {
	case down:
		return "", errNetwork
	case one == nil:
		return "", ErrGone
	}
	return strconv.Itoa(one.version), s.travel(ctx)
}

// Pods returns the version of a list of all pods, which is that of the store.
func (s *simStore) Pods(ctx context.Context) (string, error) {
	if err := s.travel(ctx); err != nil {
		return "", err
	}
	s.r.c.mu.Lock()
	rv, down := s.r.c.rv, s.r.c.isDown()
	s.r.c.mu.Unlock()
	if down {
		return "", errNetwork
	}
	return strconv.Itoa(rv), s.travel(ctx)
}

func (s *simStore) Write(ctx context.Context, key types.NamespacedName, version, record string) (Object, error) {
	if err := s.travel(ctx); err != nil {
		if !s.r.c.calm.Load() && s.r.c.chance(0.3) {
			go func() { // it arrives nevertheless, when no caller expects it any more
				time.Sleep(s.r.c.upTo(time.Second))
				if _, err := s.r.c.writeRecord(s.r.name, key, version, record); err == nil {
					s.r.c.count(func(s *simStats) { s.Late++ })
				}
			}()
		}
		return Object{}, err
	}
	made, err := s.r.c.writeRecord(s.r.name, key, version, record)
	if err != nil {
		return Object{}, err
	}
	if err := s.travel(ctx); err != nil {
		s.r.c.count(func(s *simStats) { s.Lost++ })
		return Object{}, err
	}
	return made, nil
}

func (c *cluster) count(how func(*simStats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(&c.stats)
}

// writeRecord implements compare-and-swap.
func (c *cluster) writeRecord(by string, key types.NamespacedName, version, record string) (Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.quotas[key.Name]
	if c.isDown() {
		return Object{}, errNetwork
	}
	if one.gone {
		return Object{}, ErrGone
	}
	if one.Version != version {
		c.stats.Conflicts++
		return Object{}, ErrConflict
	}
	if len(record) > maxRecord {
		c.fail("%s: a record of %d bytes", key, len(record))
	}
	c.rv++
	c.stats.Writes++
	c.note("%s writes %s %s", by, key.Name, changesIn(record)+inBrief(record))
	one.Record = record
	c.logQuota(one)
	return one.Object, nil
}

// changesIn describes what a record says about changes of the tree.
func changesIn(record string) (text string) {
	found, _ := parseRecord(record)
	for _, c := range found.Changes {
		text += fmt.Sprintf("%s changes after %s, for %v; ", c.Quota, c.From, c.In)
	}
	return text + "tree " + found.Tree + " "
}
