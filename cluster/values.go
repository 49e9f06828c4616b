package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// values reads JSON values from a stream. It only finds where each ends, with one look at each byte; what decodes a value
// checks that it is JSON. json.Decoder looks at each byte of a value three times, and pods are read by the hundred thousand.
type values struct {
	in    *bufio.Reader
	small []byte // the text that was decoded last
}

func newValues(in io.Reader) *values { return &values{in: bufio.NewReaderSize(in, 64<<10)} }

// peek returns the next byte that is not white space, and leaves it there.
func (v *values) peek() (byte, error) {
	for {
		next, err := v.in.Peek(1)
		if err != nil {
			return 0, err
		}
		if c := next[0]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, nil
		}
		_, _ = v.in.Discard(1)
	}
}

// expect reads one byte, after white space.
func (v *values) expect(want byte) error {
	c, err := v.peek()
	if err != nil {
		return unexpected(err)
	}
	if c != want {
		return fmt.Errorf("%q instead of %q", c, want)
	}
	_, err = v.in.Discard(1)
	return err
}

// next returns the next value, in the memory of value, or more if that is too little. The error is io.EOF if there is none,
// and io.ErrUnexpectedEOF if it has no end.
func (v *values) next(value []byte) ([]byte, error) {
	value = value[:0]
	if _, err := v.peek(); err != nil {
		return value, err
	}
	for end := (ending{}); ; {
		if _, err := v.in.Peek(1); err != nil {
			if err == io.EOF && end.bare && len(value) > 0 {
				return value, nil // a number at the end of the stream
			}
			return value, unexpected(err)
		}
		chunk, _ := v.in.Peek(v.in.Buffered())
		n, found := end.in(chunk)
		value = append(value, chunk[:n]...)
		_, _ = v.in.Discard(n)
		if found {
			return value, nil
		}
	}
}

// decode reads and decodes the next value.
func (v *values) decode(into any) (err error) {
	if v.small, err = v.next(v.small); err != nil {
		return unexpected(err)
	}
	return json.Unmarshal(v.small, into)
}

// skip reads the next value.
func (v *values) skip() (err error) {
	v.small, err = v.next(v.small)
	return err
}

// members calls a function for each member of an object, which must read the value.
func (v *values) members(each func(name string) error) error {
	return v.list('{', '}', func() error {
		var name string
		if err := v.decode(&name); err != nil {
			return err
		}
		if err := v.expect(':'); err != nil {
			return err
		}
		return each(name)
	})
}

// list calls a function for each part of an array or object, with its brackets, which must read the part.
func (v *values) list(open, end byte, each func() error) error {
	if err := v.expect(open); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := v.peek()
		switch {
		case err != nil:
			return unexpected(err)
		case c == end:
			return v.expect(end)
		case !first:
			if err := v.expect(','); err != nil {
				return err
			}
		}
		if err := each(); err != nil {
			return unexpected(err)
		}
	}
}

// unexpected returns the error for the end of the stream within a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ending finds the end of a value in chunks of it.
type ending struct {
	depth             int
	quoted, backslash bool // in a string, and after a backslash there
	bare              bool // in a value that is no object, array or string
}

// in returns how much of a chunk belongs to the value, and whether that is its end.
func (e *ending) in(chunk []byte) (n int, found bool) {
	at := *e // in registers
	for i := 0; i < len(chunk); i++ {
		if at.quoted && !at.backslash {
			if i = endOfPlain(chunk, i); i == len(chunk) {
				break
			}
		}
		switch c := chunk[i]; {
		case at.backslash:
			at.backslash = false
		case at.quoted && c == '\\':
			at.backslash = true
		case at.quoted:
			if at.quoted = false; at.depth == 0 {
				return i + 1, true
			}
		case at.bare && bytes.IndexByte([]byte(" \n\r\t,:]}[{\""), c) >= 0:
			return i, true
		case at.bare:
		case c == '"':
			at.quoted = true
		case c == '{' || c == '[':
			at.depth++
		case c == '}' || c == ']':
			if at.depth--; at.depth <= 0 {
				return i + 1, true
			}
		case at.depth == 0:
			at.bare = true
		}
	}
	*e = at
	return len(chunk), false
}

// endOfPlain returns the position of the next quote or backslash at or after i; the length if there is none.
func endOfPlain(chunk []byte, i int) int {
	for i < len(chunk) && chunk[i] != '"' && chunk[i] != '\\' {
		i++
	}
	return i
}

// managed is the beginning of managedFields in the text of an API server.
var managed = []byte(`"managedFields":[{"manager":`)

// withoutManagedFields returns an object without its managedFields, in the same memory. They are often larger than all the
// rest, and no collection keeps them. They stay where they look otherwise than an API server writes them.
func withoutManagedFields(raw []byte) []byte {
	from := bytes.Index(raw, managed)
	if from < 1 || raw[from-1] == '\\' {
		return raw
	}
	from += len(`"managedFields":[`)
	n, found := (&ending{depth: 1}).in(raw[from:])
	if !found {
		return raw
	}
	return append(raw[:from], raw[from+n-1:]...)
}
