// Package recording writes the reviews that a server receives to a file, for `usherctl playground`, and reads such a file.
package recording

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/recording/mask"
)

// Line is one review.
type Line struct {
	Time    time.Time       `json:"time"`
	Path    string          `json:"path"` // of the route
	Verdict string          `json:"verdict"`
	Review  json.RawMessage `json:"review"` // the AdmissionReview with its request
}

// MaxFile is the size in bytes at which a recording ends: it is for an hour of learning, and not a log.
const MaxFile = 100 << 20

// maxQueued is the maximum number of reviews that wait for the disk; further ones are left out.
const maxQueued = 64

// Recorder writes reviews to a file.
type Recorder struct {
	values bool // write what is otherwise hidden, too
	file   *os.File
	queue  chan Line // is never closed: a late review may still be observed
	end    chan struct{}
	done   chan struct{}
	left   atomic.Uint64 // out
}

// Open begins a recording. The file must not exist, as it may be one of another kind. Full is called once, when the file has
// reached MaxFile, or cannot be written.
func Open(name string, values bool, full func(error)) (*Recorder, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	r := &Recorder{values: values, file: file, queue: make(chan Line, maxQueued), end: make(chan struct{}), done: make(chan struct{})}
	go r.write(full)
	return r, nil
}

// Observe records a review. It never waits for the disk.
func (r *Recorder) Observe(route admit.Route, d handlers.Decision, _ time.Duration) {
	if d.Request == nil || d.Request.Review == nil {
		return
	}
	review := append([]byte(nil), d.Request.Review.Sent()...) // the server uses its buffer again
	select {
	case r.queue <- Line{time.Now().UTC(), route.Path, string(d.Outcome), review}:
	default:
		r.left.Add(1)
	}
}

// Close writes what waits, until ctx ends, and returns how many reviews were left out.
func (r *Recorder) Close(ctx context.Context) uint64 {
	close(r.end)
	select {
	case <-r.done:
		_ = r.file.Close()
	case <-ctx.Done():
	}
	return r.left.Load() + uint64(len(r.queue))
}

func (r *Recorder) write(full func(error)) {
	defer close(r.done)
	size, ended := 0, false
	for {
		line, more := r.next()
		if !more {
			return
		}
		if ended {
			r.left.Add(1)
			continue
		}
		text, err := r.encode(line)
		if err == nil && size+len(text) > MaxFile {
			err = fmt.Errorf("it has reached %d MiB", MaxFile>>20)
		}
		if err == nil {
			_, err = r.file.Write(text)
		}
		if err != nil {
			ended = true
			full(err)
			continue
		}
		size += len(text)
	}
}

// next returns the next review that waits; none after the end.
func (r *Recorder) next() (line Line, more bool) {
	select {
	case line := <-r.queue:
		return line, true
	case <-r.end:
	}
	select {
	case line := <-r.queue: // those that waited
		return line, true
	default:
		return Line{}, false
	}
}

// encode returns a line, with hidden values unless they are asked for.
func (r *Recorder) encode(line Line) ([]byte, error) {
	if !r.values {
		masked, err := masked(line.Review)
		if err != nil {
			return nil, err
		}
		line.Review = masked
	}
	text, err := json.Marshal(line) // compacts the review
	return append(text, '\n'), err
}

// masked returns a review without what mask.Mask hides, commands, arguments, headers of probes, and what an authenticator
// has added to the user.
func masked(body []byte) (json.RawMessage, error) {
	var review, request map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &review), json.Unmarshal(review["request"], &request)); err != nil {
		return nil, err
	}
	for _, key := range []string{"object", "oldObject"} {
		if len(request[key]) > 0 {
			request[key] = withoutCommands((&mask.Mask{}).Object(request[key]))
		}
	}
	if len(request["userInfo"]) > 0 {
		request["userInfo"] = withoutExtra(request["userInfo"])
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	review["request"] = raw
	return json.Marshal(review)
}

// withoutExtra returns a userInfo with the keys of extra, but not their values.
func withoutExtra(raw json.RawMessage) json.RawMessage {
	var user map[string]any
	if json.Unmarshal(raw, &user) != nil {
		return nil
	}
	if extra, ok := user["extra"].(map[string]any); ok {
		for key := range extra {
			extra[key] = []string{mask.Hidden}
		}
	}
	masked, _ := json.Marshal(user) // of what was JSON
	return masked
}

// withoutCommands returns an object with as many elements in each list command and args, and with as many httpHeaders, but
// not their values, wherever they are: in containers, hooks, probes, templates of pods, and the options of kubectl exec.
func withoutCommands(raw json.RawMessage) json.RawMessage {
	object, err := mask.Decode(raw)
	if err != nil {
		return nil
	}
	hideCommands(object)
	masked, _ := json.Marshal(object) // of what was JSON
	return masked
}

func hideCommands(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			list, isList := member.([]any)
			switch {
			case isList && (key == "command" || key == "args"):
				hideTexts(list)
			case isList && key == "httpHeaders":
				hideHeaders(list)
			default:
				hideCommands(member)
			}
		}
	case []any:
		for _, element := range v {
			hideCommands(element)
		}
	}
}

func hideTexts(list []any) {
	for i, element := range list {
		if _, text := element.(string); text {
			list[i] = mask.Hidden
		} else {
			hideCommands(element)
		}
	}
}

func hideHeaders(list []any) {
	for _, element := range list {
		if header, ok := element.(map[string]any); ok && header["value"] != nil {
			header["value"] = mask.Hidden
		}
	}
}

// maxLine is the maximum length of a line: a review, of which each byte may be escaped as six, and a little more.
const maxLine = 6*handlers.MaxBody + 1<<20

// Read reads a recording. A last line that is not complete is left out: it is being written.
func Read(in io.Reader) (lines []Line, err error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	for n := 1; scanner.Scan(); n++ {
		var line Line
		if problem := json.Unmarshal(scanner.Bytes(), &line); problem != nil || line.Path == "" || len(line.Review) == 0 {
			err = fmt.Errorf("line %d is not of a recording that `usher serve --record` has made", n)
			continue
		}
		if err != nil {
			return lines, err // the bad line was not the last one
		}
		lines = append(lines, line)
	}
	if scanner.Err() != nil {
		return lines, scanner.Err()
	}
	if len(lines) == 0 {
		return nil, err
	}
	return lines, nil
}
