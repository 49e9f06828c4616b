package ledger

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/test/seed"
)

var (
	simSchedules = flag.Int("ledger.schedules", seed.Rounds(400), "how many random schedules the model test runs, at least")
	simSeed      = flag.Uint64("ledger.seed", 0, "the one seed that the model test runs, as often as it has schedules")
	simHistory   = flag.Int("ledger.history", 150, "how many lines of a failed schedule's history are shown")
)

// The guarantee of the package, tested against random schedules of a simulated cluster: pods are created, moved,
// resized and deleted; nodes carry out resizes late, or never, or refuse them before their first report; replicas are killed; calls and answers are lost; watches lag; limits change. A failing schedule
// prints its seed and its history. Goroutines may be scheduled differently in another run, so a seed may need several
// runs to fail.
func TestModel(t *testing.T) {
	first := *simSeed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	t.Logf("%d schedules from seed %d", *simSchedules, first)
	var taken atomic.Int64
	var mu sync.Mutex
	var total simStats
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		n := *simSchedules
		return n < 400 || total.Enacted > 0 && total.Infeasible > 0 && total.Early > 0 && total.Withdrawn > 0 &&
			total.Recreated >= n/20 && total.Spent >= n && total.Partitions > 0 && total.Freezes >= n/4
	}
	t.Cleanup(func() {
		t.Logf("%+v", total)
		if !enough() {
			t.Error("the schedules show too little")
		}
	})
	for i := range runtime.GOMAXPROCS(0) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for n := taken.Add(1); n <= int64(*simSchedules) || n <= 4*int64(*simSchedules) && !enough(); n = taken.Add(1) {
				seed := first
				if *simSeed == 0 {
					seed += uint64(n)
				}
				stats := runSchedule(t, seed) // does not return if the schedule fails
				mu.Lock()
				total.add(stats)
				mu.Unlock()
			}
		})
	}
}

func (s *simStats) add(o simStats) {
	s.Schedules++
	s.Granted, s.Refused, s.NotReady = s.Granted+o.Granted, s.Refused+o.Refused, s.NotReady+o.NotReady
	s.Stored, s.Updated, s.Conflicts = s.Stored+o.Stored, s.Updated+o.Updated, s.Conflicts+o.Conflicts
	s.Writes, s.Lost, s.Late = s.Writes+o.Writes, s.Lost+o.Lost, s.Late+o.Late
	s.Kills, s.Outages, s.Relists, s.Reroots = s.Kills+o.Kills, s.Outages+o.Outages, s.Relists+o.Relists, s.Reroots+o.Reroots
	s.Enacted, s.Infeasible, s.Early, s.Withdrawn = s.Enacted+o.Enacted, s.Infeasible+o.Infeasible, s.Early+o.Early, s.Withdrawn+o.Withdrawn
	s.Announced, s.Spent, s.Partitions = s.Announced+o.Announced, s.Spent+o.Spent, s.Partitions+o.Partitions
	s.Freezes, s.Recreated = s.Freezes+o.Freezes, s.Recreated+o.Recreated
}

// world is a cluster with replicas and clients.
type world struct {
	c        *cluster
	clients  sync.WaitGroup
	refusals float64 // how many admitted pods are never stored
	reroots  bool
	sweeps   bool
	halts    bool // replicas freeze
	roomy    bool // the quotas have room for many pods
	lags     []time.Duration
	faults   float64

	mu            sync.Mutex
	replicas      []*replica
	started       int
	uids          int
	names, leaves []string
	tops          []string
	labels        []string // the leaves that pods belong to by their label alone; they are deleted and created again
	relabels      bool     // there are such leaves
}

func runSchedule(t *testing.T, seed uint64) (stats simStats) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.chaos(30 + w.c.n(60))
		w.clients.Wait()
		if !w.c.over() {
			w.calm()
		}
		for _, r := range w.replicas {
			w.c.count(func(s *simStats) { s.Spent += int(r.ledger.Stats().Granted) })
			r.kill()
		}
		w.c.count(func(s *simStats) { stats = *s })
	})
	return stats
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{c: newCluster(t, seed)}
	c := w.c
	w.refusals, w.reroots, w.sweeps = []float64{0, 0.1, 0.4}[c.n(3)], c.chance(0.2), c.chance(0.5)
	w.roomy, w.halts, w.relabels = c.chance(0.5), c.chance(0.5), c.chance(0.2)
	w.faults = []float64{0, 0.02, 0.2}[c.n(3)]
	for range 1 + c.n(3) {
		w.growQuotas(fmt.Sprintf("q%d", len(w.tops)), api.RootQuota, c.n(4))
	}
	time.Sleep(2 * simLag) // so that no replica begins before there are quotas
	for range 1 + c.n(4) {
		w.lags = append(w.lags, []time.Duration{20 * time.Millisecond, time.Second, simLag}[c.n(3)])
		w.replicas = append(w.replicas, nil)
	}
	for i := range w.replicas {
		w.replicas[i] = w.start()
	}
	return w
}

// growQuotas makes a quota and, below it, what is to be there.
func (w *world) growQuotas(name, parent string, depth int) {
	c := w.c
	q := &quota.Quota{Namespace: quotaNamespace, Name: name, Parent: parent, IsParent: depth > 0, Max: corev1.ResourceList{}}
	most := int64(3 + c.n(6) + 3*depth)
	if w.roomy {
		most *= 15
	}
	q.Max[corev1.ResourceCPU] = *resource.NewQuantity(most, resource.DecimalSI)
	if c.chance(0.5) {
		q.Max[corev1.ResourceMemory] = *resource.NewQuantity(most<<30, resource.BinarySI)
	}
	if c.chance(0.5) {
		q.Max["whole-gpus"] = *resource.NewQuantity(1+most/3, resource.DecimalSI)
	}
	if c.chance(0.2) {
		q.Admission = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity((most+2)<<30, resource.BinarySI)}
	}
	if c.chance(0.1) && parent != api.RootQuota {
		q.Max = nil
	}
	if w.names = append(w.names, name); parent == api.RootQuota {
		w.tops = append(w.tops, name)
	}
	if depth == 0 {
		w.leaves = append(w.leaves, name)
		if w.relabels && c.chance(0.6) {
			w.labels = append(w.labels, name)
		} else if c.chance(0.3) {
			q.Namespace = name // found by the namespace's name
		} else {
			q.Namespaces = []string{name}
		}
	}
	c.mu.Lock()
	c.putQuota(name, q)
	c.mu.Unlock()
	for i := 0; depth > 0 && i < 1+c.n(2); i++ {
		w.growQuotas(fmt.Sprintf("%s-%d", name, i), name, depth-1)
	}
}

// start makes a replica. The caller holds mu, or is alone.
func (w *world) start() *replica {
	w.started++
	lag := [2]time.Duration{w.lags[w.c.n(len(w.lags))], w.lags[w.c.n(len(w.lags))]}
	return newReplica(w.c, fmt.Sprintf("r%d", w.started), lag, w.faults,
		kind{halts: w.halts, sweeps: w.sweeps})
}

// chaos makes many things happen at random times, sometimes many at once.
func (w *world) chaos(events int) {
	pace := []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}[w.c.n(3)]
	for range events {
		if w.c.over() {
			return
		}
		if w.c.chance(0.7) {
			time.Sleep(w.c.upTo(pace))
		}
		w.go_(w.event())
	}
}

func (w *world) event() func() {
	if w.reroots && w.c.chance(0.1) {
		return w.reroot
	}
	if w.reroots && w.c.chance(0.1) {
		return w.borrow
	}
	if len(w.labels) > 0 && w.c.chance(0.1) {
		return w.recreate
	}
	switch x := w.c.n(100); {
	case x < 10 && w.roomy:
		return w.burst
	case x < 45:
		return w.create
	case x < 70:
		return w.update
	case x < 85:
		return w.change
	case x < 88:
		return w.dryRun
	case x < 91:
		return w.limit
	case x < 93:
		return w.touch
	case x < 94:
		return w.partition
	case x < 95:
		return w.freeze
	case x < 97:
		return w.restart
	case x < 98:
		return w.outage
	default:
		return w.reroot
	}
}

func (w *world) go_(f func()) { w.clients.Go(f) }

func (w *world) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids++
	return w.uids
}

func (w *world) anyReplica() *replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[w.c.n(len(w.replicas))]
}

func (w *world) anyLeaf() string { return w.leaves[w.c.n(len(w.leaves))] }

// newPod returns a pod with one of a few names in the namespace of a leaf, or with a name of its own.
func (w *world) newPod() *quota.Pod {
	p := &quota.Pod{Namespace: w.anyLeaf(), Name: fmt.Sprintf("p%d", w.c.n(6)), Requests: w.amounts()}
	if w.c.chance(0.4) {
		p.Name = fmt.Sprintf("p-%d", w.next())
	}
	if w.c.chance(0.2) {
		p.Label, p.Labelled = w.anyLeaf(), true
	} else if slices.Contains(w.labels, p.Namespace) {
		p.Label, p.Labelled = p.Namespace, true
	}
	if w.c.chance(0.3) {
		p.Special = &quota.Special{Devices: corev1.ResourceList{"whole-gpus": *resource.NewQuantity(int64(1+w.c.n(2)), resource.DecimalSI)}}
	}
	return p
}

func (w *world) amounts() corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(1+w.c.n(8))*500, resource.DecimalSI)}
	if w.c.chance(0.5) {
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(1+w.c.n(3))<<30, resource.BinarySI)
	}
	return list
}

func (w *world) anyPod() (*quota.Pod, int) {
	w.c.mu.Lock()
	var keys []string
	for key := range w.c.pods {
		keys = append(keys, key)
	}
	w.c.mu.Unlock()
	if len(keys) == 0 {
		return nil, 0
	}
	return w.pod(keys[w.c.n(len(keys))])
}

// node returns what the node of a pod has reported.
func (w *world) node(p *quota.Pod) nodeState {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if one := w.c.pods[podKey(p)]; one != nil && one.pod.UID == p.UID {
		return one.node
	}
	return nodeState{}
}

func (w *world) pod(key string) (*quota.Pod, int) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if one := w.c.pods[key]; one != nil {
		return one.pod, one.version
	}
	return nil, 0
}

// calm checks the state after all activity has ended: after the expiry, everything that is not used is available again.
func (w *world) calm() {
	w.c.say("calm")
	w.c.calm.Store(true)
	w.speakAll()
	time.Sleep(simExpiry + simLag + simOutage + time.Second)
	w.dropGrants()
	w.judgeAll()
	w.leaveSome()
	w.fill()
	if w.sweeps {
		time.Sleep(simExpiry*2 + simLag)
		w.nothingHeld()
	}
}

// dropGrants lets the replicas drop the grants of dead ones: they must find them, read the version of the pods when their time is
// over, and observe the pods up to that.
func (w *world) dropGrants() {
	for range 3 {
		if !w.holdsGrants() {
			return
		}
		for _, r := range w.replicas {
			r.ledger.sweep(r.ctx)
		}
		time.Sleep(simExpiry + simLag)
	}
}

func (w *world) holdsGrants() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, one := range w.c.quotas {
		found, _ := parseRecord(one.Record)
		if slices.ContainsFunc(found.Pods, func(r reservation) bool { return r.Grant }) {
			return true
		}
	}
	return false
}

// judgeAll calls Judge, which must give correct answers and leave nothing behind.
func (w *world) judgeAll() {
	w.c.mu.Lock()
	writes := w.c.stats.Writes
	w.c.mu.Unlock()
	for range 5 {
		pod, r := w.newPod(), w.anyReplica()
		pod.Name, pod.UID = "dry", "dry"
		v, err := r.ledger.Judge(context.Background(), ask(pod))
		w.right(r, request{pod: pod}, v, err)
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.stats.Writes != writes && !w.sweeps {
		w.c.fail("a dry run writes")
	}
}

// leaveSome simulates callers that leave before they are answered. The replica soon withdraws what it reserved for
// them.
func (w *world) leaveSome() {
	r := w.anyReplica()
	for range 6 {
		pod := w.newPod()
		pod.Name, pod.UID = fmt.Sprintf("leave-%d", w.next()), "leave"
		timeout := 1 + w.c.upTo(40*time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		if w.c.chance(0.5) { // its deadline is later, so that the work for it goes on
			ctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(timeout, cancel)
		}
		v, err := r.ledger.Reserve(ctx, ask(pod))
		cancel()
		w.c.mu.Lock()
		if w.c.note("%s %s: %s %v", r.name, request{pod: pod}, why(v), err); err == nil && fits(v) {
			w.c.putPod(pod, nil)
		}
		w.c.mu.Unlock()
		time.Sleep(simLag)
	}
	r.ledger.sweep(context.Background())
	time.Sleep(simLag)
}

// fill reserves until nothing fits any more. Every answer must match the arithmetic.
func (w *world) fill() {
	r := w.anyReplica()
	for i := range 12 {
		pod := w.newPod()
		pod.Name, pod.UID = fmt.Sprintf("fill-%d", i), "fill"
		v, err := w.insist(r, pod)
		if !w.right(r, request{pod: pod}, v, err) {
			return
		}
		if fits(v) {
			w.c.mu.Lock()
			w.c.note("store %s", podKey(pod))
			w.c.putPod(pod, nil)
			w.c.mu.Unlock()
		}
		time.Sleep(w.c.upTo(simLag))
		if i%4 == 3 {
			r = w.anyReplica()
		}
	}
}

// insist retries until there is an answer: the watch may lag.
func (w *world) insist(r *replica, pod *quota.Pod) (v quota.PodVerdict, err error) {
	for range 2 * int(simLag/maxBehind) {
		if v, err = r.ledger.Reserve(context.Background(), ask(pod)); err == nil {
			return v, nil
		}
	}
	return v, err
}

// right reports whether an answer matches the store.
func (w *world) right(r *replica, req request, v quota.PodVerdict, err error) bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.note("%s %s: %s %v", r.name, req, why(v), err)
	if right := w.c.fits(req.pod); err != nil || right != fits(v) {
		w.c.fail("%s %s fits: %v, but the answer is %s %v", r.name, req, right, why(v), err)
	}
	return !w.c.failed
}

// nothingHeld checks that the replicas have removed all reservations.
func (w *world) nothingHeld() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for name, one := range w.c.quotas {
		found, err := parseRecord(one.Record)
		if err != nil || len(found.Pods) > 0 {
			w.c.fail("the record of %s is not tidied up: %s %v", name, one.Record, err)
		}
	}
}
