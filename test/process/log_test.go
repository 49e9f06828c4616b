package process

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// TestProcessLog: a process that ends while it is busy has written a line for each review that it has answered, and then
// that it has stopped.
func TestProcessLog(t *testing.T) {
	p := launched(t, launch{})
	body := harness.ReadSample(t, podSample)
	var answered atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for got, err := p.send("/mutate-pods", body, nil); err == nil && got.code == 200; got, err = p.send("/mutate-pods", body, nil) {
				answered.Add(1)
			}
		})
	}
	eventually(t, "it is busy", func() bool { return answered.Load() > 100 })
	p.signal(t, syscall.SIGTERM)
	p.wantExit(t)
	all.Wait()
	count, last := map[string]int64{}, ""
	for text := range strings.Lines(p.log.String()) {
		var line struct{ Msg string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		last = line.Msg
		count[last]++
	}
	if count["review"] < answered.Load() || last != "stopped" {
		t.Errorf("%d answered, %v, and at the end %q", answered.Load(), count, last)
	}
}

// TestLogHoldsNoValues: whatever the verdict on a sample, its log line does not contain an annotation, an environment
// variable, or data of a ConfigMap or Secret.
func TestLogHoldsNoValues(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	log.SetFormatter(&logrus.JSONFormatter{})
	edge := harness.DefaultServer()
	edge.Observe = handlers.Log(log)
	instances := harness.NewInstances(routes.Suites())
	denied := 0
	for _, name := range harness.Samples(t) {
		t.Run(name, func(t *testing.T) {
			out.Reset()
			body := harness.ReadSample(t, name)
			harness.Post(edge.Serve(instances.Of(t, name).Routes()), name, body)
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			text, _ := line["problems"].(string)
			if line["verdict"] == "denied" {
				if denied++; strings.Count(text, ": ") < 2 {
					t.Errorf("a denial's problems are %q, want step, field and rule", text)
				}
			}
			for _, identity := range []string{"route", "uid", "name", "namespace", "user", "kind", "operation", "time", "duration", "changed"} {
				delete(line, identity) // short values may stand in them too
			}
			rest, _ := json.Marshal(line)
			var review any
			_ = json.Unmarshal(body, &review) // some samples are broken on purpose
			for _, value := range private(review, false) {
				isKey := bytes.Contains(body, []byte(`"`+value+`":`)) // of a map, such as cpu: paths have them
				if len(value) >= 4 && !isKey && bytes.Contains(rest, []byte(value)) {
					t.Errorf("%q is in the log: %s", value, rest)
				}
			}
		})
	}
	if denied < 100 {
		t.Errorf("only %d samples are denied", denied)
	}
}

// private returns the texts of a review that a log must not contain, including those in JSON inside of texts.
func private(of any, inside bool) (values []string) {
	switch of := of.(type) {
	case map[string]any:
		for key, value := range of {
			secret := inside || key == "annotations" || key == "data" || key == "stringData" || key == "env"
			values = append(values, private(value, secret)...)
		}
	case []any:
		for _, value := range of {
			values = append(values, private(value, inside)...)
		}
	case string:
		var nested any
		if !inside {
			return nil
		}
		values = append(values, of)
		if json.Unmarshal([]byte(of), &nested) == nil {
			values = append(values, private(nested, true)...)
		}
	}
	return values
}
