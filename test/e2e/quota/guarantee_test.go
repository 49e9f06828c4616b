package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
	"usher.dev/usher/e2e/quota/checker"
)

// trial is one run of the guarantee.
type trial struct {
	t       *testing.T
	seed    uint64
	scale   int // of the limits
	clients int
	crowd   *crowd
	random  *rand.Rand
	through *kubetest.Usher
	checker *watched
	limits  map[string]int // by quota, in cores
	every   time.Duration  // a process is killed after one to eight times that
	writes  map[string]int // of records, by their result
}

// TestGuarantee: no admission takes a quota above its limit, and everything that fits is admitted in the end, although
// a replica and the API server are killed, answers are lost, and another webhook refuses pods.
func TestGuarantee(t *testing.T) {
	if os.Getenv("USHER_SOAK") != "" {
		t.Skip("the soak does more of it")
	}
	ctx := cluster.Within(t, 5*time.Minute)
	r := newTrial(ctx, t, "guarantee", 1, 12, 200, time.Now())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.crowd.run(ctx, r.seed, r.clients)
	}()
	r.killBoth(ctx, 50, 110, done)
	r.settle(ctx)
}

// TestSoakQuota is the same test for `make soak`: three replicas, 2,000 pods by 32 clients, and a process is killed
// every few seconds.
func TestSoakQuota(t *testing.T) {
	long := soakTime(t)
	ctx := cluster.Within(t, long+20*time.Minute)
	r := newTrial(ctx, t, "soak", 10, 32, 2000, time.Now().Add(long))
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		r.crowd.run(ctx, r.seed, r.clients)
	}()
	r.chaos(ctx, done)
	took := time.Since(began)
	t.Logf("%d pods were tried in %s: %.0f/s; %d stored, %.0f/s", r.crowd.begun.Load(), took.Round(time.Second),
		float64(r.crowd.begun.Load())/took.Seconds(), r.crowd.counts.Get(isStored), float64(r.crowd.counts.Get(isStored))/took.Seconds())
	r.settle(ctx)
}

// soakTime returns the minimum duration of the chaos: USHER_SOAK=1 is two minutes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("USHER_SOAK")
	if text == "" {
		t.Skip("takes minutes; `make soak` runs it")
	}
	if text == "1" {
		return 2 * time.Minute
	}
	long, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal("USHER_SOAK is 1, or a duration such as 10m: ", err)
	}
	return long
}

// outage returns the length of an outage of the API server: in the soak every third one is longer than the expiry, so
// that reservations have expired when the watches are re-established.
func (r *trial) outage() time.Duration {
	if os.Getenv("USHER_SOAK") != "" && r.random.IntN(3) == 0 {
		return expiry + 3*time.Second
	}
	return 0
}

func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("USHER_SOAK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again with: USHER_SOAK_SEED=%d", seed)
	return seed
}

// newTrial creates a tree of ten quotas. Each level is tighter than the sum of the level below, and about half of the
// pods fit.
func newTrial(ctx context.Context, t *testing.T, namespace string, scale, clients, pods int, until time.Time) *trial {
	t.Helper()
	r := &trial{t: t, seed: seedOf(t), scale: scale, clients: clients, through: usher, checker: watch(ctx, t, namespace),
		limits: map[string]int{}, every: 500 * time.Millisecond, writes: map[string]int{}}
	r.random = rand.New(rand.NewPCG(r.seed, 0))
	r.crowd = &crowd{namespace: namespace, pods: pods, until: until, act: come, enough: r.enough}
	var tree []kubetest.Object
	add := func(name, parent string, cores int, isParent bool) {
		if parent != "" {
			parent = namespace + "-" + parent
		}
		r.limits[namespace+"-"+name] = cores * scale
		tree = append(tree, newQuota(namespace, namespace+"-"+name, parent, strconv.Itoa(cores*scale), isParent))
		if !isParent {
			r.crowd.leaves = append(r.crowd.leaves, namespace+"-"+name)
		}
	}
	add("top", "", 22, true)
	add("east", "top", 13, true)
	add("east-1", "east", 6, false)
	add("east-2", "east", 6, false)
	add("east-3", "east", 3, false)
	add("west", "top", 11, true)
	add("west-1", "west", 8, false)
	add("west-2", "west", 4, false)
	add("west-3", "west", 2, false)
	add("alone", "top", 4, false)
	grow(ctx, t, namespace, tree...)
	withOther(ctx, t, nil)
	front.refused.Store(5)
	front.lost.Store(3)
	t.Cleanup(front.calm)
	return r
}

// killBoth kills a replica and restarts the API server, each after a number of pods, and waits until the clients are done.
func (r *trial) killBoth(ctx context.Context, replica, server int64, done <-chan struct{}) {
	r.after(replica, done)
	r.killReplica(ctx)
	r.after(server, done)
	r.restartAPIServer(ctx)
	<-done
}

// after waits until a number of pods were tried.
func (r *trial) after(pods int64, done <-chan struct{}) {
	for r.crowd.begun.Load() < pods {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// chaos kills a process now and then until the clients are done.
func (r *trial) chaos(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(r.every + time.Duration(r.random.Int64N(int64(7*r.every)))):
		}
		switch n := r.random.IntN(10); {
		case n < 7:
			r.killReplica(ctx)
		case n < 8:
			r.changeLimit(ctx)
		default:
			r.restartAPIServer(ctx)
		}
	}
}

// killReplica kills a replica and starts it again a moment later.
func (r *trial) killReplica(ctx context.Context) {
	one := r.through.Replicas[r.random.IntN(len(r.through.Replicas))]
	r.crowd.counts.Add("SIGKILL of a replica", 1)
	r.addWrites(ctx, one)
	one.Kill()
	pause(ctx, time.Duration(r.random.IntN(1000))*time.Millisecond)
	if err := one.Start(ctx); err != nil {
		r.t.Error(err)
	}
}

// restartAPIServer kills or terminates the API server, and starts it again.
func (r *trial) restartAPIServer(ctx context.Context) {
	if r.random.IntN(2) == 0 {
		r.crowd.counts.Add("SIGKILL of the API server", 1)
		cluster.APIServer().Kill()
	} else {
		r.crowd.counts.Add("SIGTERM of the API server", 1)
		stopping, cancel := context.WithTimeout(ctx, 2*time.Second) // for its watchers it would wait a minute
		defer cancel()
		_ = cluster.StopAPIServer(stopping)
	}
	pause(ctx, r.outage())
	if err := cluster.StartAPIServer(ctx); err != nil {
		r.t.Error(err)
	}
}

// changeLimit changes the limit of the top quota, which applies at once.
func (r *trial) changeLimit(ctx context.Context) {
	r.crowd.counts.Add("another limit of the top", 1)
	_, _ = cluster.Admin().Patch(ctx, quotaPath(r.crowd.namespace, r.crowd.namespace+"-top"), kubetest.MergePatch,
		fmt.Sprintf(`{"spec": {"max": {"cpu": "%d"}}}`, (18+r.random.IntN(6))*r.scale))
}

// settle ends the chaos, waits for the expiry, fills all quotas, and checks the whole history.
func (r *trial) settle(ctx context.Context) *checker.Checker {
	r.t.Helper()
	front.calm()
	if err := r.through.Balancer.Wait(ctx, len(r.through.Replicas)); err != nil {
		r.t.Fatal(err)
	}
	pause(ctx, expiry)
	r.fillAll(ctx)
	told, c := r.checker.check(ctx, r.t), r.checker.Checker
	if r.t.Failed() {
		r.compare(ctx, c)
	}
	r.tell(ctx, told)
	return c
}

// fillAll fills all quotas until none has room. What is reserved for a pod that was never stored, and what a node gives back late, is room only after
// the first attempt to fill it, which may have begun while such a request was still on its way; twice the expiry is more than both take.
func (r *trial) fillAll(ctx context.Context) {
	r.t.Helper()
	within, cancel := context.WithTimeout(ctx, 2*expiry)
	defer cancel()
	round := 0
	if err := kubetest.Eventually(within, func(context.Context) error {
		round++
		for i, leaf := range r.crowd.leaves {
			for _, cpu := range []int{1000, 500, 100} { // all amounts are multiples of the last
				r.fill(ctx, fmt.Sprintf("fill-%d-%d-%d", round, i, cpu), leaf, cpu)
			}
		}
		r.checker.reach(ctx, r.t)
		return r.room()
	}); err != nil {
		r.t.Error(err)
	}
	r.t.Logf("quotas were full after they were filled %d times", round)
}

// room returns an error if a quota has room, which none has whose limit was lowered below what its pods hold.
func (r *trial) room() (err error) {
	for _, leaf := range r.crowd.leaves {
		if room := r.checker.Room(leaf); room > 0 {
			err = errors.Join(err, fmt.Errorf("quota %s has room for %dm cpu, and takes no pod", leaf, room))
		}
	}
	return err
}

// compare prints the stored pods and the state of each replica, to show which of them is wrong.
func (r *trial) compare(ctx context.Context, c *checker.Checker) {
	r.t.Logf("stored:\n%s", strings.Join(c.Pods(), "\n"))
	for _, replica := range r.through.Replicas {
		_, text, err := replica.Get(ctx, "/debug/quotas?pods=true")
		r.t.Logf("%s thinks (%v):\n%s", replica.Name, err, text)
		_, text, _ = replica.Get(ctx, "/metrics")
		for line := range strings.Lines(text) {
			if strings.Contains(line, "podrequests") {
				r.t.Log(line)
			}
		}
		var told []string
		for line := range strings.Lines(replica.Process().Log()) {
			if !strings.Contains(line, `"msg":"review"`) {
				told = append(told, line)
			}
		}
		r.t.Logf("%s told:\n%s", replica.Name, strings.Join(told, ""))
	}
}

// fill creates pods until one is refused.
func (r *trial) fill(ctx context.Context, name, leaf string, cpu int) {
	for n := 0; ; {
		err := createPod(ctx, r.crowd.namespace, fmt.Sprint(name, "-", n), leaf, fmt.Sprintf("%dm", cpu))
		switch result := outcome(err); result {
		case isStored:
			n++
		case fullUp:
			return
		case outOfReach:
			r.crowd.counts.Add("fill: "+result, 1)
			pause(ctx, 200*time.Millisecond)
		default:
			r.t.Fatal(result)
		}
		if ctx.Err() != nil {
			r.t.Fatalf("quota %s is not full yet: %v, %v", leaf, ctx.Err(), err)
		}
	}
}

// tell prints the counts, and fails if too little happened.
func (r *trial) tell(ctx context.Context, told checker.Told) {
	r.t.Logf("history: %d pods added, %d grown or moved, %d ended, %d deleted, %d records written; quotas were filled to %.1f %%",
		told.Added, told.Grown, told.Ended, told.Deleted, told.Records, told.Fullest)
	r.t.Logf("lost answers %d, refused by the other webhook %d%s", front.lostCount.Load(), front.refusedCount.Load(), &r.crowd.counts)
	for _, replica := range r.through.Replicas {
		r.addWrites(ctx, replica)
		if log := replica.Process().Log(); strings.Contains(log, "panic") {
			r.t.Errorf("%s: the log tells of a panic:\n%s", replica.Name, log)
		}
	}
	r.t.Logf("writes of records, until just before each kill: %v", r.writes)
	for what, n := range r.crowd.counts.All() {
		if strings.Contains(what, "unexpected") && n > 0 && !strings.Contains(what, "NotFound") {
			r.t.Errorf("%d times %s", n, what)
		}
	}
	if !r.crowd.enough() {
		r.t.Error("too little happened: this run says nothing")
	}
}

// enough reports whether enough pods were stored, refused and deleted for a meaningful test.
func (r *trial) enough() bool {
	n := r.crowd.pods
	return r.crowd.counts.Get(isStored) >= n/5 && r.crowd.counts.Get(fullUp) >= n/20 && r.checker.Told().Deleted >= n/20
}

// addWrites adds the writes of a replica since its start.
func (r *trial) addWrites(ctx context.Context, replica *kubetest.Replica) {
	for result, n := range writesOf(ctx, replica) {
		r.writes[result] += n
	}
}

// writesOf reads the metric usher_quota_writes_total; the result is empty for a replica that does not answer.
func writesOf(ctx context.Context, replica *kubetest.Replica) map[string]int {
	writes := map[string]int{}
	for name, n := range countsOf(ctx, replica) {
		if result, ok := strings.CutPrefix(name, `writes{result="`); ok {
			writes[strings.TrimSuffix(result, `"}`)] = n
		}
	}
	return writes
}

// countsOf reads the counters of the ledger, with their labels and without usher_quota_ and _total.
func countsOf(ctx context.Context, replica *kubetest.Replica) map[string]int {
	counts := map[string]int{}
	_, metrics, _ := replica.Get(ctx, "/metrics")
	for line := range strings.Lines(metrics) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ok := strings.CutPrefix(name, "usher_quota_")
		kind, labels, _ := strings.Cut(rest, "{")
		kind, total := strings.CutSuffix(kind, "_total")
		if value, err := strconv.ParseFloat(n, 64); ok && total && err == nil {
			if labels != "" {
				kind += "{" + labels
			}
			counts[kind] = int(value)
		}
	}
	return counts
}
