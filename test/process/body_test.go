package process

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"usher.dev/usher/handlers"
	"usher.dev/usher/test/harness"
)

// These tests run processes against everything that the network, clients and operators may do to a service: invalid
// bodies and connections, too many of them, clients that go away, bugs in steps, signals under load. After each of them
// the service must answer as before.
//
// go test -short runs a short form, USHER_LONG=1 a long one.

const podSample = "mutate-pods/lifespan-three"

// maxReview is the maximum size of a review in bytes.
const maxReview = 7 << 20

// badBody is an invalid body in a well-formed HTTP request.
type badBody struct {
	name string
	body []byte
	code int
	says string // part of the answer
}

// edited returns the pod sample with one text replaced.
func edited(t *testing.T, old, now string) []byte {
	t.Helper()
	body := harness.ReadSample(t, podSample)
	if !bytes.Contains(body, []byte(old)) {
		t.Fatalf("%s has no %s", podSample, old)
	}
	return bytes.Replace(body, []byte(old), []byte(now), 1)
}

// inObject returns the pod sample with an unknown field of the given value at the top of the pod.
func inObject(t *testing.T, value string) []byte {
	t.Helper()
	return edited(t, `"spec": {`, `"unknown": `+value+`, "spec": {`)
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// wide returns text in UTF-16, as some editors save it.
func wide(text []byte) []byte {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(string(text))) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

func badBodies(t *testing.T) []badBody {
	good := harness.ReadSample(t, podSample)
	allowed, denied, patched := `"allowed":true`, `"allowed":false`, `"patch":"`
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	return []badBody{
		{"empty", nil, 400, "ends too early"},
		{"white space", []byte(" \r\n\t"), 400, "ends too early"},
		{"one byte under the limit", padded(good, maxReview-1), 200, patched},
		{"at the limit", padded(good, maxReview), 200, patched},
		{"one byte over the limit", padded(good, maxReview+1), 413, "larger than 7 MiB"},
		{"far over the limit", padded(good, 3*maxReview), 413, "larger than 7 MiB"},
		{"limit of nonsense", bytes.Repeat([]byte("x"), maxReview), 400, "not JSON"},
		{"a string of 6 MiB", inObject(t, `"`+strings.Repeat("x", 6<<20)+`"`), 200, patched},
		{"nested deep", inObject(t, nested(9_990)), 200, patched},
		{"nested too deep", inObject(t, nested(10_001)), 400, "nested deeper"},
		{"nested for ever", []byte(strings.Repeat("[", maxReview)), 400, "nested deeper"},
		{"objects for ever", []byte(strings.Repeat(`{"a":`, maxReview/5)), 400, "nested deeper"},
		{"another kind of review", edited(t, "AdmissionReview", "ConversionReview"), 400, "is not an AdmissionReview"},
		{"another version", edited(t, "admission.k8s.io/v1", "admission.k8s.io/v3"), 400, "is not an AdmissionReview"},
		{"another kind of object", bytes.ReplaceAll(good, []byte(`"Pod"`), []byte(`"Secret"`)), 400, "not for v1 Secret"},
		{"null", []byte("null"), 400, "is not an AdmissionReview"},
		{"null request", []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`), 400, "request.uid is missing"},
		{"request of another type", []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":[]}`), 400, "request"},
		{"null object", edited(t, `"object": {`, `"object": null, "else": {`), 400, "request.object is missing"},
		{"duplicate key in the review", edited(t, `"operation"`, `"operation": "DELETE", "operation"`), 400, "duplicate key"},
		{"duplicate key in the object", edited(t, `"labels"`, `"labels": {}, "labels"`), 400, "duplicate key"},
		{"duplicate key, escaped", edited(t, `"labels"`, `"l\u0061bels": {}, "labels"`), 400, "duplicate key"},
		{"invalid UTF-8 in a value", inObject(t, "\"\xff\""), 400, "invalid UTF-8"},
		{"invalid UTF-8 in a key", inObject(t, "{\"\xc0\xaf\": 1}"), 400, "invalid UTF-8"},
		{"half a surrogate pair", inObject(t, `"\ud800"`), 400, "surrogate"},
		{"a zero byte", inObject(t, "\"a\x00b\""), 400, "control character"},
		{"byte order mark", append([]byte("\xef\xbb\xbf"), good...), 400, "not JSON"},
		{"UTF-16", wide(good), 400, "not JSON"},
		{"1e999 in an unknown field", inObject(t, "1e999"), 200, patched},
		{"1e999 where a bool stands", edited(t, `"dryRun": false`, `"dryRun": 1e999`), 400, "dryRun"},
		{"1e999 where a string stands", edited(t, `-requested": "3"`, `-requested": 1e999`), 200, denied},
		{"10,000 digits", inObject(t, strings.Repeat("9", 10_000)), 200, patched},
		{"10,000 digits of exponent", inObject(t, "1e"+strings.Repeat("9", 10_000)), 200, patched},
		{"a number of the limit's size", []byte(strings.Repeat("9", maxReview)), 400, "is not an AdmissionReview"},
		{"two reviews", append(slices.Clip(good), good...), 400, "something follows"},
		{"a review and a comment", append(slices.Clip(good), "// done"...), 400, "something follows"},
		{"gzip, not said", zipped(good), 400, "not JSON"},
		{"a deletion", edited(t, "CREATE", "DELETE"), 200, allowed},
	}
}

// TestProcessBadBodies: each bad body gets the status of the caller's fault, and the next review is answered.
func TestProcessBadBodies(t *testing.T) {
	p := launched(t, launch{})
	for _, c := range badBodies(t) {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.send("/mutate-pods?timeout=30s", c.body, nil)
			if err != nil || got.code != c.code || !strings.Contains(got.body, c.says) || c.code != 200 && len(got.body) > 400 {
				t.Errorf("%v, %d %.500s, want %d %s", err, got.code, got.body, c.code, c.says)
			}
			p.wantAlive(t)
		})
	}
	p.wantNoFault(t)
}

// wantNoFault fails the test if the log has an error of ours or a panic.
func (p *process) wantNoFault(t *testing.T) {
	t.Helper()
	if failed, panics := p.outcomes(t, handlers.Failed), p.metric(t, "usher_panics_total"); failed != 0 || panics != 0 {
		t.Errorf("%d errors of ours, %v panics", failed, panics)
	}
}

// TestProcessBadHeads: requests that are refused because of their heads.
func TestProcessBadHeads(t *testing.T) {
	p := launched(t, launch{})
	good := harness.ReadSample(t, podSample)
	for _, c := range []struct {
		name   string
		header map[string]string
		body   []byte
		code   int
		says   string
	}{
		{"gzip", map[string]string{"Content-Encoding": "gzip"}, zipped(good), 415, "plain JSON"},
		{"gzip that is none", map[string]string{"Content-Encoding": "gzip"}, good, 415, "plain JSON"},
		{"a form", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, good, 415, "application/json"},
		{"protobuf", map[string]string{"Content-Type": "application/vnd.kubernetes.protobuf"}, good, 415, "application/json"},
		{"no media type", map[string]string{"Content-Type": ""}, good, 415, "application/json"},
		{"a media type that is none", map[string]string{"Content-Type": ";;="}, good, 415, "application/json"},
		{"a charset", map[string]string{"Content-Type": "application/json; charset=utf-8"}, good, 200, `"patch":"`},
		{"asked to wait for 100 Continue", map[string]string{"Expect": "100-continue"}, good, 200, `"patch":"`},
		{"refused before all of it is sent", map[string]string{"Content-Type": "text/plain"}, padded(good, maxReview), 415, "application/json"},
		{"asked for something else", map[string]string{"Expect": "a miracle"}, good, 417, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := p.send("/mutate-pods", c.body, c.header)
			if err != nil || got.code != c.code || !strings.Contains(got.body, c.says) {
				t.Errorf("%v, %d %.500s, want %d %s", err, got.code, got.body, c.code, c.says)
			}
			p.wantAlive(t)
		})
	}
	p.wantNoFault(t)
}

// TestProcessExpect: a client that waits for 100 Continue gets it with the first byte that is read, and gets a refusal of its head
// at once instead.
func TestProcessExpect(t *testing.T) {
	p := launched(t, launch{})
	expecting := func(length int) string {
		return strings.Replace(head("/mutate-pods?timeout=30s", length), "\r\n", "\r\nExpect: 100-continue\r\n", 1)
	}
	for _, c := range []struct {
		name, head string
		code       int
	}{
		{"the largest", expecting(maxReview), 100},
		{"one byte over the limit", expecting(maxReview + 1), 413},
		{"9 MB", expecting(9e6), 413},
		{"no JSON", strings.Replace(expecting(9e6), "application/json", "text/plain", 1), 415},
		{"a GET", strings.Replace(expecting(10), "POST", "GET", 1), 405},
	} {
		w := p.dial(t)
		if _, err := io.WriteString(w, c.head); err != nil {
			t.Fatal(err)
		}
		if got, err := http.ReadResponse(w.in, nil); err != nil || got.StatusCode != c.code {
			t.Errorf("%s: %v, %v, want %d", c.name, err, got, c.code)
		}
		_ = w.Close()
	}
	p.wantNoFault(t)
}

// TestProcessTruncated: no prefix of a review is accepted, whether the body or the connection ends there.
func TestProcessTruncated(t *testing.T) {
	p := launched(t, launch{})
	good := bytes.TrimSpace(harness.ReadSample(t, podSample))
	for n := 0; n < len(good); n += scaled(97, 5, 1) {
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods", good[:n], nil)
		if err != nil || got.code != 400 {
			t.Fatalf("a body of the first %d bytes: %v, %d %s", n, err, got.code, got.body)
		}
	}
	p.wantAlive(t)
	for n := 0; n < len(good); n += scaled(397, 61, 1) {
		w := p.dial(t)
		_, _ = io.WriteString(w, whole("/mutate-pods", good)[:len(head("/mutate-pods", len(good)))+n])
		_ = w.CloseWrite()
		if got, err := w.answer(); err != nil || got.code != 400 {
			t.Fatalf("a connection that ends after the first %d bytes: %v, %d %s", n, err, got.code, got.body)
		}
		_ = w.Close()
	}
	p.wantAlive(t)
	p.wantNoFault(t)
}

// TestProcessSlowBody: a body that arrives in small pieces is read; a body that stops in the middle is not a review.
func TestProcessSlowBody(t *testing.T) {
	p := launched(t, launch{})
	body := harness.ReadSample(t, podSample)
	before := p.goroutines(t)
	for _, cut := range []bool{false, true} {
		w := p.dial(t)
		request := whole("/mutate-pods", body)
		drops := len(request) - scaled(20, 100, len(body))
		if _, err := io.WriteString(w, request[:drops]); err != nil {
			t.Fatal(err)
		}
		for i := drops; i < len(request) && !(cut && i == len(request)-1); i++ {
			if _, err := w.Write([]byte{request[i]}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		p.wantAlive(t)
		if cut {
			w.abort()
			continue
		}
		if got, err := w.answer(); err != nil || got.code != 200 || !strings.Contains(got.body, `"patch":"`) {
			t.Errorf("a slow review: %v, %d %s", err, got.code, got.body)
		}
		_ = w.Close()
	}
	eventually(t, "the one that was cut is counted", func() bool { return p.gaveUp(t) == 1 })
	p.wantNoLeak(t, before)
	p.wantNoFault(t)
}

// gaveUp returns the number of reviews whose callers went away, counted as canceled or, for a partial body, as invalid.
func (p *process) gaveUp(t *testing.T) int {
	t.Helper()
	return p.outcomes(t, handlers.Canceled) + p.outcomes(t, handlers.Invalid)
}

// TestProcessBodyThatNeverComes: a client that stops sending gets an answer when its own timeout is over, and no memory
// stays occupied.
func TestProcessBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	p := launched(t, launch{})
	before := p.goroutines(t)
	largest := whole("/mutate-pods?timeout=1s", padded(harness.ReadSample(t, podSample), maxReview))
	cases := []struct {
		name, text string
		code       int
	}{
		{"nothing", head("/mutate-pods?timeout=1s", 1000), 400},
		{"half a body", head("/mutate-pods?timeout=1s", 1000) + "{", 400},
		{"most of a large body", largest[:len(largest)-100_000], 400},
		{"a tenth of a large body", largest[:len(largest)/10], 400},
		{"no chunk", strings.Replace(chunked(), "/mutate-pods", "/mutate-pods?timeout=1s", 1), 400},
		{"another media type", strings.Replace(head("/mutate-pods?timeout=1s", 1000), "/json", "/yaml", 1), 415},
	}
	inParallel(len(cases), len(cases), func(i int) {
		c := cases[i]
		w, err := p.tryDial()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(w, c.text)
		if got, err := w.answer(); err != nil || got.code != c.code {
			t.Errorf("%s: %v, %d %s, want %d", c.name, err, got.code, got.body, c.code)
		}
		if got, err := w.answer(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open: %v, %d", c.name, err, got.code)
		}
		_ = w.Close()
	})
	p.wantNoLeak(t, before)
	p.wantAllRoom(t)
	p.wantNoFault(t)
}

// TestProcessLongTexts: long texts in the small fields of a review are shortened in the log and in messages.
func TestProcessLongTexts(t *testing.T) {
	p := launched(t, asDeployed)
	long := strings.Repeat("x", 3<<20)
	for name, body := range map[string][]byte{
		"uid":       edited(t, "d9fd772f-78ce-4ef6-a926-0ab79216a74b", long),
		"user":      edited(t, "developer", long),
		"name":      edited(t, `"name": "lifespan-three"`, fmt.Sprintf(`"name": %q`, long)),
		"operation": edited(t, "CREATE", long),
		"kind":      bytes.ReplaceAll(harness.ReadSample(t, podSample), []byte(`"Pod"`), []byte(`"`+long[:1<<20]+`"`)),
		"label":     edited(t, `-requested": "3"`, fmt.Sprintf(`-requested": %q`, long)),
	} {
		before := len(p.log.String())
		got, err := p.send("/mutate-pods", body, nil)
		if err != nil || len(got.body) > 8<<10 {
			t.Errorf("%s: %v, an answer %d of %d bytes", name, err, got.code, len(got.body))
		}
		p.wantAlive(t)
		if logged := len(p.log.String()) - before; logged > 8<<10 {
			t.Errorf("%s: %d bytes are logged", name, logged)
		}
	}
	p.wantMemory(t, deployedMemory)
}
