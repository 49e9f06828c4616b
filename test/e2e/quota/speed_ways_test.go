package quota

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/e2e/kubetest"
)

// warmUp is the beginning of a measure, whose rate is reported by itself: the replicas have just been started, and nobody has written
// to the record yet or holds a grant.
const warmUp = 2 * time.Second

// way is one of those that TestSoakSpeed compares, with what it took.
type way struct {
	name    string
	through *kubetest.Usher
	first   int    // so many of its replicas get reviews
	in      []home // of the pods

	instead *func(context.Context, *admissionv1.AdmissionRequest) error
	before  func(context.Context, *testing.T)                // is called before each measure; may be nil
	after   func(context.Context, *testing.T, *clients)      // is called after each measure; may be nil
	counts  func(context.Context, *testing.T) map[string]int // if it is not usher's ledger that counts

	results []result // by round
}

// result is one measure of a way.
type result struct {
	early, rate float64 // pods per second: at the beginning, and after it
	timedOut    int64   // requests for which a webhook did not answer in time
	used        sample  // until the last request has ended

	creation, lost, review time.Duration // the longest: see clients, and frontDoor.slowest
}

// sample holds what has been counted and used at some time, or between two of them.
type sample struct {
	pods, refusals int64
	cpu            map[string]float64 // in µs, by program
	allocated      float64            // bytes, by the API server
	counts         map[string]int
}

// compare measures some ways in turn, and adds them to the table, beside the first of them. In every other round they are in
// reverse order.
func (s *speed) compare(ctx context.Context, t *testing.T, size crowdSize, records []home, ways []*way) {
	t.Helper()
	for round := range s.rounds {
		turn := slices.Clone(ways)
		if round%2 == 1 {
			slices.Reverse(turn)
		}
		for _, w := range turn {
			s.measure(ctx, t, w, size, records)
		}
	}
	for _, w := range ways {
		row := s.table.add(w, ways[0], size)
		t.Logf("%s\n%s", row, w.detail())
	}
}

// measure creates pods in one way with new replicas, and deletes them.
func (s *speed) measure(ctx context.Context, t *testing.T, w *way, size crowdSize, records []home) {
	t.Helper()
	for _, u := range s.all() {
		stop(u)
	}
	for _, top := range records {
		forget(ctx, t, top)
	}
	run(ctx, t, w.through)
	stored(t, front.leadToFirst(w.through, w.first))
	front.instead.Store(w.instead)
	if w.before != nil {
		w.before(ctx, t)
	}
	c := newClients(size, w.in)
	w.results = append(w.results, w.observe(ctx, t, c, s.period))
	if n := c.failed.Load(); n > 0 {
		t.Errorf("%s, %d clients: %d requests failed, such as: %v", w.name, size.clients, n, c.failure.Load())
	}
	if w.after != nil {
		w.after(ctx, t, c)
	}
	together(t, len(w.in), func(i int) error {
		return kubetest.Eventually(ctx, func(ctx context.Context) error { // the request may be too long for the API server
			_, err := cluster.Admin().Delete(ctx, podPath(w.in[i].namespace, ""))
			return err
		})
	})
}

// forget removes the record of a top quota while no replica runs: the next replicas would count what it reserves for pods that
// they do not find, until it expires.
func forget(ctx context.Context, t *testing.T, top home) {
	t.Helper()
	_, err := ledgerUser().Patch(ctx, quotaPath(top.namespace, top.quota), kubetest.MergePatch,
		kubetest.Object{"metadata": kubetest.Object{"annotations": kubetest.Object{recordOf: nil}}})
	stored(t, err)
}

// observe lets clients work for some time. What they used is read after the last request, and before the first unless the quota has to be
// full: in between, as many pods as there are clients have cost something, but are not stored yet.
func (w *way) observe(ctx context.Context, t *testing.T, c *clients, period time.Duration) (r result) {
	t.Helper()
	before := w.sample(ctx, t, c)
	began := time.Now()
	done := c.begin(ctx)
	if c.keep > 0 {
		c.awaitFull(ctx)
		before = w.sample(ctx, t, c) // from here on pods are replaced
	}
	pause(ctx, warmUp)
	front.slowest.reset()
	from, early := time.Now(), c.stored.Load()
	c.counting.Store(true)
	pause(ctx, period)
	to, late := time.Now(), c.stored.Load()
	c.over.Store(true)
	<-done
	r.early = float64(early) / from.Sub(began).Seconds()
	r.rate = float64(late-early) / to.Sub(from).Seconds()
	r.used.plus(w.sample(ctx, t, c), 1)
	r.used.plus(before, -1)
	r.timedOut = c.timedOut.Load()
	r.creation, r.lost, r.review = c.creation.get(), c.lost.get(), front.slowest.get()
	return r
}

// sample reads what was counted and used so far. The API server's CPU time depends on other load, and on how many garbage collections
// fall into a measure; the bytes that it allocates do not.
func (w *way) sample(ctx context.Context, t *testing.T, c *clients) sample {
	t.Helper()
	s := sample{pods: c.stored.Load(), refusals: c.refusals.Load(), cpu: map[string]float64{}, counts: map[string]int{}}
	use := func(name string, p *kubetest.Process) {
		used, err := kubetest.CPUTime(p.Pid())
		stored(t, err)
		s.cpu[name] += used
	}
	use(apiServer, cluster.APIServer())
	use("etcd", cluster.Etcd())
	for _, r := range w.through.Replicas {
		use("usher", r.Process())
	}
	s.allocated = allocated(ctx, t)
	if w.counts != nil {
		s.counts = w.counts(ctx, t)
		return s
	}
	for _, r := range w.through.Replicas {
		counts := countsOf(ctx, r)
		for n := 1; len(counts) == 0 && n < 10; n++ {
			counts = countsOf(ctx, r)
		}
		if len(counts) == 0 {
			t.Errorf("%s does not show what it counted: the writes of %q are wrong", r.Name, w.name)
		}
		for name, n := range counts {
			s.counts[name] += n
		}
	}
	return s
}

// allocated returns the number of bytes that the API server has allocated so far.
func allocated(ctx context.Context, t *testing.T) (bytes float64) {
	t.Helper()
	profile, err := cluster.Admin().Text(ctx, "/debug/pprof/heap?debug=1")
	stored(t, err)
	_, after, _ := strings.Cut(profile, "# TotalAlloc = ")
	number, _, _ := strings.Cut(after, "\n")
	bytes, err = strconv.ParseFloat(number, 64)
	stored(t, err)
	return bytes
}

// noLedger counts nothing: usher has no ledger.
func noLedger(context.Context, *testing.T) map[string]int { return nil }

const (
	apiServer = "API server"
	written   = `writes{result="written"}` // as in countsOf
	conflict  = `writes{result="conflict"}`
)

// plus adds another sample, or subtracts it.
func (s *sample) plus(other sample, sign int) {
	if s.cpu == nil {
		s.cpu, s.counts = map[string]float64{}, map[string]int{}
	}
	s.pods += int64(sign) * other.pods
	s.refusals += int64(sign) * other.refusals
	s.allocated += float64(sign) * other.allocated
	for name, used := range other.cpu {
		s.cpu[name] += float64(sign) * used
	}
	for name, n := range other.counts {
		s.counts[name] += sign * n
	}
}

// another starts an usher that evaluates quotas if gates say so. It gets no reviews yet.
func another(ctx context.Context, t *testing.T, name string, replicas int, gates string) *kubetest.Usher {
	t.Helper()
	flags := []string{"--cluster=api", "--kubeconfig=" + cluster.Dir() + "/" + usherUser + ".kubeconfig", "--quota-reservation-expiry=" + expiry.String()}
	if gates != "" {
		flags = append(flags, "--feature-gates="+gates)
	}
	u, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: name, Replicas: replicas, Flags: flags})
	stored(t, err)
	t.Cleanup(u.Stop)
	return u
}

// run starts the replicas of an usher that do not run, and waits until they are ready.
func run(ctx context.Context, t *testing.T, u *kubetest.Usher) {
	t.Helper()
	for _, r := range u.Replicas {
		if !r.Process().Running() {
			stored(t, r.Start(ctx))
		}
	}
	eventually(ctx, t, func(ctx context.Context) error {
		for i, r := range u.Replicas {
			if err := r.Ready(ctx); err != nil {
				return err
			}
			if !u.Balancer.IsReady(i) {
				return fmt.Errorf("%s gets no reviews yet", r.Name)
			}
		}
		return nil
	})
}

// stop ends the replicas of an usher.
func stop(u *kubetest.Usher) {
	for _, r := range u.Replicas {
		if r.Process().Running() {
			r.Kill()
		}
	}
}
