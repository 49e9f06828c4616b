package memetcd

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// progressEvery is the time after which watches without events are told the revision, if they ask for it.
const progressEvery = time.Minute

// noWatch is the ID in answers that are for no watch, or for all.
const noWatch = -1

// watch is a watch of a stream.
type watch struct {
	*pb.WatchCreateRequest
	next int64 // the first revision whose events it has not been sent
}

// stream is what a client watches.
type stream struct {
	*store
	pb.Watch_WatchServer
	watches []*watch
	lastID  int64
}

// Watch serves the watches of a client until it ends.
func (s server) Watch(client pb.Watch_WatchServer) error {
	w := &stream{store: s.store, Watch_WatchServer: client, lastID: noWatch}
	requests := w.requests()
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	for {
		changed, _, err := w.deliver()
		if err != nil {
			return err
		}
		select {
		case <-client.Context().Done():
			return client.Context().Err()
		case r, more := <-requests:
			if !more {
				return nil
			}
			err = w.answer(r)
		case <-progress.C:
			err = w.tellProgress()
		case <-changed:
		}
		if err != nil {
			return err
		}
	}
}

// requests returns the client's requests. The channel is closed after the last.
func (w *stream) requests() <-chan *pb.WatchRequest {
	all := make(chan *pb.WatchRequest)
	go func() {
		defer close(all)
		for {
			r, err := w.Recv()
			if err != nil {
				return
			}
			select {
			case all <- r:
			case <-w.Context().Done():
				return
			}
		}
	}()
	return all
}

func (w *stream) answer(r *pb.WatchRequest) error {
	switch u := r.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		return w.Send(w.create(u.CreateRequest))
	case *pb.WatchRequest_CancelRequest:
		return w.cancel(u.CancelRequest.WatchId)
	}
	_, revision, err := w.deliver()
	if err != nil {
		return err
	}
	return w.Send(&pb.WatchResponse{Header: headerAt(revision), WatchId: noWatch})
}

// create adds a watch.
func (w *stream) create(r *pb.WatchCreateRequest) *pb.WatchResponse {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &pb.WatchResponse{Header: w.header(), WatchId: noWatch, Created: true, Canceled: true}
	if len(r.Filters) > 0 || r.Fragment || r.WatchId != 0 {
		a.CancelReason = missing("filters, fragments and IDs of the client").Error()
		return a
	}
	added := &watch{WatchCreateRequest: r, next: r.StartRevision}
	if added.next == 0 {
		added.next = w.revision + 1
	}
	w.lastID++
	r.WatchId = w.lastID
	w.watches = append(w.watches, added)
	a.WatchId, a.Canceled = r.WatchId, false
	return a
}

func (w *stream) cancel(id int64) error {
	i := slices.IndexFunc(w.watches, func(w *watch) bool { return w.WatchId == id })
	if i < 0 {
		return nil
	}
	w.watches = slices.Delete(w.watches, i, i+1)
	w.mu.Lock()
	header := w.header()
	w.mu.Unlock()
	return w.Send(&pb.WatchResponse{Header: header, WatchId: id, Canceled: true})
}

// deliver sends all events until a revision to the watches, and returns that and what tells the next change. Watches whose events
// are gone are cancelled.
func (w *stream) deliver() (changed <-chan struct{}, revision int64, err error) {
	var answers []*pb.WatchResponse
	w.mu.Lock()
	w.watches = slices.DeleteFunc(w.watches, func(one *watch) (gone bool) {
		a := &pb.WatchResponse{Header: w.header(), WatchId: one.WatchId}
		if gone = one.next < w.compacted; gone {
			a.CompactRevision, a.Canceled = w.compacted, true
		}
		a.Events = w.eventsOf(one)
		one.next = max(one.next, w.revision+1)
		if gone || len(a.Events) > 0 {
			answers = append(answers, a)
		}
		return gone
	})
	changed, revision = w.changed, w.revision
	w.mu.Unlock()
	for _, a := range answers {
		if err := w.Send(a); err != nil {
			return nil, 0, err
		}
	}
	return changed, revision, nil
}

// eventsOf returns the events that a watch has not been sent.
func (s *store) eventsOf(w *watch) (events []*mvccpb.Event) {
	if w.next < s.compacted {
		return nil
	}
	for _, kv := range s.events[s.firstEvent(w.next):] {
		if !in(string(kv.Key), w.Key, w.RangeEnd) {
			continue
		}
		e := &mvccpb.Event{Kv: kv}
		if kv.Version == 0 {
			e.Type = mvccpb.Event_DELETE
		}
		if w.PrevKv {
			e.PrevKv = s.at(string(kv.Key), kv.ModRevision-1)
		}
		events = append(events, e)
	}
	return events
}

// tellProgress tells the watches that ask for it the revision until which they have all events.
func (w *stream) tellProgress() error {
	_, revision, err := w.deliver()
	if err != nil {
		return err
	}
	for _, one := range w.watches {
		if !one.ProgressNotify || one.next != revision+1 {
			continue
		}
		if err := w.Send(&pb.WatchResponse{Header: headerAt(revision), WatchId: one.WatchId}); err != nil {
			return err
		}
	}
	return nil
}
