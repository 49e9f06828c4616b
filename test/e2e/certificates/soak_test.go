package certificates

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// still is how long the API server may take to show a change: as long as a new CA waits before it signs.
const still = time.Second

// TestSoakCertificates: somebody damages, empties, restores and swaps the Secrets all the time, and no creation fails. Only
// while the API server stands still, creations may fail: it then has not read the caBundles.
func TestSoakCertificates(t *testing.T) {
	long := soakTime(t)
	s := &soak{t: t, rnd: kubetest.Random(t), seen: map[string]bool{}}
	ctx, stop := context.WithCancel(cluster.Within(t, long+2*time.Minute))
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() { s.each(ctx, "creations", createPod) })
	}
	for i := range usher.Replicas {
		running.Go(func() {
			s.each(ctx, "connections", func(ctx context.Context) (bool, error) { return connect(ctx, i) })
		})
	}
	running.Go(func() { s.watch(ctx) })
	for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil; {
		s.attack(ctx)
		time.Sleep(200*time.Millisecond + time.Duration(s.rnd.Int64N(int64(8*time.Second))))
	}
	healthy(ctx, t)
	stop()
	running.Wait()
	t.Log(s.counts.String())
	if s.counts.Get("creations: good") < 100 || s.counts.Get("CAs") < 3 {
		t.Error("too little happened: this run says nothing")
	}
}

// soakTime returns the length of the run: USHER_SOAK=1 is three minutes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("USHER_SOAK")
	switch text {
	case "":
		t.Skip("takes minutes; `make soak` runs it")
	case "1":
		return 3 * time.Minute
	}
	long, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal("USHER_SOAK is 1, or a duration such as 10m: ", err)
	}
	return long
}

type soak struct {
	t      *testing.T
	rnd    *rand.Rand
	counts kubetest.Counts

	mu     sync.Mutex
	stood  []period // when the API server stood still
	acts   []string // with times
	copies []copies
	seen   map[string]bool // certificates and CAs
}

type period struct{ from, to time.Time }

// copies are the data of both Secrets at one time.
type copies struct{ ca, leaf any }

// each repeats a request. A failure is a fault of usher, unless the API server stood still while it ran, or just before; this may be
// noticed a little later.
func (s *soak) each(ctx context.Context, what string, request func(context.Context) (bool, error)) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		began := time.Now()
		answered, err := request(ctx)
		switch {
		case ctx.Err() != nil:
		case !answered:
			s.counts.Add(what+": no answer", 1)
		case err == nil:
			s.counts.Add(what+": good", 1)
		default:
			failed := time.Now()
			time.Sleep(10 * still)
			s.judge(what, began, failed, err)
		}
	}
}

func (s *soak) judge(what string, began, failed time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	overlaps := func(p period) bool { return p.from.Before(failed) && p.to.After(began.Add(-still)) }
	if slices.ContainsFunc(s.stood, overlaps) {
		s.counts.Add(what+": failed while the API server stood still", 1)
		s.t.Logf("%s %s, while the API server stood still: %v", failed.Format(time.StampMilli), what, err)
		return
	}
	s.counts.Add(what+": failed", 1)
	s.t.Errorf("%s %s: %v\nbefore:\n%s", failed.Format(time.StampMilli), what, err, strings.Join(s.acts[max(0, len(s.acts)-8):], "\n"))
}

// watch looks how long the API server takes to show a change, without any webhook, and keeps copies of the Secrets.
func (s *soak) watch(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		s.look(ctx, fmt.Sprint(n))
		took := time.Since(began)
		s.mu.Lock()
		if took > still && ctx.Err() == nil {
			s.stood = append(s.stood, period{began, time.Now()})
			s.counts.Add("times that the API server stood still", 1)
		}
		s.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
}

// look writes something, waits until a list that comes from memory has it, and reads the Secrets.
func (s *soak) look(ctx context.Context, value string) {
	const path = "/api/v1/namespaces/load/configmaps"
	_, _ = cluster.Admin().Patch(ctx, path+"/probe?fieldManager=probe&force=true", kubetest.ApplyPatch,
		kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubetest.Object{"name": "probe"}, "data": kubetest.Object{"value": value}})
	for ctx.Err() == nil {
		list, err := cluster.Admin().Get(ctx, path+"?resourceVersion=0&fieldSelector=metadata.name=probe")
		if err == nil && len(list.List("items")) == 1 && list.List("items")[0].String("data", "value") == value {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	ca, err1 := cluster.Admin().Get(ctx, secrets+"usher-ca")
	leaf, err2 := cluster.Admin().Get(ctx, secrets+"usher-tls")
	if err1 != nil || err2 != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies = append(s.copies, copies{ca["data"], leaf["data"]})
	s.copies = s.copies[max(0, len(s.copies)-600):]
	s.count("CAs", ca.String("data", "ca.crt"))
	s.count("certificates", leaf.String("data", "tls.crt"))
}

// count counts what was not seen before.
func (s *soak) count(what, text string) {
	for _, serial := range serials(text) {
		if !s.seen[serial] {
			s.seen[serial] = true
			s.counts.Add(what, 1)
		}
	}
}
