package memetcd

import (
	"bytes"
	"cmp"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The limits of an etcd without flags.
const (
	maxRequest = 3 << 19 // bytes of a request
	maxOps     = 128     // of a transaction
)

// Range returns keys of a range.
func (s server) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	a, err := s.only(&pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}})
	return a.GetResponseRange(), err
}

// RangeStream returns keys of a range, in one piece.
func (s server) RangeStream(r *pb.RangeRequest, stream grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	a, err := s.Range(stream.Context(), r)
	if err != nil {
		return err
	}
	return stream.Send(&pb.RangeStreamResponse{RangeResponse: a})
}

// Put stores a value.
func (s server) Put(_ context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	a, err := s.only(&pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}})
	return a.GetResponsePut(), err
}

// DeleteRange deletes the keys of a range.
func (s server) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	a, err := s.only(&pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}})
	return a.GetResponseDeleteRange(), err
}

// only runs a transaction of one operation.
func (s server) only(op *pb.RequestOp) (*pb.ResponseOp, error) {
	a, err := s.Txn(context.Background(), &pb.TxnRequest{Success: []*pb.RequestOp{op}})
	if err != nil {
		return nil, err
	}
	return a.Responses[0], nil
}

// Txn runs one of two lists of operations, or none if one of them would fail.
func (s server) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxn(r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ops := &pb.TxnResponse{Succeeded: s.hold(r.Compare)}, r.Failure
	if a.Succeeded {
		ops = r.Success
	}
	for _, op := range ops {
		if err := s.canRun(op); err != nil {
			return nil, err
		}
	}
	next := s.revision + 1
	for _, op := range ops {
		a.Responses = append(a.Responses, s.run(op, next))
	}
	s.commit(next)
	a.Header = s.header()
	return a, nil
}

// Compact forgets versions.
func (s server) Compact(_ context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Revision <= s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case r.Revision > s.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compact(r.Revision)
	return &pb.CompactionResponse{Header: s.header()}, nil
}

// missing is the error for a part of etcd that is not here.
func missing(part string) error {
	return status.Errorf(codes.Unimplemented, "memetcd: %s: kube-apiserver does not use them", part)
}

// checkTxn refuses what does not depend on the store.
func checkTxn(r *pb.TxnRequest) error {
	switch {
	case proto.Size(r) > maxRequest:
		return rpctypes.ErrGRPCRequestTooLarge
	case max(len(r.Compare), len(r.Success), len(r.Failure)) > maxOps:
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
		if len(c.RangeEnd) > 0 {
			return missing("comparisons of ranges")
		}
	}
	return cmp.Or(checkOps(r.Success), checkOps(r.Failure))
}

// checkOps refuses operations that no store can run, and lists that change a key twice.
func checkOps(ops []*pb.RequestOp) error {
	puts := map[string]bool{}
	for _, op := range ops {
		if err := checkOp(op); err != nil {
			return err
		}
		if put := op.GetRequestPut(); put != nil {
			if puts[string(put.Key)] {
				return rpctypes.ErrGRPCDuplicateKey
			}
			puts[string(put.Key)] = true
		}
	}
	for _, op := range ops {
		for key := range puts {
			if r := op.GetRequestDeleteRange(); r != nil && in(key, r.Key, r.RangeEnd) {
				return rpctypes.ErrGRPCDuplicateKey
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp) error {
	var key []byte
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		r := o.RequestRange
		if key = r.Key; r.SortOrder != pb.RangeRequest_NONE || r.SortTarget != pb.RangeRequest_KEY {
			return missing("sorted ranges")
		}
		if r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0 {
			return missing("ranges of revisions")
		}
	case *pb.RequestOp_RequestPut:
		if key = o.RequestPut.Key; o.RequestPut.IgnoreValue || o.RequestPut.IgnoreLease {
			return missing("puts that keep the value or the lease")
		}
	case *pb.RequestOp_RequestDeleteRange:
		key = o.RequestDeleteRange.Key
	default:
		return missing("transactions in transactions")
	}
	if len(key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// hold reports whether all comparisons do.
func (s *store) hold(all []*pb.Compare) bool {
	for _, c := range all {
		if kv := s.at(string(c.Key), s.revision); !holds(c, kv) {
			return false
		}
	}
	return true
}

// holds reports whether a comparison with a version does; nil: the key does not exist.
func holds(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	if kv == nil && c.Target == pb.Compare_VALUE {
		return false
	}
	var d int
	switch c.Target {
	case pb.Compare_MOD:
		d = cmp.Compare(kv.GetModRevision(), c.GetModRevision())
	case pb.Compare_CREATE:
		d = cmp.Compare(kv.GetCreateRevision(), c.GetCreateRevision())
	case pb.Compare_VERSION:
		d = cmp.Compare(kv.GetVersion(), c.GetVersion())
	case pb.Compare_VALUE:
		d = bytes.Compare(kv.GetValue(), c.GetValue())
	case pb.Compare_LEASE:
		d = cmp.Compare(kv.GetLease(), c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return d == 0
	case pb.Compare_NOT_EQUAL:
		return d != 0
	case pb.Compare_GREATER:
		return d > 0
	}
	return d < 0
}

// canRun returns the error of an operation on this store.
func (s *store) canRun(op *pb.RequestOp) error {
	if put := op.GetRequestPut(); put != nil && put.Lease != 0 && s.leases[put.Lease] == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	switch revision := op.GetRequestRange().GetRevision(); {
	case revision > s.revision:
		return rpctypes.ErrGRPCFutureRev
	case revision > 0 && revision < s.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// run runs an operation that changes the store to revision next, if it changes something.
func (s *store) run(op *pb.RequestOp, next int64) *pb.ResponseOp {
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: s.read(o.RequestRange)}}
	case *pb.RequestOp_RequestPut:
		a, r := &pb.PutResponse{}, o.RequestPut
		if r.PrevKv {
			a.PrevKv = s.at(string(r.Key), next)
		}
		s.put(next, r.Key, r.Value, r.Lease)
		a.Header = s.header()
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: a}}
	}
	r := op.GetRequestDeleteRange()
	gone := s.remove(next, r.Key, r.RangeEnd)
	a := &pb.DeleteRangeResponse{Header: s.header(), Deleted: int64(len(gone))}
	if r.PrevKv {
		a.PrevKvs = gone
	}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: a}}
}

// read returns the keys of a range.
func (s *store) read(r *pb.RangeRequest) *pb.RangeResponse {
	a := &pb.RangeResponse{Header: s.header()}
	s.within(r.Key, r.RangeEnd, cmp.Or(max(r.Revision, 0), s.revision), func(kv *mvccpb.KeyValue) {
		a.Count++
		switch {
		case r.CountOnly:
			return
		case r.Limit > 0 && int64(len(a.Kvs)) == r.Limit:
			a.More = true
			return
		case r.KeysOnly:
			kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version}
		}
		a.Kvs = append(a.Kvs, kv)
	})
	return a
}
