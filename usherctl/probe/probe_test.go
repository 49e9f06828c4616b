package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/requests"
)

// nowhere are streams of tests that read files.
var nowhere = cli.Streams{In: strings.NewReader("")}

// TestShippedSamples: the API server accepts each object that is sent.
func TestShippedSamples(t *testing.T) {
	plain, err := engine.New(t.Context(), engine.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, d := range Shipped() {
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if v := plain.Judge(t.Context(), engine.Request{Object: d.JSON, Operation: "CREATE", New: true, Strict: true}); !v.Allowed() {
			t.Errorf("%s: %s", d.Source, v.Refusal.Message)
		}
	}
}

// TestChangedField: updates change a field that the API server lets one change, and stores; where there is none, an annotation.
func TestChangedField(t *testing.T) {
	given := requests.ReadFiles(nowhere, []string{"testdata/changed.yaml"}, false)
	plain, err := engine.New(t.Context(), engine.Cluster{Objects: (&registered{}).cluster(given)})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, d := range given[1:] {
		object, _ := ReadReview(d.JSON)
		want := text(at(object, "metadata", "annotations"), "want")
		if is := updateOf(t.Context(), plain, unstructured.Unstructured{Object: object}).what; is != "an update "+want+" of" {
			t.Errorf("%s: %s; want %s", d.Source, is, want)
		}
	}
}

// TestBounds: no more requests are sent than the bound allows, and tests that it cut short are not judged.
func TestBounds(t *testing.T) {
	h, asked := counting(t)
	notJudged, passed, at := 0, 0, ""
	h.Progress = func(text string) { at += text + "\n" }
	Run(t.Context(), &h.Hook, Tests(), Bound{40, 1 << 36, 1}, func(res Result) {
		if res.NotJudged != "" {
			notJudged++
		} else if len(res.Failures) == 0 && res.Skipped == "" {
			passed++
		}
	})
	if all := len(Tests()); strings.Count(at, "\n") != all || !strings.HasSuffix(at, fmt.Sprintf("\ntest %d of %d: alive\n", all, all)) {
		t.Error(at)
	}
	if n := asked.Load(); n > 40 || notJudged < 10 || passed == 0 {
		t.Errorf("%d requests were sent of 40; %d tests passed and %d are not judged", n, passed, notJudged)
	}
}

// TestCurl: the command of a request is one that a shell reads as it is meant, or none.
func TestCurl(t *testing.T) {
	const at = "https://127.0.0.1:1/a"
	for _, test := range []struct {
		x    Exchange
		want string
	}{
		{Exchange{Method: "GET"}, "curl -sSk -X GET " + at},
		{Exchange{Method: "POST", Body: []byte(`{"a":"it's"}`)}, `curl -sSk -H 'Content-Type: application/json' --data-binary '{"a":"it'\''s"}' ` + at},
		{Exchange{Method: "POST", Body: []byte("\x1f\x8b")}, ""},
		{Exchange{Method: "POST", Body: make([]byte, maxShown+1)}, ""},
	} {
		if got := test.x.Curl(at, ""); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// FuzzAnswer: any answer is read without a panic, and described in a line or two.
func FuzzAnswer(f *testing.F) {
	f.Add(200, []byte(`{"response":{"allowed":true,"patch":"W10="}}`))
	f.Add(500, []byte("no"))
	f.Add(200, []byte(`{"response":{"allowed":false,"status":{"message":"\u0000"}}}`))
	sample, _ := json.Marshal(map[string]any{"request": map[string]any{"object": map[string]any{}}})
	f.Fuzz(func(_ *testing.T, code int, answer []byte) {
		x := &Exchange{Code: code, Answer: answer, Body: sample}
		_ = x.Outcome()
		if a := x.read(); a != nil {
			_, _ = a.applied()
			_ = a.same(a)
		}
	})
}

// counting returns a webhook that allows everything and counts its requests.
func counting(t *testing.T) (*registered, *atomic.Int64) {
	t.Helper()
	asked := new(atomic.Int64)
	s := shape{decide: allow}
	return serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		s.ServeHTTP(w, r)
	})), asked
}

// TestDeletions: a webhook that is called for deletions alone is tested, though its requests have no object.
func TestDeletions(t *testing.T) {
	hooks := configured(t, shape{decide: allow}, configuration("Validating", "validate", "DELETE", v1))
	if err := hooks[0].addSamples(t.Context(), nil, false); err != nil || len(hooks[0].Samples) != 1 {
		t.Fatalf("%v: %d samples, want the deletion of a Pod", err, len(hooks[0].Samples))
	}
	passed := 0
	Run(t.Context(), &hooks[0].Hook, Tests(), Bound{400, time.Minute, time.Second}, func(res Result) {
		if res.NotJudged == "" && res.Skipped == "" && len(res.Failures) == 0 {
			passed++
		}
	})
	if passed < 15 {
		t.Errorf("only %d tests pass", passed)
	}
}
