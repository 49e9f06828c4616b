// Package memetcd is the part of etcd's API that kube-apiserver uses, in memory: ranges at any kept revision, transactions, watches
// with progress requests, leases and compaction. Requests that need another part are refused with code Unimplemented.
//
//	serve.go     the server, leases and status
//	requests.go  ranges, puts and deletes, as transactions
//	store.go     the versions of keys
//	watch.go     watches
package memetcd

import (
	"context"
	"math"
	"net"
	"path/filepath"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// version is that of etcd whose answers are given: kube-apiserver chooses by it.
const version = "3.7.3"

// server is the store as etcd's services.
type server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedMaintenanceServer
	*store
}

// Serve serves at a listener until stop is called. Whoever reaches the listener may read and write all.
func Serve(listener net.Listener) (stop func()) {
	s := server{store: newStore()}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(2*maxRequest), grpc.MaxSendMsgSize(math.MaxInt32))
	pb.RegisterKVServer(g, s)
	pb.RegisterWatchServer(g, s)
	pb.RegisterLeaseServer(g, s)
	pb.RegisterMaintenanceServer(g, s)
	go func() { _ = g.Serve(listener) }() // ends with stop
	return func() { g.Stop(); s.endLeases() }
}

// ServeIn serves on a socket in a directory, which must be private. The path of the directory must be short, since that of a socket
// has at most 107 bytes. The address is one for kube-apiserver's --etcd-servers.
func ServeIn(dir string) (address string, stop func(), err error) {
	path := filepath.Join(dir, "etcd.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return "", nil, err
	}
	return "unix://" + path, Serve(listener), nil
}

// LeaseGrant grants a lease, at whose end the keys that have it are deleted.
func (s server) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.ID
	if id == 0 {
		s.lastLease++
		id = s.lastLease
	}
	if s.leases[id] != nil {
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	s.leases[id] = time.AfterFunc(time.Duration(r.TTL)*time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.revoke(id)
	})
	return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: r.TTL}, nil
}

// LeaseRevoke ends a lease.
func (s server) LeaseRevoke(_ context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[r.ID] == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.revoke(r.ID)
	return &pb.LeaseRevokeResponse{Header: s.header()}, nil
}

// Status returns a version, and a size that is no reason for an alarm.
func (s server) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.StatusResponse{Header: s.header(), Version: version, DbSize: 1, DbSizeInUse: 1, Leader: 1, RaftTerm: 1}, nil
}

// Alarm returns no alarm.
func (s server) Alarm(context.Context, *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.AlarmResponse{Header: s.header()}, nil
}

// header returns the header of an answer. The store must be locked.
func (s *store) header() *pb.ResponseHeader { return headerAt(s.revision) }

func headerAt(revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 1, Revision: revision, RaftTerm: 1}
}
