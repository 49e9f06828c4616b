package memetcd

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// etcdVariable is the environment variable with the path of etcd's program; test/e2e sets it.
const etcdVariable = "USHER_TEST_ETCD"

// TestBesideEtcd sends random requests to an etcd and to a store: answers and watched events are equal.
func TestBesideEtcd(t *testing.T) {
	program := os.Getenv(etcdVariable)
	if program == "" {
		t.Skip("without " + etcdVariable)
	}
	for seed := range uint64(3) {
		seed += uint64(time.Now().UnixNano())
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			p := &pair{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), clients: [2]*clientv3.Client{open(t), startEtcd(t, program)}, revision: 1}
			for range 800 {
				p.step()
			}
			p.end()
		})
	}
}

// startEtcd returns a client of a new etcd.
func startEtcd(t *testing.T, program string) *clientv3.Client {
	t.Helper()
	var urls []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "http://"+l.Addr().String())
		_ = l.Close()
	}
	c := exec.CommandContext(t.Context(), program, "--data-dir="+t.TempDir(), "--listen-client-urls="+urls[0], "--advertise-client-urls="+urls[0],
		"--listen-peer-urls="+urls[1], "--initial-advertise-peer-urls="+urls[1], "--initial-cluster=default="+urls[1], "--unsafe-no-fsync")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	client := connect(t, urls[0])
	for client.Sync(t.Context()) != nil {
		if t.Context().Err() != nil {
			t.Fatal("etcd does not start")
		}
	}
	return client
}

// pair is a store and an etcd with the same content.
type pair struct {
	*testing.T
	*rand.Rand
	clients             [2]*clientv3.Client
	revision, compacted int64
	watches             []*watched
	done                int
}

// watched is a watch of both.
type watched struct {
	what   string
	from   [2]clientv3.WatchChan
	events [2]string
}

func (p *pair) step() {
	p.done++
	switch n := p.IntN(100); {
	case n < 4:
		p.watch()
	case n < 6:
		p.compact()
	case n < 40:
		p.both(p.op())
	default:
		var compares []clientv3.Cmp
		for range p.IntN(3) {
			compares = append(compares, p.compare())
		}
		p.both(clientv3.OpTxn(compares, p.ops(), p.ops()))
	}
}

func (p *pair) key() string { return fmt.Sprintf("/k/%c", 'a'+p.IntN(8)) }

func (p *pair) ops() (all []clientv3.Op) {
	for range p.IntN(4) {
		all = append(all, p.op())
	}
	return all
}

// op returns a random operation.
func (p *pair) op() clientv3.Op {
	switch p.IntN(5) {
	case 0, 1:
		return clientv3.OpPut(p.key(), fmt.Sprint(p.done), p.some(clientv3.WithPrevKV())...)
	case 2:
		// an etcd lets a transaction put a key that is deleted by WithFromKey
		return clientv3.OpDelete(p.key(), append(p.rangeOf(clientv3.WithRange("/k/z")), p.some(clientv3.WithPrevKV())...)...)
	}
	options := p.some(clientv3.WithLimit(p.Int64N(4)), clientv3.WithRev(max(0, p.revision+1-p.Int64N(12))), clientv3.WithCountOnly(),
		clientv3.WithKeysOnly(), clientv3.WithSerializable())
	return clientv3.OpGet(p.key(), append(p.rangeOf(clientv3.WithFromKey()), options...)...)
}

// some returns a random part of options.
func (p *pair) some(all ...clientv3.OpOption) (chosen []clientv3.OpOption) {
	for _, o := range all {
		if p.IntN(3) == 0 {
			chosen = append(chosen, o)
		}
	}
	return chosen
}

// rangeOf returns a random end of a range; all is that of all keys.
func (p *pair) rangeOf(all clientv3.OpOption) []clientv3.OpOption {
	switch p.IntN(4) {
	case 0:
		return []clientv3.OpOption{all}
	case 1:
		return []clientv3.OpOption{clientv3.WithRange(p.key())}
	}
	return nil
}

func (p *pair) compare() clientv3.Cmp {
	result, revision := []string{"=", "!=", "<", ">"}[p.IntN(4)], max(0, p.revision-p.Int64N(12))
	switch p.IntN(5) {
	case 0:
		return clientv3.Compare(clientv3.CreateRevision(p.key()), result, revision)
	case 1:
		return clientv3.Compare(clientv3.Version(p.key()), result, p.Int64N(3))
	case 2:
		return clientv3.Compare(clientv3.Value(p.key()), result, fmt.Sprint(p.Int64N(int64(p.done))))
	case 3:
		return clientv3.Compare(clientv3.LeaseValue(p.key()), result, p.Int64N(2))
	}
	return clientv3.Compare(clientv3.ModRevision(p.key()), result, revision)
}

// both sends a request to both, and compares the answers.
func (p *pair) both(op clientv3.Op) {
	p.Helper()
	var answers [2]string
	for i, c := range p.clients {
		a, err := c.Do(p.Context(), op)
		if answers[i] = fmt.Sprint("error: ", err); err != nil {
			continue
		}
		var m proto.Message
		switch {
		case op.IsGet():
			m = (*pb.RangeResponse)(a.Get())
		case op.IsPut():
			m, p.revision = (*pb.PutResponse)(a.Put()), a.Put().Header.Revision
		case op.IsDelete():
			m, p.revision = (*pb.DeleteRangeResponse)(a.Del()), a.Del().Header.Revision
		default:
			m, p.revision = (*pb.TxnResponse)(a.Txn()), a.Txn().Header.Revision
		}
		answers[i] = strings.Join(strings.Fields(members.ReplaceAllString(fmt.Sprint(m), "")), " ")
	}
	if answers[0] != answers[1] {
		p.Fatalf("request %d, %s:\n got %s\nwant %s", p.done, show(op), answers[0], answers[1])
	}
}

// members matches the parts of an answer that tell who gave it.
var members = regexp.MustCompile(`\s*(cluster_id|member_id|raft_term):\d+\s*`)

func show(op clientv3.Op) string {
	if !op.IsTxn() {
		return fmt.Sprintf("%s..%s revision %d limit %d of keys %v", op.KeyBytes(), op.RangeBytes(), op.Rev(), op.Limit(), op.IsKeysOnly())
	}
	compares, then, otherwise := op.Txn()
	all := []string{fmt.Sprint(len(compares), " comparisons")}
	for _, o := range append(then, otherwise...) {
		all = append(all, show(o))
	}
	return strings.Join(all, "; ")
}

// watch starts a watch of both, and waits until both have sent what was before.
func (p *pair) watch() {
	from := p.revision + 1 - p.Int64N(30)
	if p.IntN(2) == 0 {
		from = p.compacted + 2 - p.Int64N(5)
	}
	options := append(p.some(clientv3.WithPrevKV(), clientv3.WithRange("/k/z")), clientv3.WithRev(max(1, from)), clientv3.WithCreatedNotify())
	key := p.key()
	w := &watched{what: fmt.Sprintf("watch of %s from %d, after request %d and compaction %d", key, from, p.done, p.compacted)}
	for i, c := range p.clients {
		w.from[i] = c.Watch(p.Context(), key, options...)
		<-w.from[i] // created
	}
	p.both(clientv3.OpPut(key, "watched"))
	p.receive(w)
	p.watches = append(p.watches, w)
}

// compact compacts both, but not the last revisions: an etcd looks for previous values when it sends an event.
func (p *pair) compact() {
	revision := max(1, p.revision-10-p.Int64N(20))
	if p.IntN(4) == 0 {
		revision = p.revision + 1 + p.Int64N(2) // refused
	}
	var errors [2]string
	for i, c := range p.clients {
		_, err := c.Compact(p.Context(), revision)
		errors[i] = fmt.Sprint(err)
		if err == nil {
			p.compacted = revision
		}
	}
	if errors[0] != errors[1] {
		p.Fatalf("compaction to %d of %d: got %s, want %s", revision, p.revision, errors[0], errors[1])
	}
}

// end changes all keys, which ends the watches, and compares their events.
func (p *pair) end() {
	var all []clientv3.Op
	for key := 'a'; key < 'a'+8; key++ {
		all = append(all, clientv3.OpPut(fmt.Sprintf("/k/%c", key), "end"))
	}
	p.both(clientv3.OpTxn(nil, all, nil))
	for _, w := range p.watches {
		if p.receive(w); w.events[0] != w.events[1] {
			p.Errorf("%s:\n got %s\nwant %s", w.what, w.events[0], w.events[1])
		}
	}
}

// receive adds to a watch the events until the last change, or the reason why it was cancelled.
func (p *pair) receive(w *watched) {
	for i, from := range w.from {
		for a := range from {
			if err := a.Err(); err != nil {
				w.events[i] += fmt.Sprintln(err)
			}
			last := int64(0)
			for _, e := range a.Events {
				w.events[i] += fmt.Sprintln((*mvccpb.Event)(e))
				last = e.Kv.ModRevision
			}
			if last == p.revision {
				break
			}
		}
	}
}
