package handlers

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"
)

// maxBody is the largest review in bytes: object and oldObject of at most 3 MiB each, which is the API server's own limit for
// what a client sends, and 1 MiB for the rest.
const maxBody = 7 << 20

// firstRoom is the room made for a body that has not sent anything yet, in bytes.
const firstRoom = 64 << 10

// roomSizes are the sizes of the room that a body is in, one after the other as it arrives. The last has a little more than the
// largest body, for the read that finds its end.
var roomSizes = [...]int{firstRoom, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, maxBody + 512}

// kept are the rooms of the first sizes whose reviews were answered. A step must not keep parts of an object beyond its run.
var kept [2]sync.Pool

// room is a buffer of one of the sizes.
type room struct {
	size  int // its index
	bytes []byte
}

func newRoom(size int) *room {
	if size < len(kept) {
		if r, ok := kept[size].Get().(*room); ok {
			return r
		}
	}
	return &room{size, make([]byte, 0, roomSizes[size])}
}

func (r *room) recycle() {
	if r.size < len(kept) {
		r.bytes = r.bytes[:0]
		kept[r.size].Put(r)
	}
}

// body is a request's body. It holds room as it arrives, so that who sends little holds little, whatever he announced.
type body struct {
	limits *Limits
	room   *room // nil: it holds nothing
}

// receive reads all of a body before ctx's deadline, as one that comes slower than its sender waits is of no use. Then reading
// has no deadline any more: later it would pass for a caller who went away. It has when the body was not read to its end, for
// net/http goes on reading it before it answers.
func (b *body) receive(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	deadline, _ := ctx.Deadline()
	_ = control.SetReadDeadline(deadline)
	if err := b.read(w, r); err != nil {
		return err
	}
	_ = control.SetReadDeadline(time.Time{})
	return nil
}

func (b *body) read(w http.ResponseWriter, r *http.Request) error {
	if err := checkHead(w, r); err != nil {
		return err
	}
	from := http.MaxBytesReader(w, r.Body, maxBody)
	for {
		if err := b.makeRoom(); err != nil {
			b.release()
			_, _ = io.Copy(io.Discard, from) // who is still writing would not read that he should try again
			return err
		}
		text := b.room.bytes
		n, err := from.Read(text[len(text):cap(text)])
		b.room.bytes = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return bodyFault(err)
		}
	}
}

// makeRoom makes the first room, and moves the body into the next larger one when its own is full.
func (b *body) makeRoom() error {
	size, held := 0, 0
	if b.room != nil {
		if len(b.room.bytes) < cap(b.room.bytes) {
			return nil
		}
		size, held = b.room.size+1, cap(b.room.bytes)
	}
	if err := b.limits.hold(roomSizes[size]-held, size == 0); err != nil {
		return err
	}
	larger := newRoom(size)
	if b.room != nil {
		larger.bytes = append(larger.bytes, b.room.bytes...)
		b.room.recycle()
	}
	b.room = larger
	return nil
}

// release gives back what the body holds.
func (b *body) release() {
	if b.room != nil {
		b.limits.drop(roomSizes[b.room.size])
		b.room.recycle()
		b.room = nil
	}
}

// checkHead refuses what is not a JSON body sent by POST, before a byte of it is read.
func checkHead(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &callerFault{http.StatusMethodNotAllowed, r.URL.Path + " takes an AdmissionReview by POST"}
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return &callerFault{http.StatusUnsupportedMediaType, "send plain JSON with -H 'Content-Type: application/json'"}
	}
	return nil
}

// bodyFault sorts what went wrong while a body was read. Half a review never counts.
func bodyFault(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &callerFault{http.StatusRequestEntityTooLarge, "the review is larger than 7 MiB"}
	}
	return badReview("the body ended early: %v", err)
}
