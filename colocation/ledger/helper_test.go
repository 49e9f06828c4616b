package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// amounts parses "cpu=2 memory=4Gi"; "" is a nil list.
func amounts(short string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, pair := range strings.Fields(short) {
		name, amount, _ := strings.Cut(pair, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

// makeQuota returns a quota that the pods of the namespace of its name belong to.
func makeQuota(name, parent, limits string) *quota.Quota {
	if parent == "" {
		parent = api.RootQuota
	}
	return &quota.Quota{Namespace: quotaNamespace, Name: name, Parent: parent, Max: amounts(limits), Namespaces: []string{name}}
}

// makePod makes a pod in the namespace of its quota.
func makePod(key, uid, requests string) *quota.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	return &quota.Pod{Namespace: namespace, Name: name, UID: types.UID(uid), Requests: amounts(requests)}
}

// shrinking makes a pod whose node still holds more than it requests.
func shrinking(key, uid, requests, holds string) *quota.Pod {
	p := makePod(key, uid, requests)
	p.Held = &quota.Held{Requests: amounts(holds)}
	return p
}

func seenPod(p *quota.Pod, version int) Seen {
	return Seen{Key: podKey(p), Version: strconv.Itoa(version), Object: p}
}

// bench is a ledger with a store that a test can look into and disturb.
type bench struct {
	*Ledger
	tree  *quota.Tree // as the test knows it
	known atomic.Pointer[quota.Tree]
	clock time.Time
	began time.Time
	store *fakeStore
}

// lay returns a bench whose ledger knows the given quotas.
func lay(t testing.TB, quotas ...*quota.Quota) *bench {
	t.Helper()
	b := &bench{clock: time.Unix(1e9, 0), began: time.Now(), store: &fakeStore{objects: map[types.NamespacedName]Object{}, version: 1}}
	b.grow(quotas...)
	b.Ledger = b.replica("r1")
	return b
}

// grow installs a tree.
func (b *bench) grow(quotas ...*quota.Quota) {
	b.tree = quota.NewTree(quotas)
	b.known.Store(b.tree)
}

// replica returns another ledger on the same store.
func (b *bench) replica(name string) *Ledger {
	tree := func(context.Context, string) (*quota.Tree, error) { return b.known.Load(), nil }
	l := New(Options{Tree: tree, Store: b.store, Replica: name, Counting: quota.Counting{Allocated: true}, Now: func() time.Time { return b.clock }})
	for _, name := range b.tree.Names() {
		if q, ok := b.tree.Get(name); ok {
			if _, ok := b.store.objects[keyOf(q)]; !ok {
				b.store.objects[keyOf(q)] = Object{Quota: q, Version: "1"}
			}
			l.objects.update(b.store.objects[keyOf(q)])
		}
	}
	l.Pods().Replace(nil, "") // there are none yet
	return l
}

// ask returns a request for a pod.
func ask(p *quota.Pod) quota.Request { return askChange(nil, p) }

// askChange returns a request for an update of a pod.
func askChange(stored, p *quota.Pod) quota.Request {
	return quota.Request{Key: p.BindingKey(), Read: func() (pod, before *quota.Pod) { return p, stored }}
}

// askUpdate returns a request for an update of the pod that is stored at a version.
func askUpdate(stored *quota.Pod, version string, p *quota.Pod) quota.Request {
	ask := askChange(stored, p)
	ask.From = version
	return ask
}

// reserve returns "granted", or the reason why not.
func (b *bench) reserve(l *Ledger, ask quota.Request) string {
	return b.judged(l.Reserve(context.Background(), ask))
}

func (b *bench) judged(v quota.PodVerdict, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case v.Unknown || len(v.Excess) > 0:
		return why(v)
	}
	return "granted"
}

// record returns the record of a quota in short form.
func (b *bench) record(name string) string {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	return inBrief(b.store.objects[types.NamespacedName{Namespace: quotaNamespace, Name: name}].Record)
}

// decide plans for the requests in the current state, as a batch would.
func (b *bench) plan(t *testing.T, record string, asks ...quota.Request) (plan, error) {
	t.Helper()
	placed := make([]placement, len(asks))
	for i, ask := range asks {
		placed[i] = b.place(b.tree, b.read(ask))
	}
	top, _ := b.tree.Get(placed[0].top)
	return b.Ledger.makePlan(view{tree: b.tree, top: Object{Quota: top, Version: "1000000", Record: record}, now: b.clock}, placed)
}

// recordOf is the text of a record.
func recordOf(t *testing.T, seen string, pods ...reservation) string {
	t.Helper()
	for i := range pods {
		if err := pods[i].encode(); err != nil {
			t.Fatal(err)
		}
	}
	return record{Seen: seen, Pods: pods}.text()
}

// room returns a reservation made now.
func (b *bench) room(p *quota.Pod, update bool) reservation {
	return reservation{UID: p.UID, Pod: podKey(p), Quota: b.tree.Bind(p.BindingKey(), false).Name, Request: api.ResourceList(p.Requests), Update: update,
		At: b.clock.UnixMilli(), By: "other"}
}

// fakeStore is a Store in memory with compare-and-swap.
type fakeStore struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]Object
	writes  int
	version int // of the newest change
	// pods are stored, at podVersion.
	pods       map[types.NamespacedName]*quota.Pod
	podVersion string
	before     func() error // called before each write
	after      func() error
}

func (s *fakeStore) Read(_ context.Context, key types.NamespacedName) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key], nil
}

// Pod returns the version of a pod.
func (s *fakeStore) Pod(_ context.Context, key types.NamespacedName) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.pods[key]; ok {
		return s.podVersion, nil
	}
	return "", ErrGone
}

// storePod stores a pod, while others may read.
func (s *fakeStore) storePod(key types.NamespacedName, p *quota.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[key] = p
}

// Pods returns the version of the newest change.
func (s *fakeStore) Pods(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.version), nil
}

func (s *fakeStore) Write(_ context.Context, key types.NamespacedName, version, record string) (Object, error) {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return Object{}, err
		}
	}
	made, err := s.swap(key, version, record)
	if err == nil && after != nil {
		err = after()
	}
	return made, err
}

// written returns the number of writes so far.
func (s *fakeStore) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// disturb sets what is called before and after each write, while others may write.
func (s *fakeStore) disturb(before, after func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func (s *fakeStore) swap(key types.NamespacedName, version, record string) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.objects[key]
	if now.Version != version {
		return Object{}, ErrConflict
	}
	now.Version, now.Record = s.next(version), record
	s.objects[key] = now
	s.writes++
	return now, nil
}

// next returns the version of the next change.
func (s *fakeStore) next(version string) string {
	count, _ := strconv.Atoi(version)
	s.version = max(s.version, count) + 1
	return strconv.Itoa(s.version)
}

// expect compares got with want.
func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}
