package memetcd

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// open returns a client of an empty store.
func open(t *testing.T) *clientv3.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address, stop, err := ServeIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return connect(t, address)
}

func connect(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	t.Setenv("ETCD_CLIENT_DEBUG", "fatal") // the client logs each refusal
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(t *testing.T, c *clientv3.Client, key, value string, options ...clientv3.OpOption) int64 {
	t.Helper()
	a, err := c.Put(t.Context(), key, value, options...)
	if err != nil {
		t.Fatal(err)
	}
	return a.Header.Revision
}

// TestRefused: requests that an etcd refuses have its errors, and those for a part that is not here say so.
func TestRefused(t *testing.T) {
	c := open(t)
	for _, value := range []string{"1", "2", "3"} {
		put(t, c, "a", value)
	}
	if _, err := c.Compact(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	do := func(op clientv3.Op) func() error {
		return func() error { _, err := c.Do(t.Context(), op); return err }
	}
	for name, test := range map[string]struct {
		run  func() error
		want error
	}{
		"range of a compacted revision": {do(clientv3.OpGet("a", clientv3.WithRev(2))), rpctypes.ErrCompacted},
		"range of a future revision":    {do(clientv3.OpGet("a", clientv3.WithRev(5))), rpctypes.ErrFutureRev},
		"compacted twice":               {func() error { _, err := c.Compact(t.Context(), 3); return err }, rpctypes.ErrCompacted},
		"too large":                     {do(clientv3.OpPut("a", strings.Repeat("x", maxRequest))), rpctypes.ErrRequestTooLarge},
		"without a lease":               {do(clientv3.OpPut("a", "", clientv3.WithLease(77))), rpctypes.ErrLeaseNotFound},
		"a key twice": {do(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("a", ""), clientv3.OpPut("a", "")}, nil)),
			rpctypes.ErrDuplicateKey},
		"a key put and deleted": {do(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("b", ""), clientv3.OpDelete("a", clientv3.WithRange("c"))},
			nil)), rpctypes.ErrDuplicateKey},
		"sorted":    {do(clientv3.OpGet("a", clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend))), missing("sorted ranges")},
		"keep":      {do(clientv3.OpPut("a", "", clientv3.WithIgnoreLease())), missing("puts that keep the value or the lease")},
		"a member":  {func() error { _, err := c.MemberList(t.Context()); return err }, status.Error(codes.Unimplemented, "unknown service etcdserverpb.Cluster")},
		"it exists": {do(clientv3.OpGet("a", clientv3.WithRev(3))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.run(); fmt.Sprint(err) != fmt.Sprint(test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// TestLeases: keys go with their lease, all at one revision.
func TestLeases(t *testing.T) {
	c := open(t)
	lease, err := c.Grant(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "a", "1", clientv3.WithLease(lease.ID))
	put(t, c, "b", "1")
	last := put(t, c, "c", "1", clientv3.WithLease(lease.ID))
	a := <-c.Watch(t.Context(), "a", clientv3.WithFromKey(), clientv3.WithRev(last+1))
	if len(a.Events) != 2 || string(a.Events[1].Kv.Key) != "c" || a.Events[0].Kv.ModRevision != last+1 || a.Events[1].Kv.ModRevision != last+1 {
		t.Errorf("events %v, want the deletions of a and c at revision %d", a.Events, last+1)
	}
}

// TestBounded: the store forgets events by itself.
func TestBounded(t *testing.T) {
	s := newStore()
	for range maxEvents + 1 {
		next := s.revision + 1
		s.put(next, []byte("a"), nil, 0)
		s.commit(next)
	}
	if len(s.events) > maxEvents/2+1 || len(s.versions["a"]) != len(s.events) || s.at("a", s.revision).Version != maxEvents+1 {
		t.Errorf("%d events and %d versions", len(s.events), len(s.versions["a"]))
	}
}

// TestProgress: a requested progress comes after the events until its revision.
func TestProgress(t *testing.T) {
	c := open(t)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.Context()))
	defer cancel()
	events := c.Watch(ctx, "a", clientv3.WithCreatedNotify())
	<-events // created
	seen, last := 0, int64(0)
	for range 20 {
		last = put(t, c, "a", "1")
	}
	put(t, c, "b", "not watched")
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	for a := range events {
		if seen += len(a.Events); !a.IsProgressNotify() {
			continue
		}
		if seen != 20 || a.Header.Revision != last+1 {
			t.Errorf("progress until %d after %d events, want until %d after 20", a.Header.Revision, seen, last+1)
		}
		return
	}
}
