package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"usher.dev/usher/e2e/quota/checker"
)

// watched is a checker that reads etcd's history of a namespace as it happens.
type watched struct {
	*checker.Checker
	stop   context.CancelFunc
	failed chan error
}

// watch starts a checker for a namespace that does not exist yet.
func watch(ctx context.Context, t *testing.T, namespace string) *watched {
	t.Helper()
	return watchSince(ctx, revision(ctx, t), namespace)
}

// watchSince starts a checker for namespaces that did not exist at a revision.
func watchSince(ctx context.Context, from int64, namespaces ...string) *watched {
	ctx, cancel := context.WithCancel(ctx)
	w := &watched{checker.New(namespaces...), cancel, make(chan error, 1)}
	go func() { w.failed <- cluster.Changes(ctx, "/registry/", from, w.Take) }()
	return w
}

// reach waits until the checker has read everything that has happened until now.
func (w *watched) reach(ctx context.Context, t *testing.T) {
	t.Helper()
	last := revision(ctx, t)
	eventually(ctx, t, func(context.Context) error {
		select {
		case err := <-w.failed:
			t.Fatal(err)
		default:
		}
		if at := w.Revision(); at < last {
			return fmt.Errorf("the checker is at revision %d of %d", at, last)
		}
		return nil
	})
}

// finish returns the checker when it has read everything that has happened until now. It reads no more.
func (w *watched) finish(ctx context.Context, t *testing.T) *checker.Checker {
	t.Helper()
	w.reach(ctx, t)
	w.stop()
	if err := <-w.failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	return w.Checker
}

// check reports every quota that held more than its limit until now, and every pod that counted for more than was
// reserved.
func (w *watched) check(ctx context.Context, t *testing.T) checker.Told {
	t.Helper()
	told := w.finish(ctx, t).Told()
	for _, problem := range slices.Concat(told.Overshoots, told.Uncovered) {
		t.Error(problem)
	}
	return told
}

// checkSince checks what has happened since a revision, afterwards, so that the checker takes no time while it happens.
func checkSince(ctx context.Context, t *testing.T, from int64, namespaces ...string) checker.Told {
	t.Helper()
	told := watchSince(ctx, from, namespaces...).check(ctx, t)
	if told.Added == 0 {
		t.Error("the checker has seen no pod: it says nothing")
	}
	return told
}

// revision returns a revision of etcd that is not older than the call.
func revision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	object, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/default/configmaps", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "now-"}}`)
	stored(t, err)
	n, err := strconv.ParseInt(object.String("metadata", "resourceVersion"), 10, 64)
	stored(t, err)
	return n
}
