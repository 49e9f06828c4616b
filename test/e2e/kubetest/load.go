package kubetest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// leastLoad is the number of requests that a load must have sent, so that it shows something.
const leastLoad = 50

// Load repeats a request from four clients until it is stopped, and then fails the test if any of the requests failed.
// pause is between the requests of a client.
func Load(ctx context.Context, t *testing.T, pause time.Duration, request func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var counts Counts
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := request(ctx); ctx.Err() != nil {
					return
				} else if err != nil {
					counts.Add("failed: "+err.Error(), 1)
				}
				counts.Add("sent", 1)
				time.Sleep(pause)
			}
		})
	}
	return sync.OnceFunc(func() {
		t.Helper()
		cancel()
		clients.Wait()
		if all := counts.All(); len(all) != 1 || all["sent"] < leastLoad {
			t.Errorf("of at least %d requests none must fail:%s", leastLoad, counts.String())
		}
		t.Logf("requests:%s", counts.String())
	})
}
