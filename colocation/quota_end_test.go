package colocation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/ledger"
	"usher.dev/usher/colocation/quota"
)

// shelf is a store of one quota's record. Writes take a while.
type shelf struct {
	takes time.Duration

	mu  sync.Mutex
	now ledger.Object
}

func (s *shelf) Read(context.Context, types.NamespacedName) (ledger.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, nil
}

func (s *shelf) Write(ctx context.Context, _ types.NamespacedName, version, record string) (ledger.Object, error) {
	s.mu.Lock()
	takes := time.After(s.takes)
	s.mu.Unlock()
	select {
	case <-takes:
	case <-ctx.Done():
		return ledger.Object{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.now.Version {
		return ledger.Object{}, ledger.ErrConflict
	}
	count, _ := strconv.Atoi(version)
	s.now.Version, s.now.Record = strconv.Itoa(count+1), record
	return s.now, nil
}

func (*shelf) Pod(context.Context, types.NamespacedName) (string, error) { return "", ledger.ErrGone }
func (*shelf) Pods(context.Context) (string, error)                      { return "1", nil }

func cpus(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
}

// TestEndGivesBack: a replica that ends leaves no grant in a record, unless the API server is too slow.
func TestEndGivesBack(t *testing.T) {
	for takes, given := range map[time.Duration]bool{100 * time.Millisecond: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			top := &quota.Quota{Namespace: "quotas", Name: "q", Parent: api.RootQuota, Max: cpus(100), Namespaces: []string{"q"}}
			tree, store := quota.NewTree([]*quota.Quota{top}), &shelf{takes: time.Millisecond, now: ledger.Object{Quota: top, Version: "1"}}
			l := ledger.New(ledger.Options{Store: store,
				Tree: func(context.Context, string) (*quota.Tree, error) { return tree, nil }})
			l.Pods().Replace(nil, "1")
			l.Quotas().Replace([]ledger.Seen{{Key: "quotas/q", Version: "1", Object: top}}, "1")
			q := &quotas{ledger: l}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			q.run(ctx, false)
			for i := range 8 {
				pod := &quota.Pod{Namespace: "q", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i)), Requests: cpus(1)}
				if _, err := l.Reserve(ctx, quota.Request{Key: pod.BindingKey(), Read: func() (now, before *quota.Pod) { return pod, nil }}); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(store.now.Record, `"grant":true`) {
				t.Fatal(store.now.Record)
			}
			synctest.Wait()
			store.takes = takes
			began := time.Now()
			ending, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			q.end(ending)
			if took := time.Since(began); took > time.Second || given == strings.Contains(store.now.Record, `"grant":true`) {
				t.Errorf("a write takes %s: ended after %s with %s", takes, took, store.now.Record)
			}
			time.Sleep(time.Minute) // for what still waits
		})
	}
}

// TestEndOfNothing: where no ledger runs, nothing is started, and the end waits for nothing.
func TestEndOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, q := range map[string]*quotas{"never run": {}, "run": {}} {
			if name == "run" {
				q.run(ctx, true)
			}
			began := time.Now()
			q.end(ctx)
			if took := time.Since(began); took != 0 || q.ended != nil {
				t.Errorf("%s: ended after %s; it waits for a ledger: %v", name, took, q.ended != nil)
			}
		}
	})
}
