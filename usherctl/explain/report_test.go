package explain

import (
	"bytes"
	"compress/gzip"
	"os"
	"strings"
	"testing"

	"usher.dev/usher/usherctl/report"
)

// sample returns the recorded events of samples/audit that a filter is for.
func sample(t *testing.T, filter Filter, o Options) []report.Report {
	t.Helper()
	raw, err := os.ReadFile("../../samples/audit/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	log := NewLog(filter)
	if err := log.Read("audit.log", bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	return log.Reports(o)
}

// TestBrokenPatch: the webhook whose patch the API server could not apply is not shown as one that allowed the request: the last that was called.
func TestBrokenPatch(t *testing.T) {
	const allowed, mutation = `{"configuration":"c","webhook":"a.example.com","mutated":false}`, mutationPrefix + "round_0_index_"
	for message, want := range map[string]string{"remove operation does not apply: doc is missing path": "b.example.com",
		`admission webhook "a.example.com" attempted to modify the object, which is not supported`: "a.example.com"} {
		e := &Event{Verb: "create", ResponseStatus: status{Code: 500, Message: "Internal error occurred: " + message}, Annotations: map[string]string{
			mutation + "0": allowed, mutation + "1": strings.Replace(allowed, "a.ex", "b.ex", 1)}}
		for _, call := range Of(e, Options{}).Calls {
			if broken := call.Webhook == want; broken != (call.Outcome == "error") || broken != strings.Contains(call.Message, message) {
				t.Errorf("%s: %+v", message, call)
			}
		}
	}
}

// TestRecorded: events of a real API server, with usher between two webhooks of others.
func TestRecorded(t *testing.T) {
	for _, c := range []struct {
		name    string
		filter  Filter
		options Options
		exit    report.Exit
		want    []string // in this order
		never   []string
	}{
		{"a pod", Filter{Namespace: "apps", Name: "web-5d8c7-4wl7r"}, Options{Documents: true}, report.Unjudged, []string{
			"CREATE Pod apps/web-5d8c7-4wl7r  (audit.log:3)", "by ann, with kubectl",
			"log-level.example.com (a-log-level)  mutated\n    label team added: \"a\"\n    env LOG_LEVEL of container app added\n",
			"mutate-pods.usher.dev (usher)  mutated\n    env KUBE of container app added\n    toleration acme.com/lifespan-remaining:Exists:NoSchedule added\n",
			"proxy.example.com (z-proxy)  mutated\n    container proxy added\n    volume certs added\n    annotation copied added\n",
			"log-level.example.com (a-log-level)  mutated, called again in round 2\n    env LOG_LEVEL of container proxy added\n",
			"unknown: patch-does-not-apply",
			"PATCH Pod apps/web-5d8c7-4wl7r", "label team added", "info: document-not-known",
			"  changed since audit.log:3 by this request, or one before it that is not listed, beside what webhooks patched:\n    label tier added: \"web\"\n",
			"UPDATE Pod apps/web-5d8c7-4wl7r", "label team added", "the object now is exact",
		}, []string{"t0k3n", "a note of the team", "info\""}},
		{"the same by its UID, and its documents are not asked for", Filter{UID: "UID"}, Options{}, report.Fine,
			[]string{"CREATE Pod", "info: patch-does-not-apply", "PATCH Pod", "UPDATE Pod"}, []string{"worker-0"}},
		{"blame", Filter{Namespace: "apps", Name: "web-5d8c7-4wl7r"}, Options{Blame: true}, report.Fine, []string{
			"last writers:", "metadata.labels[team]  log-level.example.com (a-log-level)\n",
			"spec.containers[proxy]  proxy.example.com (z-proxy)\n",
			"spec.containers[proxy].env[LOG_LEVEL]  log-level.example.com (a-log-level), round 2; before: proxy.example.com (z-proxy)\n",
		}, nil},
		{"refused by a check", Filter{Refusal: "63c5c9a7"}, Options{}, report.Refused, []string{"denied  CREATE Pod apps/offensive-web",
			"validate-pods.usher.dev  denied\n    audit: denied-by: denied-names\n    audit: refusal: 63c5c9a7\n    message: admission webhook"},
			[]string{"long-lived"}},
		{"refused by a mutator", Filter{Name: "long-lived"}, Options{}, report.Refused, []string{"log-level.example.com (a-log-level)  mutated",
			"mutate-pods.usher.dev (usher)  denied", "(refusal 9a507b42)"}, nil},
		{"level Metadata", Filter{Name: "worker-0", Kind: "pods"}, Options{}, report.Unjudged, []string{"CREATE pods apps/worker-0",
			"log-level.example.com (a-log-level)  mutated\n", "mutate-pods.usher.dev (usher)  mutated\n", "called again in round 2",
			"unknown: patch-not-recorded", "level Metadata", "Level Request has their patches"}, []string{"added"}},
		{"nothing", Filter{Name: "other"}, Options{}, report.Unjudged, []string{"unknown: no-event: other"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.filter.UID == "UID" {
				c.filter.UID = uidOf(t, "web-5d8c7-4wl7r")
			}
			reports := sample(t, c.filter, c.options)
			if got := report.ExitOf(reports); got != c.exit {
				t.Errorf("exit %d, want %d", got, c.exit)
			}
			checkText(t, textOf(reports), c.want, c.never)
		})
	}
}

func uidOf(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../samples/audit/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	log := NewLog(Filter{Name: name})
	if err := log.Read("", bytes.NewReader(raw)); err != nil || len(log.Events) == 0 {
		t.Fatal(err, log.Problems)
	}
	_, stored := log.Events[0].heads()
	return stored.Metadata.UID
}

func textOf(reports []report.Report) string {
	var b strings.Builder
	for _, r := range reports {
		report.Text(&b, r, report.Style{})
	}
	return b.String()
}

// checkText checks that texts follow one another, and that others are nowhere.
func checkText(t *testing.T, text string, want, never []string) {
	t.Helper()
	rest := text
	for _, part := range want {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("lacks, in this place: %s\n%s", part, text)
			return
		}
		rest = after
	}
	for _, part := range never {
		if strings.Contains(text, part) {
			t.Errorf("must not have: %s\n%s", part, text)
		}
	}
}

const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","verb":"create","auditID":"1",` +
	`"user":{"username":"ann"},"objectRef":{"resource":"pods","namespace":"a","name":"NAME"},"responseStatus":{"code":201}}`

// TestLogs: what cannot be read is never left out silently, and the rest is read all the same.
func TestLogs(t *testing.T) {
	one, two := strings.Replace(event, "NAME", "one", 1), strings.Replace(event, "NAME", "two", 1)
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, _ = writer.Write([]byte(one + "\n" + two + "\n"))
	_ = writer.Close()
	for _, c := range []struct {
		name, text string
		events     int
		exit       report.Exit
		problem    string
	}{
		{"lines", one + "\n" + two + "\n", 2, report.Fine, ""},
		{"empty lines, and no end", one + "\n\n\r\n" + two, 2, report.Fine, ""},
		{"gzip", zipped.String(), 2, report.Fine, ""},
		{"a list", `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + one + `,` + strings.Replace(two,
			`"kind":"Event","apiVersion":"audit.k8s.io/v1",`, "", 1) + `]}`, 2, report.Fine, ""},
		{"a prefix", "2026-11-22T12:00:00Z stdout F " + one + "\n" + two + "\n", 1, report.Unjudged,
			"log:1: does not begin with {: remove what a container runtime"},
		{"other text", one + "\nsome text\n" + two + "\n", 2, report.Unjudged, "log:2: is not JSON"},
		{"incomplete", one + "\n" + two[:50], 1, report.Fine, "log:2: the last line is incomplete"},
		{"incomplete within", one[:50] + "\n" + two + "\n", 1, report.Unjudged, "log:1: is not JSON; `jq -c .`"},
		{"on several lines", strings.ReplaceAll(one, ",", ",\n"), 0, report.Unjudged, "log:1: is not JSON; `jq -c .`"},
		{"pretty-printed", "{\n" + one[1:] + "\n" + strings.Repeat("x\n", 12), 0, report.Unjudged, "log:1: begins JSON on many lines, and an audit log has " +
			"an event a line: `jq -c . FILE` writes it so\n    see"},
		{"other JSON", `{"kind":"Pod","apiVersion":"v1"}` + "\n" + two, 1, report.Unjudged, "log:1: is not an audit event"},
		{"a wrong type", strings.Replace(one, `"ann"`, "1", 1) + "\n" + two, 1, report.Unjudged, "log:1: is an audit event with a field of a wrong type"},
		{"not complete", strings.Replace(one, "ResponseComplete", "RequestReceived", 1) + "\n" + two, 1, report.Fine, ""},
		{"reading", strings.Replace(one, "create", "get", 1) + "\n" + two, 1, report.Fine, ""},
		{"many", strings.Repeat("x\n", 12) + one, 1, report.Unjudged, "and 2 more lines"},
		{"usher's own", `{"time":"2026-11-22T12:00:00Z","id":"p-1","route":"/validate-pods","operation":"CREATE","kind":"Pod","resource":"pods","namespace":"a","name":"one",` +
			`"user":"ann","verdict":"denied","code":403,"refusal":"0a1b2c3d","durationSeconds":0.1,"steps":[{"name":"denied-names","mode":"enforce",` +
			`"refused":[{"field":"metadata.name","type":"FieldValueForbidden"}]}]}` + "\n", 1, report.Refused, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := NewLog(Filter{})
			if err := log.Read("log", strings.NewReader(c.text)); err != nil {
				t.Fatal(err)
			}
			reports := log.Reports(Options{})
			if n := len(log.Events) + len(log.Own); n != c.events {
				t.Errorf("%d events, want %d", n, c.events)
			}
			text := textOf(reports)
			if exit := report.ExitOf(reports); exit != c.exit && c.events > 0 || !strings.Contains(text, c.problem) {
				t.Errorf("exit %d, want %d and %q\n%s", exit, c.exit, c.problem, text)
			}
		})
	}
}

// TestLongLine: a line that no API server writes is left out, without being kept in memory, and said.
func TestLongLine(t *testing.T) {
	log := NewLog(Filter{})
	in := bytes.NewReader(append(bytes.Repeat([]byte("x"), maxLine+1), []byte("\n"+event+"\n")...))
	if err := log.Read("log", in); err != nil || len(log.Events) != 1 || log.Unread != 1 || !strings.Contains(log.Problems[0], "longer than 64 MiB") {
		t.Errorf("%v: %d events, %v", err, len(log.Events), log.Problems)
	}
	if log.Events[0].Place.Line != 2 {
		t.Errorf("the line is %d", log.Events[0].Place.Line)
	}
}

// TestFilter: names that the API server generates are found by the generateName that was sent.
func TestFilter(t *testing.T) {
	long := strings.Repeat("x", 63)
	for _, c := range []struct {
		generate, name string
		want           bool
	}{
		{"web-*", "web-4wl7r", true}, {"web-*", "web-4wl7", false}, {"web-*", "web-4wl7rr", false}, {"web-*", "wez-4wl7r", false},
		{"web-", "web-4wl7r", false}, {"*", "4wl7r", false}, {long + "*", long[:58] + "4wl7r", true},
	} {
		if got := Generated(c.generate, c.name); got != c.want {
			t.Errorf("%s of %s: %v, want %v", c.name, c.generate, got, c.want)
		}
	}
}
