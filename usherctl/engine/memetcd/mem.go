// Package memetcd serves the part of etcd's API that kube-apiserver uses, in memory.
package memetcd

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sort"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

type store struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedMaintenanceServer

	mu      sync.Mutex
	rev     int64
	keys    []string // sorted
	values  map[string]*mvccpb.KeyValue
	history []*mvccpb.Event
	changed chan struct{} // closed at the next change
	lease   int64
}

// Serve serves at a listener until stop is called.
func Serve(l net.Listener) (stop func()) {
	s := &store{rev: 1, values: map[string]*mvccpb.KeyValue{}, changed: make(chan struct{})}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20))
	pb.RegisterKVServer(g, s)
	pb.RegisterWatchServer(g, s)
	pb.RegisterLeaseServer(g, s)
	pb.RegisterMaintenanceServer(g, s)
	go g.Serve(l)
	return g.Stop
}

func (s *store) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: s.rev, RaftTerm: 1}
}

func (s *store) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(r), nil
}

func (s *store) read(r *pb.RangeRequest) *pb.RangeResponse {
	answer := &pb.RangeResponse{Header: s.header()}
	from := sort.SearchStrings(s.keys, string(r.Key))
	for _, k := range s.keys[from:] {
		if !in(k, r.Key, r.RangeEnd) {
			break
		}
		answer.Count++
		if r.CountOnly {
			continue
		}
		if r.Limit > 0 && int64(len(answer.Kvs)) >= r.Limit {
			answer.More = true
			continue
		}
		kv := s.values[k]
		if r.KeysOnly {
			kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}
		}
		answer.Kvs = append(answer.Kvs, kv)
	}
	return answer
}

func in(k string, from, end []byte) bool {
	switch {
	case len(end) == 0:
		return k == string(from)
	case len(end) == 1 && end[0] == 0:
		return k >= string(from)
	}
	return k >= string(from) && k < string(end)
}

func (s *store) put(key, value []byte, lease int64) *pb.PutResponse {
	s.rev++
	old := s.values[string(key)]
	now := &mvccpb.KeyValue{Key: key, Value: value, CreateRevision: s.rev, ModRevision: s.rev, Version: 1, Lease: lease}
	if old != nil {
		now.CreateRevision, now.Version = old.CreateRevision, old.Version+1
	} else {
		i := sort.SearchStrings(s.keys, string(key))
		s.keys = slices.Insert(s.keys, i, string(key))
	}
	s.values[string(key)] = now
	s.record(&mvccpb.Event{Type: mvccpb.Event_PUT, Kv: now, PrevKv: old})
	return &pb.PutResponse{Header: s.header()}
}

func (s *store) remove(key, end []byte) *pb.DeleteRangeResponse {
	var gone []string
	for _, k := range s.keys[sort.SearchStrings(s.keys, string(key)):] {
		if !in(k, key, end) {
			break
		}
		gone = append(gone, k)
	}
	if len(gone) > 0 {
		s.rev++
	}
	for _, k := range gone {
		i := sort.SearchStrings(s.keys, k)
		s.keys = slices.Delete(s.keys, i, i+1)
		old := s.values[k]
		delete(s.values, k)
		s.record(&mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: old.Key, ModRevision: s.rev}, PrevKv: old})
	}
	return &pb.DeleteRangeResponse{Header: s.header(), Deleted: int64(len(gone))}
}

func (s *store) record(e *mvccpb.Event) {
	s.history = append(s.history, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) Put(_ context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(r.Key, r.Value, r.Lease), nil
}

func (s *store) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(r.Key, r.RangeEnd), nil
}

func (s *store) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := true
	for _, c := range r.Compare {
		kv := s.values[string(c.Key)]
		if kv == nil {
			kv = &mvccpb.KeyValue{}
		}
		var d int64
		switch c.Target {
		case pb.Compare_MOD:
			d = kv.ModRevision - c.GetModRevision()
		case pb.Compare_CREATE:
			d = kv.CreateRevision - c.GetCreateRevision()
		case pb.Compare_VERSION:
			d = kv.Version - c.GetVersion()
		case pb.Compare_VALUE:
			d = int64(bytes.Compare(kv.Value, c.GetValue()))
		}
		ok = ok && (c.Result == pb.Compare_EQUAL && d == 0 || c.Result == pb.Compare_NOT_EQUAL && d != 0 || c.Result == pb.Compare_GREATER && d > 0 || c.Result == pb.Compare_LESS && d < 0)
	}
	ops := r.Success
	if !ok {
		ops = r.Failure
	}
	answer := &pb.TxnResponse{Succeeded: ok}
	for _, op := range ops {
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: s.read(o.RequestRange)}})
		case *pb.RequestOp_RequestPut:
			answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: s.put(o.RequestPut.Key, o.RequestPut.Value, o.RequestPut.Lease)}})
		case *pb.RequestOp_RequestDeleteRange:
			answer.Responses = append(answer.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: s.remove(o.RequestDeleteRange.Key, o.RequestDeleteRange.RangeEnd)}})
		}
	}
	answer.Header = s.header()
	return answer, nil
}

func (s *store) Compact(context.Context, *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.CompactionResponse{Header: s.header()}, nil
}

func (s *store) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease++
	return &pb.LeaseGrantResponse{Header: s.header(), ID: s.lease, TTL: r.TTL}, nil
}

func (s *store) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.StatusResponse{Header: s.header(), Version: "3.6.0", DbSize: 1, Leader: 1}, nil
}

func (s *store) Alarm(context.Context, *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	return &pb.AlarmResponse{}, nil
}

type watch struct {
	id      int64
	key     []byte
	end     []byte
	next    int
	prev    bool
	minimum int64
}

func (s *store) Watch(stream pb.Watch_WatchServer) error {
	requests := make(chan *pb.WatchRequest)
	ctx := stream.Context()
	go func() {
		defer close(requests)
		for {
			r, err := stream.Recv()
			if err != nil {
				if err != io.EOF {
					_ = err
				}
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	var watches []*watch
	id := int64(0)
	s.mu.Lock()
	changed := s.changed
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r, ok := <-requests:
			if !ok {
				return nil
			}
			switch u := r.RequestUnion.(type) {
			case *pb.WatchRequest_CreateRequest:
				c := u.CreateRequest
				w := &watch{id: id, key: c.Key, end: c.RangeEnd, prev: c.PrevKv, minimum: c.StartRevision}
				id++
				s.mu.Lock()
				w.next = len(s.history)
				if c.StartRevision > 0 {
					w.next = sort.Search(len(s.history), func(i int) bool { return s.history[i].Kv.ModRevision >= c.StartRevision })
				}
				h := s.header()
				s.mu.Unlock()
				watches = append(watches, w)
				if err := stream.Send(&pb.WatchResponse{Header: h, WatchId: w.id, Created: true}); err != nil {
					return err
				}
			case *pb.WatchRequest_CancelRequest:
				watches = slices.DeleteFunc(watches, func(w *watch) bool { return w.id == u.CancelRequest.WatchId })
				if err := stream.Send(&pb.WatchResponse{Header: &pb.ResponseHeader{}, WatchId: u.CancelRequest.WatchId, Canceled: true}); err != nil {
					return err
				}
			case *pb.WatchRequest_ProgressRequest:
				if err := s.send(stream, watches); err != nil {
					return err
				}
				s.mu.Lock()
				h := s.header()
				s.mu.Unlock()
				if err := stream.Send(&pb.WatchResponse{Header: h, WatchId: -1}); err != nil {
					return err
				}
			}
		case <-changed:
		}
		s.mu.Lock()
		changed = s.changed
		s.mu.Unlock()
		if err := s.send(stream, watches); err != nil {
			return err
		}
	}
}

func (s *store) send(stream pb.Watch_WatchServer, watches []*watch) error {
	for _, w := range watches {
		s.mu.Lock()
		events := s.history[w.next:]
		w.next = len(s.history)
		h := s.header()
		s.mu.Unlock()
		var mine []*mvccpb.Event
		for _, e := range events {
			if in(string(e.Kv.Key), w.key, w.end) {
				if !w.prev {
					e = &mvccpb.Event{Type: e.Type, Kv: e.Kv}
				}
				mine = append(mine, e)
			}
		}
		if len(mine) > 0 {
			if err := stream.Send(&pb.WatchResponse{Header: h, WatchId: w.id, Events: mine}); err != nil {
				return err
			}
		}
	}
	return nil
}
