package kubetest

import (
	"context"
	"sync"
	"testing"
	"time"
)

// KillAll kills all replicas, as if their nodes lost power. They are started again by start, or when the test has ended.
func (u *Usher) KillAll(ctx context.Context, t *testing.T) (start func()) {
	t.Helper()
	for _, replica := range u.Replicas {
		replica.Kill()
	}
	if err := u.Balancer.Wait(ctx, 0); err != nil {
		t.Fatal(err)
	}
	start = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, replica := range u.Replicas {
			if err := replica.Start(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := u.Balancer.Wait(ctx, len(u.Replicas)); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(start)
	return start
}
