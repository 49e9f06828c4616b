package rotation

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"usher.dev/usher/certs"
	"usher.dev/usher/test/seed"
)

const (
	caLife, leafLife = time.Hour, 20 * time.Minute
	lag              = 25 * time.Second // the longest time until an API server uses a configuration that was written
)

var (
	caPath, tlsPath = secretPath("usher", CASecret), secretPath("usher", TLSSecret)
	mutating        = configurationPath(Collections[0])
	validating      = configurationPath(Collections[1])
)

// world is a cluster: an API server, two more that hear of configurations late, and replicas. The seed alone decides what happens
// in it: each actor draws from a source of its own, and the times between acts are random to the nanosecond, so that the order
// of acts does not depend on the scheduler.
type world struct {
	*server
	t        *testing.T
	seed     uint64
	sources  uint64
	rnd      *rand.Rand // of the test
	replicas []*replica
	used     [2]map[string]map[string][]byte // by API server, configuration and entry: the caBundles in use

	usedVersion [2]map[string]int

	excused  time.Time         // until then, entries may be damaged
	mayEnd   bool              // a leaf, if no CA has been left alone for so long that it may sign
	verified map[string]period // by leaf and caBundle
	checked  map[asked]period
	log      []string
	trace    hash.Hash // of every request and every line of the log
}

type replica struct {
	keeper *Keeper
	stop   func()
}

func newWorld(t *testing.T, seed uint64, replicas int) *world {
	w := &world{server: newServer(), t: t, seed: seed, replicas: make([]*replica, replicas), verified: map[string]period{}, checked: map[asked]period{}, trace: sha256.New()}
	w.rnd = w.source()
	w.heard = func(client, method, path string, code int) {
		fmt.Fprintln(w.trace, w.now().UnixNano(), client, method, path, code)
	}
	w.ahead, w.slow = 3*365*day+7*time.Minute, 400*time.Millisecond // the replicas' clocks are wrong by years
	var sources [len(w.used)]*rand.Rand
	for i := range w.used {
		w.used[i], w.usedVersion[i], sources[i] = map[string]map[string][]byte{}, map[string]int{}, w.source()
	}
	w.changed = func(path string) {
		if path != mutating && path != validating {
			return
		}
		bundles := w.bundles(path)
		for i := range w.used {
			version := w.version[path]
			time.AfterFunc(time.Duration(sources[i].Float64()*float64(lag)), func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				if version > w.usedVersion[i][path] {
					w.used[i][path], w.usedVersion[i][path] = bundles, version
				}
			})
		}
	}
	return w
}

// source returns a new source of random numbers, for somebody who acts. Only the test calls it.
func (w *world) source() *rand.Rand {
	w.sources++
	return rand.New(rand.NewPCG(w.seed, w.sources))
}

// link returns the way of a new client.
func (w *world) link(name string) *link { return &link{w.server, name, w.source()} }

func (w *world) now() time.Time { return time.Now().Add(w.ahead) }

func (w *world) say(format string, args ...any) {
	line := w.now().Format("15:04:05 ") + fmt.Sprintf(format, args...)
	w.log = append(w.log, line)
	fmt.Fprintln(w.trace, line)
}

func (w *world) start(i int) { w.startFor(i, plan.Names) }

// startFor starts a replica for the names of a Service.
func (w *world) startFor(i int, names []string) {
	ctx, stop := context.WithCancel(context.Background())
	tell := func(text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.say("%d: %s", i, text)
	}
	link := w.link(fmt.Sprint(i))
	k := NewKeeper(link.client(), Target{Namespace: "usher", Service: "usher"}, names, caLife, leafLife, Log{tell, tell})
	k.random = func(n time.Duration) time.Duration { return time.Duration(link.rnd.Int64N(int64(n))) }
	w.replicas[i] = &replica{stop: stop, keeper: k}
	go k.Run(ctx)
}

// run lets the world run for a while, and checks at every moment that what is served is trusted by every API server.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		w.check()
	}
}

func (w *world) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.failWithLog()
	defer w.mu.Unlock()
	if w.now().Before(w.excused) {
		return
	}
	for i, r := range w.replicas {
		if r == nil || r.keeper.Ready() != nil {
			continue
		}
		leaf := r.keeper.current.Load().serving.Leaf
		if w.mayEnd && w.now().After(leaf.NotAfter) {
			continue
		}
		for j := range w.used {
			for path, entries := range w.used[j] {
				key := asked{leaf, j, path, w.usedVersion[j][path]}
				if known, found := w.checked[key]; found && known.contains(w.now()) {
					continue
				}
				all := period{leaf.NotBefore, leaf.NotAfter}
				for name, bundle := range entries {
					one := w.verify(leaf, bundle)
					if !one.contains(w.now()) {
						w.t.Errorf("%s: replica %d serves %x, which API server %d does not trust for %s of %s", w.now().Format("15:04:05"), i, leaf.SerialNumber, j, name, path)
					}
					all = all.and(one)
				}
				w.checked[key] = all
			}
		}
	}
}

// asked is a leaf, and the configuration that an API server uses.
type asked struct {
	leaf    *x509.Certificate
	server  int
	path    string
	version int
}

// period is a time for which a leaf verifies.
type period struct{ from, to time.Time }

func (p period) contains(now time.Time) bool { return !now.Before(p.from) && !now.After(p.to) }

func (p period) and(other period) period {
	if other.to.Before(p.to) {
		p.to = other.to
	}
	return period{later(p.from, other.from), p.to}
}

// verify returns for how long a leaf verifies under a caBundle, which is slow: it is remembered.
func (w *world) verify(leaf *x509.Certificate, bundle []byte) period {
	key := string(leaf.Raw) + string(bundle)
	if known := w.verified[key]; known.contains(w.now()) {
		return known
	}
	var all certList
	for ca := range certificates(bundle) {
		if all = append(all, ca); sameKey(ca, leaf) {
			all = all[len(all)-1:]
			break
		}
	}
	roots := x509.NewCertPool()
	for _, ca := range all {
		roots.AddCert(ca)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: w.now()})
	if err != nil {
		return period{}
	}
	one := period{leaf.NotBefore, leaf.NotAfter}
	for _, ca := range chains[0][1:] {
		one = one.and(period{ca.NotBefore, ca.NotAfter})
	}
	w.verified[key] = one
	return one
}

// settled checks that all replicas are ready, and that they serve one leaf: now or, if one was renewed just now, within a minute.
func (w *world) settled() {
	w.t.Helper()
	defer w.failWithLog()
	for i, r := range w.replicas {
		if err := r.keeper.Ready(); err != nil {
			w.t.Errorf("replica %d is not ready: %v", i, err)
		}
	}
	for end := time.Now().Add(time.Minute); len(w.served()) > 1 && time.Now().Before(end); {
		w.run(time.Second)
	}
	if serials := w.served(); len(serials) > 1 {
		w.t.Errorf("for a minute, the replicas do not serve one certificate; now %v", slices.Collect(maps.Keys(serials)))
	}
}

// served returns the serial numbers of the leaves that the replicas serve.
func (w *world) served() map[string]bool {
	serials := map[string]bool{}
	for _, r := range w.replicas {
		serials[Serial(r.keeper.current.Load().leaf.Cert)] = true
	}
	return serials
}

// failWithLog ends a test that has failed.
func (w *world) failWithLog() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.Failed() {
		w.t.Fatalf("the end of the log:\n%s", strings.Join(w.log[max(0, len(w.log)-40):], "\n"))
	}
}

// inBubble runs a test in simulated time, and stops all replicas in the end.
func inBubble(t *testing.T, replicas int, test func(*world)) {
	trace := simulate(t, seed.Random(t).Uint64(), replicas, test)
	t.Logf("the trace of %d replicas: %s", replicas, trace)
}

// simulate is inBubble with a given seed. It returns a hash of all that happened.
func simulate(t *testing.T, seed uint64, replicas int, test func(*world)) (trace string) {
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, replicas)
		defer func() {
			for _, r := range w.replicas {
				if r != nil {
					r.stop()
				}
			}
			time.Sleep(time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			trace = fmt.Sprintf("%x", w.trace.Sum(nil))
		}()
		test(w)
	})
	return trace
}

// TestTheSeedRepeatsTheSimulation: with one seed everything happens again at the same nanosecond, and with another it does not.
func TestTheSeedRepeatsTheSimulation(t *testing.T) {
	value := seed.Random(t).Uint64()
	var traces []string
	for _, value := range []uint64{value, value, value + 1} {
		traces = append(traces, simulate(t, value, 3, func(w *world) {
			w.faulty = 0.02
			ready(w)
			for _, fault := range faults {
				fault.act(w)
				w.run(10 * time.Second)
			}
		}))
	}
	if traces[0] != traces[1] || traces[0] == traces[2] {
		t.Errorf("the traces %q: want the first two to be equal", traces)
	}
}

// TestNoRequestMeetsAnUnknownCertificate: replicas start, restart and are killed; Secrets are deleted and damaged;
// entries come and go; rotations are requested; the API server is slow, fails or is away. At every moment every API
// server trusts what every ready replica serves.
func TestNoRequestMeetsAnUnknownCertificate(t *testing.T) {
	rounds := 10
	if os.Getenv("USHER_LONG") != "" {
		rounds = 2000
	}
	inBubble(t, 3, func(w *world) {
		w.faulty = 0.02
		w.register(mutating, "a", "b")
		for i := range w.replicas {
			w.start(i)
		}
		w.excused = w.now().Add(2*time.Minute + lag)
		w.run(3 * time.Minute)
		w.settled()
		for range rounds {
			w.mu.Lock()
			kind := w.rnd.IntN(len(faults))
			w.say("FAULT %s", faults[kind].name)
			w.mu.Unlock()
			faults[kind].act(w)
			w.run(time.Duration(3+w.rnd.IntN(4)) * time.Minute)
			w.settled()
		}
	})
}

// TestFaultsInQuickSuccession: one fault follows another before the replicas have overcome the first. No caBundle is lost.
func TestFaultsInQuickSuccession(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		ready(w)
		w.mayEnd = true
		some := slices.Clone(faults[:len(faults)-2])
		for range 60 {
			one := some[w.rnd.IntN(len(some))]
			w.mu.Lock()
			w.say("FAULT %s", one.name)
			w.mu.Unlock()
			one.act(w)
			w.run(time.Duration(1+w.rnd.IntN(120)) * time.Second)
		}
		w.excused = w.now().Add(3 * time.Minute)
		w.run(5 * time.Minute)
		w.settled()
	})
}

type fault struct {
	name string
	act  func(*world)
}

var faults = []fault{
	{"nothing", func(*world) {}},
	{"a replica restarts", func(w *world) { w.restart(w.rnd.IntN(len(w.replicas))) }},
	{"all replicas restart", func(w *world) {
		for i := range w.replicas {
			w.restart(i)
		}
	}},
	{"the CA is deleted", func(w *world) { w.remove(caPath) }},
	{"the leaf is deleted", func(w *world) { w.remove(tlsPath) }},
	{"both are deleted", func(w *world) { w.remove(caPath); w.remove(tlsPath) }},
	{"both are deleted, and a replica restarts", func(w *world) { w.remove(tlsPath); w.remove(caPath); w.restart(0) }},
	{"the CA is emptied", func(w *world) { w.edit(caPath, func(o map[string]any) { o["data"] = map[string]any{} }) }},
	{"data is damaged", func(w *world) {
		for _, path := range []string{caPath, tlsPath} {
			w.edit(path, func(o map[string]any) {
				data, _ := o["data"].(map[string]any)
				for _, key := range slices.Sorted(maps.Keys(data)) {
					if w.rnd.IntN(3) == 0 {
						data[key] = "ZGFtYWdlZA=="
					}
				}
			})
		}
	}},
	{"the leaf is emptied", func(w *world) { w.put(tlsPath, map[string]any{certs.CertFile: "", certs.KeyFile: ""}) }},
	{"the CA is restored", func(w *world) { w.restore(caPath) }},
	{"the leaf is restored", func(w *world) { w.restore(tlsPath) }},
	{"both are restored", func(w *world) { w.restore(caPath, tlsPath) }},
	{"both are restored, and a replica restarts", func(w *world) { w.restore(caPath, tlsPath); w.restart(0) }},
	{"the Secrets are swapped", func(w *world) {
		w.mu.Lock()
		ca, leaf := w.object(caPath)["data"], w.object(tlsPath)["data"]
		w.mu.Unlock()
		w.put(caPath, leaf)
		w.put(tlsPath, ca)
	}},
	{"the CA is somebody else's", func(w *world) {
		ca, err := certs.NewAuthorityUntil(w.now(), w.now().Add(caLife))
		if err != nil {
			panic(err)
		}
		w.put(caPath, map[string]any{activeCert: ca.Cert, activeKey: ca.Key})
	}},
	{"the CA is somebody else's, with another name", (*world).putStranger},
	{"a CA with another name signs, and an old copy of both is back when a replica starts", func(w *world) {
		w.mu.Lock()
		before := w.next
		w.mu.Unlock()
		w.putStranger()
		w.run(3 * time.Minute)
		w.replicas[0].stop()
		w.restoreFrom(before, caPath, tlsPath)
		w.start(0)
	}},
	{"the API server is away", func(w *world) {
		w.mu.Lock()
		w.away = true
		w.mu.Unlock()
		w.run(90 * time.Second)
		w.mu.Lock()
		w.away = false
		w.mu.Unlock()
	}},
	{"a CA is requested", func(w *world) { w.request(caPath, activeCert) }},
	{"a leaf is requested", func(w *world) { w.request(tlsPath, certs.CertFile) }},
	{"entries change", func(w *world) { // a new one has no caBundle at first
		w.mu.Lock()
		w.excused = w.now().Add(30*time.Second + lag)
		w.mu.Unlock()
		names := []string{"a", "b", "c", "d"}
		w.rnd.Shuffle(4, func(i, j int) { names[i], names[j] = names[j], names[i] })
		w.register([]string{mutating, validating}[w.rnd.IntN(2)], names[:w.rnd.IntN(5)]...)
	}},
	{"caBundles are emptied", func(w *world) {
		w.mu.Lock()
		w.excused = w.now().Add(30*time.Second + lag)
		w.mu.Unlock()
		for _, path := range []string{mutating, validating} {
			w.edit(path, func(o map[string]any) {
				all, _ := o["webhooks"].([]any)
				for _, entry := range all {
					delete(entry.(map[string]any)["clientConfig"].(map[string]any), "caBundle")
				}
			})
		}
	}},
}

// put replaces the data of a Secret, if it is there.
func (w *world) put(path string, data any) {
	w.edit(path, func(o map[string]any) { o["data"] = data })
}

// putStranger replaces the CA by one that usher has not made.
func (w *world) putStranger() {
	ca := authorityFrom(w.t, "another CA", 7, w.now(), w.now().Add(caLife))
	w.put(caPath, map[string]any{activeCert: ca.Cert, activeKey: ca.Key})
}

// restore puts earlier data of Secrets back, of one moment.
func (w *world) restore(paths ...string) {
	w.mu.Lock()
	at := w.rnd.IntN(w.next)
	w.mu.Unlock()
	w.restoreFrom(at, paths...)
}

func (w *world) restoreFrom(at int, paths ...string) {
	w.mu.Lock()
	data := map[string]any{}
	for _, path := range paths {
		for _, one := range w.history[path] {
			if one.version <= at {
				data[path] = one.data
			}
		}
	}
	w.mu.Unlock()
	for _, path := range paths {
		if data[path] != nil {
			w.put(path, data[path])
		}
	}
}

func (w *world) restart(i int) {
	w.replicas[i].stop()
	time.Sleep(time.Duration(w.rnd.IntN(3000)) * time.Millisecond)
	w.start(i)
}

func (w *world) request(path, cert string) {
	serial := Serial(w.data(path)[cert])
	w.edit(path, func(o map[string]any) {
		o["metadata"].(map[string]any)["annotations"] = map[string]any{replaceAnnotation: serial}
	})
}
