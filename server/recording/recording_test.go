package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
)

const reviewed = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "UPDATE",
 "kind": {"version": "v1", "kind": "Pod"}, "resource": {"version": "v1", "resource": "pods"},
 "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"a": "s3cret"}}, "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "s3cret"}]}]}},
 "oldObject": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"a": "s3cret"}}}}}`

// record records one review, and returns the file.
func record(t *testing.T, values bool, reviews ...string) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "reviews")
	r, err := Open(name, values, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range reviews {
		_, request, err := handlers.ReadReview([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Observe(admit.Route{Path: "/validate-pods"}, handlers.Decision{Outcome: handlers.Allowed, Request: request}, 0)
	}
	if left := r.Close(t.Context()); left > 0 {
		t.Errorf("%d reviews were left out", left)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestRecording: what is recorded can be read again, and decided again; values are hidden unless they are asked for.
func TestRecording(t *testing.T) {
	for _, values := range []bool{false, true} {
		content := record(t, values, reviewed, reviewed)
		lines, err := Read(bytes.NewReader(content))
		if err != nil || len(lines) != 2 || lines[0].Path != "/validate-pods" || lines[0].Verdict != "allowed" || lines[0].Time.IsZero() {
			t.Fatalf("%v %+v", err, lines)
		}
		if bytes.Contains(content, []byte("s3cret")) != values {
			t.Errorf("values: %v\n%s", values, content)
		}
		_, request, err := handlers.ReadReview(lines[1].Review)
		if err != nil || request.ObjectName() != "p" || request.OldObject == nil {
			t.Errorf("the review cannot be decided again: %v %+v", err, request)
		}
	}
}

// TestHidden: commands, arguments, headers and what an authenticator has added are hidden wherever they are, and the rest is
// as it was sent: what does not read them decides as before.
func TestHidden(t *testing.T) {
	const probe = `{"exec": {"command": ["s3cret"]}, "httpGet": {"port": 80, "httpHeaders": [{"name": "Authorization", "value": "s3cret"}]}}`
	const container = `{"name": "c", "image": "i", "command": ["sh", "s3cret"], "args": ["s3cret"], "livenessProbe": ` + probe + `, "lifecycle": {"preStop": ` + probe + `}}`
	const spec = `{"priority": 9007199254740993, "containers": [` + container + `], "initContainers": [` + container + `]}`
	for kind, object := range map[string]string{
		`"version": "v1", "kind": "Pod"`:                         `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"command": "stays", "args": "stays"}}, "spec": ` + spec + `}`,
		`"group": "apps", "version": "v1", "kind": "Deployment"`: `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "p"}, "spec": {"template": {"spec": ` + spec + `}}}`,
		`"version": "v1", "kind": "PodExecOptions"`:              `{"apiVersion": "v1", "kind": "PodExecOptions", "container": "c", "command": ["s3cret"]}`,
	} {
		review := `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "userInfo": {"username": "ann",
 "groups": ["dev"], "extra": {"token": ["s3cret", "s3cret"]}}, "kind": {` + kind + `}, "resource": {"version": "v1", "resource": "pods"}, "object": ` + object + `}}`
		lines, err := Read(bytes.NewReader(record(t, false, review)))
		if err != nil || len(lines) != 1 {
			t.Fatal(err)
		}
		if bytes.Contains(lines[0].Review, []byte("s3cret")) {
			t.Errorf("a secret is in %s", lines[0].Review)
		}
		var got, want any
		hidden := strings.NewReplacer(`"s3cret", "s3cret"]}}`, `"***"]}}`, "s3cret", "***", `"sh"`, `"***"`).Replace(review)
		if err := errors.Join(json.Unmarshal(lines[0].Review, &got), json.Unmarshal([]byte(hidden), &want)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n%s\nwant\n%s", err, lines[0].Review, hidden)
		}
		if strings.Contains(review, "9007199254740993") && !bytes.Contains(lines[0].Review, []byte("9007199254740993")) {
			t.Error("a number was rounded")
		}
	}
}

// TestRead: a line that is being written is left out; a file of another kind, and a bad line within, are errors. A
// recording never overwrites a file.
func TestRead(t *testing.T) {
	good := string(record(t, false, reviewed))
	for _, c := range []struct {
		text  string
		lines int
		err   string
	}{
		{"", 0, ""},
		{good, 1, ""},
		{good + good[:20], 1, ""},
		{good + "{}\n" + good, 1, "line 2"},
		{"kind: Pod\n", 0, "line 1"},
	} {
		lines, err := Read(strings.NewReader(c.text))
		if len(lines) != c.lines || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.40q: %d lines, %v; want %d, %q", c.text, len(lines), err, c.lines, c.err)
		}
	}
	name := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, false, nil); err == nil {
		t.Error("a file was overwritten")
	}
}

// TestRecordingEnds: a file that cannot be written ends the recording, once, and not the reviews.
func TestRecordingEnds(t *testing.T) {
	ended := 0
	r, err := Open(filepath.Join(t.TempDir(), "reviews"), false, func(error) { ended++ })
	if err != nil {
		t.Fatal(err)
	}
	_ = r.file.Close()
	_, request, _ := handlers.ReadReview([]byte(reviewed))
	for range 3 {
		r.Observe(admit.Route{Path: "/validate-pods"}, handlers.Decision{Request: request}, 0)
	}
	r.Observe(admit.Route{}, handlers.Decision{}, 0) // a body that is no review is not recorded
	if left := r.Close(t.Context()); ended != 1 || left != 2 {
		t.Errorf("ended %d times, %d left out", ended, left)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"path": "/p", "review": {}}` + "\n" + `{"path`))
	f.Fuzz(func(t *testing.T, content []byte) {
		lines, _ := Read(bytes.NewReader(content))
		for _, l := range lines {
			if l.Path == "" || len(l.Review) == 0 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestLongLine: the largest review that the server takes can be read again, also if its text is escaped.
func TestLongLine(t *testing.T) {
	long := strings.Replace(reviewed, `"name": "A"`, `"name": "`+strings.Repeat("<", handlers.MaxBody-2000)+`"`, 1)
	for _, values := range []bool{false, true} {
		if lines, err := Read(bytes.NewReader(record(t, values, long, reviewed))); err != nil || len(lines) != 2 {
			t.Errorf("values %v: %d lines, %v", values, len(lines), err)
		}
	}
}
