package process

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// limitsOfFlood limit users and the whole route, and on another route each of many users.
const limitsOfFlood = `
limits:
- {name: users, by: user, routes: [/mutate-pods], perSecond: 5, burst: 10}
- {name: all, by: route, routes: [/mutate-pods], perSecond: 50, burst: 100}
- {name: each, by: user, routes: [/validate-pods], perSecond: 1, burst: 1}
`

// TestProcessLimits: one user floods a route, and thousands of users of very long names another one. Whoever stays below
// the limits gets an answer all the time, in the memory of deploy/base.
func TestProcessLimits(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte(limitsOfFlood), 0o600); err != nil {
		t.Fatal(err)
	}
	l := launch{env: asDeployed.env, args: []string{"--config", policy}}
	var reason string
	if l.group, reason = memoryGroup(t); reason != "" {
		t.Log("not in a cgroup: ", reason)
	}
	p := launched(t, l)
	as := func(path, user string) int {
		body := edited(t, `"username": "developer"`, fmt.Sprintf(`"username": %q`, user))
		got, err := send(p.client, "https://"+p.reviews+path+"?timeout=30s", body, nil)
		if err != nil {
			t.Error(err)
		}
		return got.code
	}
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	var refused atomic.Int64
	for range 4 {
		flood.Go(func() {
			for ctx.Err() == nil {
				if as("/mutate-pods", "mallory") == http.StatusTooManyRequests {
					refused.Add(1)
				}
			}
		})
	}
	flood.Go(func() {
		inParallel(4, scaled(500, 3000, 20_000), func(i int) { as("/validate-pods", fmt.Sprintf("%050000d", i)) })
	})
	for range scaled(12, 20, 60) {
		if code := as("/mutate-pods", "alice"); code != http.StatusOK {
			t.Errorf("alice stays below the limits, and gets %d", code)
		}
		time.Sleep(250 * time.Millisecond)
	}
	eventually(t, "mallory floods, and is refused", func() bool { return refused.Load() >= 100 })
	cancel()
	flood.Wait()
	p.wantMemory(t, deployedMemory)
	p.wantStanding(t)
}
