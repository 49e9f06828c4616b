package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// TestLogOfDenial: the line has step, field and rule of each problem, but no values or messages; texts are shortened,
// and of very many problems only some are logged.
func TestLogOfDenial(t *testing.T) {
	const secret = "s3cret"
	key := strings.Repeat("k", 10_000)
	annotation := field.NewPath("metadata").Child("annotations")
	var many field.ErrorList
	for i := range 100 {
		many = append(many, field.Required(field.NewPath("spec").Child("containers").Index(i), secret))
	}
	for _, test := range []struct {
		name     string
		problems field.ErrorList
		want     string
	}{
		{"one", field.ErrorList{field.Invalid(annotation.Key("a"), secret, "must not be "+secret)}, "step: metadata.annotations[a]: FieldValueInvalid"},
		{"two", field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"), secret), field.NotSupported(annotation, secret, []string{secret})},
			"step: metadata.name: FieldValueForbidden; step: metadata.annotations: FieldValueNotSupported"},
		{"a long key", field.ErrorList{field.Required(annotation.Key(key), secret)}, "step: " + admit.Shorten(annotation.Key(key).String(), 253) + ": FieldValueRequired"},
		{"many", many, "; step: spec.containers[9]: FieldValueRequired; and 90 more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			log := logrus.New()
			log.SetOutput(&out)
			log.SetFormatter(&logrus.JSONFormatter{})
			r := admit.Route{Path: "/validate-test", For: route(nil).For,
				Chain: admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{{Name: "step", Doc: "refuses", Run: func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
					return test.problems, nil
				}}})}
			d := Decide(t.Context(), r, []byte(podReview), nil)
			if d.Outcome != Denied {
				t.Fatalf("%s: %v", d.Outcome, d.Err)
			}
			Log(log)(r, d, 0)
			var line struct{ Problems string }
			if err := json.Unmarshal(out.Bytes(), &line); err != nil || !strings.HasSuffix(line.Problems, test.want) {
				t.Errorf("%v: the line has problems %q, want %q", err, line.Problems, test.want)
			}
			if strings.Contains(out.String(), secret) {
				t.Errorf("a value is in the log: %s", out.String())
			}
		})
	}
}

// decisions are reviews that ended in all ways, with all fields of a line.
func decisions(text string) []Decision {
	req := &admit.Request{UID: types.UID(text), Name: text, Namespace: text, SubResource: text, Operation: admissionv1.Operation(text)}
	req.Kind.Group, req.Kind.Version, req.Kind.Kind, req.Resource.Resource = text, text, text, text
	req.UserInfo.Username, req.UserInfo.Groups = text, []string{text, text}
	req.Tolerate("unreadable", "%s", text)
	problem := field.Invalid(field.NewPath("metadata", "labels").Key(text), text, text)
	steps := []admit.StepResult{
		{Name: "a", Mode: admit.Enforce, Changed: true}, {Name: "b", Mode: admit.DryRun, WouldChange: true},
		{Name: "c", Mode: admit.Warn, Refused: field.ErrorList{problem}, Override: &admit.Override{Name: "legacy"}},
	}
	denied := admit.Result{Problems: []admit.Problem{{Step: limitsStep, Error: problem}}, Steps: steps}
	return []Decision{
		{Outcome: Allowed, Code: 200, Request: &admit.Request{UID: "1", DryRun: true, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}}},
		{Outcome: Mutated, Code: 200, Request: req, Result: admit.Result{Steps: steps}},
		{Outcome: Denied, Code: 403, Request: req, Result: denied, Refusal: "1234"},
		{Outcome: Allowed, Code: 200, Request: req, Untouched: text, Exceeded: admit.LimitExceeded{Limit: "all"}},
		{Outcome: Invalid, Code: 400, Err: errors.New(text)},
		{Outcome: Failed, Code: 500, Err: errors.New(text), Request: req, Stack: []byte("goroutine 1\n\tmain.go:1 +0x1\n")},
	}
}

// TestLogAsLogrus: a line of JSON has the bytes that logrus writes for the same fields.
func TestLogAsLogrus(t *testing.T) {
	for _, text := range []string{"web", "a\nb", "<a & b>", "\u2028\u00e9 \\ \"", "\xff", "", strings.Repeat("é", maxField+1)} {
		for i, d := range decisions(text) {
			for _, level := range []logrus.Level{logrus.InfoLevel, logrus.WarnLevel, logrus.ErrorLevel, logrus.PanicLevel} {
				synctest.Test(t, func(t *testing.T) {
					got, want := logged(true, level, d), logged(false, level, d)
					if got != want || level == logrus.ErrorLevel && (got == "") != (d.Outcome != Failed) {
						t.Errorf("%q, decision %d, level %s:\ngot  %s\nwant %s", text, i, level, got, want)
					}
				})
			}
		}
	}
}

// logged returns the JSON that a decision is logged as, by Log or by logrus.
func logged(own bool, level logrus.Level, d Decision) string {
	var out bytes.Buffer
	log := &logrus.Logger{Out: &out, Formatter: &logrus.JSONFormatter{TimestampFormat: TimeFormat}, Level: level, Hooks: logrus.LevelHooks{}}
	if own {
		log.Formatter = JSONLines{log.Formatter, &out}
	}
	observe := Log(log)
	observe(admit.Route{Path: "/a"}, Decision{Outcome: Allowed, Untouched: strings.Repeat("a longer line before", 10)}, time.Hour)
	out.Reset()
	observe(admit.Route{Path: "/a"}, d, 1234*time.Microsecond)
	return out.String()
}

// fieldsHook records the fields of the entries that it sees.
type fieldsHook struct{ seen []logrus.Fields }

func (h *fieldsHook) Levels() []logrus.Level { return []logrus.Level{logrus.InfoLevel} }

func (h *fieldsHook) Fire(entry *logrus.Entry) error {
	h.seen = append(h.seen, entry.Data)
	entry.Data["more"] = true
	return nil
}

// TestLogOfHooks: a hook sees the fields of a review, and may add one.
func TestLogOfHooks(t *testing.T) {
	var out bytes.Buffer
	log := &logrus.Logger{Out: &out, Formatter: JSONLines{&logrus.JSONFormatter{}, &out}, Level: logrus.InfoLevel, Hooks: logrus.LevelHooks{}}
	hook := &fieldsHook{}
	log.AddHook(hook)
	Log(log)(admit.Route{Path: "/a"}, decisions("web")[1], 0)
	if len(hook.seen) != 1 || hook.seen[0]["changed"] != "a" || hook.seen[0]["code"] != 200 || hook.seen[0]["dryRun"] != false ||
		!strings.Contains(out.String(), `"more":true`) {
		t.Errorf("%v\n%s", hook.seen, out.String())
	}
}

// TestLogOfFailure: an error is shortened, too, because it may quote the request.
func TestLogOfFailure(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	Log(log)(admit.Route{}, Decision{Outcome: Failed, Err: errors.New(strings.Repeat("x", 1<<20))}, 0)
	if out.Len() > 2*maxField {
		t.Errorf("a line of %d bytes", out.Len())
	}
}

// TestRepeatedFailures: of lines with the same cause, some are written, and the next one after a while says how many were
// not. Other causes, and reviews that are answered, are not affected.
func TestRepeatedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := logrus.New()
		log.SetOutput(&out)
		observe := Log(log)
		failed := func(cause string) {
			observe(admit.Route{Path: "/a"}, Decision{Outcome: Failed, Err: errors.New(cause)}, 0)
		}
		for range 1000 {
			failed("one")
		}
		failed("two")
		observe(admit.Route{Path: "/a"}, Decision{Outcome: Allowed}, 0)
		if got := out.String(); strings.Count(got, "error=one") != mostAlike || strings.Count(got, "error=two") != 1 || strings.Count(got, "msg=review ") != 1 {
			t.Errorf("%s", got)
		}
		out.Reset()
		time.Sleep(alikeTime)
		failed("one")
		failed("one")
		if got := out.String(); strings.Count(got, "error=one") != 2 || strings.Count(got, "repeated=990") != 1 {
			t.Errorf("%s", got)
		}
	})
}

// TestRepeatsAreBounded: a million causes take no memory.
func TestRepeatsAreBounded(t *testing.T) {
	r := repeats{most: mostAlike, every: alikeTime}
	for i := range 10 * maxAlike {
		if write, _ := r.allow(fmt.Sprint(i), time.Now()); !write || len(r.since) > maxAlike {
			t.Fatalf("cause %d: written: %v, %d are kept", i, write, len(r.since))
		}
	}
}

// FuzzLogOfTexts: whatever the texts of a request are, the lines of the log and of the audit log are printable, and not
// long.
func FuzzLogOfTexts(f *testing.F) {
	for _, text := range []string{"web", "a\nb", "\x1b[31mred\x1b[0m", "\u202eresu", "\xff\xfe", strings.Repeat("x", 10_000), strings.Repeat("\xf1", 2000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var lines bytes.Buffer
		log := logrus.New()
		log.SetOutput(&lines)
		log.SetFormatter(&logrus.TextFormatter{DisableQuote: true, DisableColors: true})
		d := decisions(text)[2]
		d.Untouched, d.Err = text, errors.New(text)
		Log(log)(admit.Route{Path: "/a"}, d, 0)
		lines.WriteString(wantJSON(t, d))
		Audit("p", &lines)(admit.Route{Path: "/a"}, d, 0)
		got := strings.Split(strings.TrimSuffix(lines.String(), "\n"), "\n")
		if len(got) != 3 || len(lines.String()) > 200*maxField || // a byte may be escaped as five
			strings.ContainsFunc(got[0]+got[1]+got[2], func(r rune) bool { return !unicode.IsPrint(r) }) ||
			!utf8.ValidString(lines.String()) {
			t.Errorf("%q is logged as %q", text, lines.String())
		}
	})
}

// wantJSON returns the line of a decision, which is JSON.
func wantJSON(t *testing.T, d Decision) string {
	t.Helper()
	var out bytes.Buffer
	Log(&logrus.Logger{Out: &out, Formatter: JSONLines{&logrus.JSONFormatter{}, &out}, Level: logrus.InfoLevel, Hooks: logrus.LevelHooks{}})(admit.Route{Path: "/a"}, d, 0)
	if !json.Valid(out.Bytes()) {
		t.Errorf("no JSON: %s", out.String())
	}
	return out.String()
}
