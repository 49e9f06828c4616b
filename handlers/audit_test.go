package handlers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// everyField is a line with every field: the schema that those who read audit logs rely on.
const everyField = `{"time":"2026-11-22T12:00:00Z","id":"p-1","route":"/validate-pods","uid":"u","operation":"CREATE","group":"g","version":"v1",` +
	`"kind":"Pod","resource":"pods","subresource":"resize","namespace":"apps","name":"web","user":"ann","groups":["dev","ops"],"dryRun":true,` +
	`"verdict":"denied","code":403,"refusal":"0a1b2c3d","durationSeconds":0.0015,"steps":[{"name":"denied-names","mode":"enforce","refused":[{"field":"metadata.name",` +
	`"type":"FieldValueForbidden"}]},{"name":"lifespan","mode":"dryrun","override":"old-jobs","changed":true,"wouldChange":true,` +
	`"refused":[{"field":"metadata.annotations[a]","type":"FieldValueInvalid"}]}],"untouched":"why","limit":"tenants","troubles":["unreadable"],` +
	`"refused":[{"field":"spec.containers","type":"FieldValueTooMany"}],"error":"no answer","panic":true,"repeated":7}`

// TestAuditSchema: a decision as a line. A field that is renamed or removed breaks the tools of others.
func TestAuditSchema(t *testing.T) {
	req := &admit.Request{UID: "u", Operation: "CREATE", SubResource: "resize", Namespace: "apps", Name: "web", DryRun: true,
		UserInfo: authenticationv1.UserInfo{Username: "ann", Groups: []string{"dev", "ops"}}}
	req.Kind.Group, req.Kind.Version, req.Kind.Kind, req.Resource.Resource = "g", "v1", "Pod", "pods"
	req.Tolerate("unreadable", "s3cret")
	secret := field.Invalid(field.NewPath("metadata", "annotations").Key("a").Key("s3cret"), "s3cret", "s3cret")
	d := Decision{Outcome: Denied, Code: http.StatusForbidden, Refusal: "0a1b2c3d", Request: req, Untouched: "why", Exceeded: admit.LimitExceeded{Limit: "tenants"}, Err: errText("no answer"),
		Stack: []byte("s3cret"), Result: admit.Result{
			Problems: []admit.Problem{{Step: limitsStep, Error: field.TooMany(field.NewPath("spec", "containers"), 501, 500)}},
			Steps: []admit.StepResult{
				{Name: "denied-names", Mode: admit.Enforce, Refused: field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"), "s3cret")}},
				{Name: "lifespan", Mode: admit.DryRun, Override: &admit.Override{Name: "old-jobs"}, Changed: true, WouldChange: true, Refused: field.ErrorList{secret}},
			}}}
	r := newRecord(admit.Route{Path: "/validate-pods"}, d, 1500*time.Microsecond)
	r.Repeated = 7
	r.Time, r.ID = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), "p-1"
	line, err := json.Marshal(r)
	if err != nil || string(line) != everyField {
		t.Errorf("%v\n%s\nwant\n%s", err, line, everyField)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Record](), reflect.TypeFor[StepRecord](), reflect.TypeFor[RefuseRecord]()} {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(everyField, `"`+name+`":`) {
				t.Errorf("the line does not have the field %s of %s", name, of.Name())
			}
		}
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// TestAuditNumbers: decisions are numbered, and each is one line, also of a request that could not be read.
func TestAuditNumbers(t *testing.T) {
	var out bytes.Buffer
	observe := Audit("p", &out)
	for range 3 {
		observe(admit.Route{Path: "/a"}, Decision{Outcome: Invalid, Code: 400, Err: errText("a\nb")}, 0)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[2], `"id":"p-3"`) || !strings.Contains(lines[0], `"error":"a\\nb"`) {
		t.Errorf("%q", lines)
	}
}

// BenchmarkAudit measures the cost of a line of the audit log.
func BenchmarkAudit(b *testing.B) {
	req := &admit.Request{UID: "1b1c2f3e-0000", Operation: "CREATE", Namespace: "apps", Name: "web", UserInfo: authenticationv1.UserInfo{Username: "ann", Groups: []string{"dev", "ops"}}}
	d := Decision{Outcome: Allowed, Code: 200, Request: req, Result: admit.Result{Steps: []admit.StepResult{{Name: "a", Mode: admit.Enforce}, {Name: "b", Mode: admit.Enforce}}}}
	observe := Audit("p", io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		observe(admit.Route{Path: "/a"}, d, time.Millisecond)
	}
}

// TestAuditOfStrangers: callers that are not known cannot rotate the decisions about others out of the audit log. No
// number is missing, because no line was lost.
func TestAuditOfStrangers(t *testing.T) {
	var out bytes.Buffer
	observe := Audit("p", &out)
	stranger := Decision{Outcome: Unauthenticated, Code: http.StatusUnauthorized, Err: errText("no token was sent")}
	for range 1000 {
		observe(admit.Route{Path: "/validate-pods"}, stranger, 0)
	}
	for range 20 {
		observe(admit.Route{Path: "/validate-pods"}, Decision{Outcome: Invalid, Code: http.StatusBadRequest, Err: errText("no review")}, 0)
	}
	var lines []Record
	for text := range strings.Lines(out.String()) {
		var r Record
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Error(err)
		}
		lines = append(lines, r)
	}
	if len(lines) != mostAlike+20 || lines[len(lines)-1].ID != "p-30" {
		t.Errorf("%d lines, the last one is %s", len(lines), lines[len(lines)-1].ID)
	}
}
