package explain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/report"
)

// planted is a random object with secrets in all places where values are hidden, and an event with patches that move
// them about.
type planted struct {
	random  *rand.Rand
	secrets []string
}

func (p *planted) secret() string {
	s := fmt.Sprintf("s3cret%08x", p.random.Uint32())
	p.secrets = append(p.secrets, s)
	return s
}

func (p *planted) container(name string) map[string]any {
	return map[string]any{"name": name, "image": "a", "env": []any{
		map[string]any{"name": "A", "value": p.secret()},
		map[string]any{"name": "B", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "x"}}}}}
}

func (p *planted) object() map[string]any {
	annotations := map[string]any{"a": p.secret(), "kubectl.kubernetes.io/last-applied-configuration": `{"x":"` + p.secret() + `"}`}
	pod := map[string]any{"containers": []any{p.container("a"), p.container("b")}, "initContainers": []any{p.container("i")}}
	object := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "n", "annotations": annotations}, "spec": pod}
	if p.random.IntN(3) == 0 {
		object["kind"], object["spec"] = "Deployment", map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"t": p.secret()}}, "spec": pod}}
	}
	if p.random.IntN(3) == 0 {
		object = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "n", "annotations": annotations},
			"data": map[string]any{"k": base64.StdEncoding.EncodeToString([]byte(p.secret()))}, "stringData": map[string]any{"s": p.secret()}}
	}
	return object
}

func (p *planted) operation() map[string]any {
	op := []string{"add", "replace", "test"}[p.random.IntN(3)]
	move := []string{"copy", "move"}[p.random.IntN(2)]
	spec := []string{"/spec", "/spec/template/spec"}[p.random.IntN(2)]
	all := []map[string]any{
		{"op": op, "path": "/metadata/annotations", "value": map[string]any{"x": p.secret()}},
		{"op": op, "path": "/metadata/annotations/x~1y", "value": p.secret()},
		{"op": op, "path": "/metadata", "value": map[string]any{"annotations": map[string]any{"x": p.secret()}}},
		{"op": op, "path": spec + "/containers/-", "value": p.container("c")},
		{"op": op, "path": spec + "/containers/0/env", "value": p.container("c")["env"]},
		{"op": op, "path": spec + "/containers/0/env/-", "value": map[string]any{"name": "X", "value": p.secret()}},
		{"op": op, "path": spec + "/containers/0/env/0/value", "value": p.secret()},
		{"op": op, "path": spec + "/containers", "value": []any{p.container("c")}},
		{"op": op, "path": "/spec", "value": map[string]any{"containers": []any{p.container("c")}}},
		{"op": op, "path": "", "value": p.object()},
		{"op": op, "path": "/data/k", "value": p.secret(), "kind": "Secret"},
		{"op": op, "path": "/stringData", "value": map[string]any{"s": p.secret()}, "kind": "Secret"},
		{"op": "add", "path": "/metadata/labels", "value": map[string]any{}},
		{"op": move, "from": "/metadata/annotations/a", "path": "/metadata/labels"},
		{"op": move, "from": "/metadata/annotations", "path": "/metadata/labels"},
		{"op": move, "from": spec + "/containers/0/env/0/value", "path": spec + "/containers/0/image"},
		{"op": move, "from": spec + "/containers/0/env", "path": spec + "/containers/0/args"},
		{"op": move, "from": spec + "/containers/0/env/0", "path": spec + "/volumes"},
		{"op": move, "from": "/data", "path": "/metadata/labels", "kind": "Secret"},
		{"op": move, "from": "/metadata/labels", "path": "/metadata/finalizers"},
		{"op": move, "from": spec + "/containers/0", "path": "/metadata/labels"},
		{"op": "remove", "path": spec + "/containers/0/env/0"},
	}
	return all[p.random.IntN(len(all))]
}

// event makes an event about an object, with patches, and a message that quotes secrets.
func (p *planted) event() *Event {
	object := p.object()
	var patches []string
	for range 1 + p.random.IntN(3) {
		var operations []map[string]any
		for range 1 + p.random.IntN(4) {
			o := p.operation()
			if kind := o["kind"]; kind == nil || kind == object["kind"] {
				delete(o, "kind")
				operations = append(operations, o)
			}
		}
		raw, _ := json.Marshal(operations)
		patches = append(patches, string(raw))
	}
	raw, _ := json.Marshal(object)
	e := eventOf(string(raw), patches...)
	all, _ := json.Marshal(e)
	p.secrets = slices.DeleteFunc(p.secrets, func(s string) bool {
		return !bytes.Contains(all, []byte(s)) && !bytes.Contains(all, []byte(base64.StdEncoding.EncodeToString([]byte(s))))
	})
	e.ObjectRef.Resource = strings.ToLower(object["kind"].(string)) + "s"
	switch p.random.IntN(4) {
	case 0:
		e.Verb = "patch"
		e.ResponseStatus = status{Code: 403, Message: p.secrets[0]}
	case 1:
		e.ResponseStatus = status{Code: 403, Message: fmt.Sprintf("%s and %q and \"%s\"", p.secrets[0], p.secrets[len(p.secrets)-1],
			strings.Join(p.secrets, "\n"))}
	case 2:
		stored, _ := json.Marshal(p.object())
		e.ResponseObject = stored
	}
	e.Annotations["other.example.com/note"] = p.secret()
	return e
}

// TestSecretsStayHidden: no output has a secret, whatever the operations do with it.
func TestSecretsStayHidden(t *testing.T) {
	random := seed.Random(t)
	for range 1000 {
		p := &planted{random: random}
		e := p.event()
		reports := []report.Report{Of(e, Options{Blame: true})}
		var text bytes.Buffer
		report.Text(&text, reports[0], report.Style{Documents: true, Patch: true})
		raw, err := json.Marshal(reports)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(raw)
		if err := report.JUnit(&text, "usherctl explain", slices.Values(reports)); err != nil {
			t.Fatal(err)
		}
		for _, secret := range p.secrets {
			if bytes.Contains(text.Bytes(), []byte(secret)) || bytes.Contains(text.Bytes(), []byte(base64.StdEncoding.EncodeToString([]byte(secret)))) {
				event, _ := json.Marshal(e)
				t.Fatalf("%s is in the output\n%s\nof\n%s", secret, text.String(), event)
			}
		}
	}
}

// TestCopiedIntoLists: a value that was copied into a list stays hidden when another element is inserted before it.
func TestCopiedIntoLists(t *testing.T) {
	const object = `{"kind":"Pod","metadata":{"annotations":{"a":"s3cret"},"finalizers":[]}}`
	r := Of(eventOf(object, `[{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/finalizers/0"}]`,
		`[{"op":"add","path":"/metadata/finalizers/0","value":"x"}]`,
		`[{"op":"move","from":"/metadata/finalizers","path":"/metadata/labels"}]`), Options{})
	if raw, _ := json.Marshal(r); bytes.Contains(raw, []byte("s3cret")) || len(r.Calls) != 3 || r.Calls[2].Known != "rebuilt" {
		t.Errorf("%s", raw)
	}
}

// TestFindingsStayHidden: a finding quotes no value that is hidden elsewhere in the report.
func TestFindingsStayHidden(t *testing.T) {
	m := &mask.Mask{}
	m.Object(json.RawMessage(`{"metadata":{"annotations":{"a":"token-17"}}}`))
	r := report.Report{Findings: []report.Finding{{ID: "patch-does-not-apply", Message: "testing /metadata/annotations/a: token-17"}}}
	if hideTexts(m, &r); strings.Contains(r.Findings[0].Message, "token-17") {
		t.Error(r.Findings[0].Message)
	}
}

// FuzzRead: no file makes the reader fail in another way than with an error, and no line is lost.
func FuzzRead(f *testing.F) {
	f.Add([]byte(event + "\n{"))
	f.Add([]byte(`{"kind":"EventList","items":[` + event + `,null]}`))
	f.Add([]byte(`{"route":"/a","verdict":"denied"}`))
	patch, _ := json.Marshal(eventOf(podJSON, `[{"op":"copy","from":"/spec/containers/0/env","path":"/spec/x"},{"op":"add","path":"/-","value":1}]`))
	f.Add(bytes.Replace(patch, []byte(`{`), []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete",`), 1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		log := NewLog(Filter{})
		if err := log.Read("log", bytes.NewReader(raw)); err != nil {
			return
		}
		reports := log.Reports(Options{Blame: true})
		if _, err := json.Marshal(reports); err != nil {
			t.Fatal(err)
		}
		if textOf(reports) == "" {
			t.Error("nothing is said")
		}
	})
}

// TestMaskText: validation errors quote values, also those that are not in the event.
func TestMaskText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`x: metadata.annotations[a]: Invalid value: "v a\"l": must be b`, `x: metadata.annotations[a]: Invalid value: "***": must be b`},
		{`spec.containers[0].env[1].value: Invalid value: "v": no`, `spec.containers[0].env[1].value: Invalid value: "***": no`},
		{`metadata.annotations: Invalid value: "cut off`, `metadata.annotations: Invalid value: "***"`},
		{`data[k]: Unsupported value: 12: no`, `data[k]: Unsupported value: "***": no`},
		{`label-rules: metadata.annotations[a/b]: Forbidden: rule r: is immutable and was "v"; keep that value; denied-names: metadata.name: Forbidden: "n" is bad (refusal 01234567)`,
			`label-rules: metadata.annotations[a/b]: Forbidden: rule r: is immutable and was "***"; keep that value; denied-names: metadata.name: Forbidden: "n" is bad (refusal 01234567)`},
		{`metadata.annotations[a]: Required value: set it`, `metadata.annotations[a]: Required value: set it`},
		{`metadata.annotations[a]: Forbidden: may not be set`, `metadata.annotations[a]: Forbidden: may not be set`},
		{`metadata.labels[a]: Invalid value: "v": must be b`, `metadata.labels[a]: Invalid value: "v": must be b`},
	} {
		if got := maskText(&mask.Mask{}, c.text); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}
