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

// MaxBody is the maximum size of a review in bytes: object and oldObject of at most 3 MiB each, which is the API
// server's own limit for requests of clients, and 1 MiB for the rest.
const MaxBody = 7 << 20

// firstBuffer is the size in bytes of the buffer for a body of which nothing has been read yet.
const firstBuffer = 64 << 10

// bufferSizes are the sizes of the buffers that a body moves through as it arrives. The last one is slightly larger
// than the largest body, for the read that finds its end.
var bufferSizes = [...]int{firstBuffer, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, MaxBody + 512}

// kept pools the buffers of the first sizes after their reviews have been answered. A step must not keep parts of an
// object after it has returned.
var kept [2]sync.Pool

// buffer is a buffer of one of the sizes.
type buffer struct {
	size  int // its index
	bytes []byte
}

func newBuffer(size int) *buffer {
	if size < len(kept) {
		if r, ok := kept[size].Get().(*buffer); ok {
			return r
		}
	}
	return &buffer{size, make([]byte, 0, bufferSizes[size])}
}

func (r *buffer) recycle() {
	if r.size < len(kept) {
		r.bytes = r.bytes[:0]
		kept[r.size].Put(r)
	}
}

// body is a request's body. Its buffer grows as it arrives, so a client that sends little occupies little memory,
// whatever Content-Length it has announced.
type body struct {
	limits *Limits
	buffer *buffer // nil if it holds nothing
}

// receive reads the whole body before ctx's deadline; a later body is of no use, because its sender has stopped
// waiting. Afterwards it removes the read deadline, which would later look like a client that went away. It leaves the
// deadline in place if the body was not read to its end, because net/http continues reading it before it answers.
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
	from := r.Body
	if r.ContentLength < 0 || r.ContentLength > MaxBody { // otherwise net/http reads no more than that
		from = http.MaxBytesReader(w, r.Body, MaxBody)
	}
	for {
		if err := b.grow(); err != nil {
			b.release()
			_, _ = io.Copy(io.Discard, from) // a client that is still writing would not read the answer
			return err
		}
		text := b.buffer.bytes
		n, err := from.Read(text[len(text):cap(text)])
		b.buffer.bytes = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			_ = r.Body.Close() // or net/http looks for more before it answers
			return nil
		}
		if err != nil {
			return bodyFault(err)
		}
	}
}

// grow makes the first buffer, or moves the body to the next larger one when its buffer is full.
func (b *body) grow() error {
	size, held := 0, 0
	if b.buffer != nil {
		if len(b.buffer.bytes) < cap(b.buffer.bytes) {
			return nil
		}
		size, held = b.buffer.size+1, cap(b.buffer.bytes)
	}
	if err := b.limits.hold(bufferSizes[size]-held, size == 0); err != nil {
		return err
	}
	larger := newBuffer(size)
	if b.buffer != nil {
		larger.bytes = append(larger.bytes, b.buffer.bytes...)
		b.buffer.recycle()
	}
	b.buffer = larger
	return nil
}

// release releases the memory that the body occupies.
func (b *body) release() {
	if b.buffer != nil {
		b.limits.drop(bufferSizes[b.buffer.size])
		b.buffer.recycle()
		b.buffer = nil
	}
}

// checkHead refuses a request that is not a POST with a JSON body, before reading any of the body; also one whose body is too
// large, if the client waits for 100 Continue: others would not read the answer before they have sent it.
func checkHead(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &badRequestError{http.StatusMethodNotAllowed, r.URL.Path + " takes an AdmissionReview by POST"}
	}
	if !isJSON(r.Header.Get("Content-Type")) || r.Header.Get("Content-Encoding") != "" {
		return &badRequestError{http.StatusUnsupportedMediaType, "send plain JSON with -H 'Content-Type: application/json'"}
	}
	if r.ContentLength > MaxBody && r.Header.Get("Expect") != "" {
		return errTooLarge
	}
	return nil
}

// errTooLarge is the caller's fault for a body of more than MaxBody.
var errTooLarge = &badRequestError{http.StatusRequestEntityTooLarge, "the review is larger than 7 MiB"}

// isJSON reports whether a Content-Type is JSON, with parameters or without.
func isJSON(contentType string) bool {
	const json = "application/json"
	if contentType == json {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == json
}

// bodyFault returns the fault for an error from reading a body. An incomplete review is never used.
func bodyFault(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return errTooLarge
	}
	return badReview("the body ended early: %v", err)
}
