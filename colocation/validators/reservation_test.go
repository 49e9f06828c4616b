package validators

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/views"
)

const (
	goodTemplate = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1000m"}}}]}}`
	goodOwner    = `{"labelSelector":{"matchLabels":{"app":"web"}}}`
	goodSpec     = `{"template":` + goodTemplate + `,"owners":[` + goodOwner + `],"ttl":"24h"}`
)

// reservationOf returns a reservation with a spec.
func reservationOf(spec string) string { return `{"metadata":{"name":"r"},"spec":` + spec + `}` }

func specOf(template, owners, more string) string {
	return fmt.Sprintf(`{"template":%s,"owners":%s%s}`, template, owners, more)
}

func checked(t *testing.T, about, object, old string, wants ...string) {
	t.Helper()
	req := requestFor(t, "", object, old)
	problems, err := reservation().Run(t.Context(), req, views.AsReservation(req.Object))
	wantProblems(t, about, problems, err, wants...)
	if req.Object.Err() != nil || req.Object.Edits() > 0 || req.OldObject != nil && req.OldObject.Err() != nil {
		t.Errorf("%s: misread or edited: %v", about, req.Object.Err())
	}
}

func TestReservation(t *testing.T) {
	template := func(containers string) string { return `{"spec":{"containers":` + containers + `}}` }
	owners := "[" + goodOwner + "]"
	gpus := func(resources string) string {
		return specOf(template(`[{"name":"c","resources":`+resources+`}]`), owners, ``)
	}
	for spec, wants := range map[string][]string{
		goodSpec: nil,
		specOf(goodTemplate, `[{"object":{"name":"web-1","namespace":"apps"}},{"controller":{"kind":"Job","name":"j"}},{"labelSelector":{}}]`, ``): nil,
		specOf(goodTemplate, owners, `,"ttl":"0","expires":"2026-12-01T00:00:00Z","allocatePolicy":"Aligned","future":[{}]`):                       nil,
		specOf(goodTemplate, owners, `,"ttl":null,"expires":null,"allocatePolicy":"Restricted"`):                                                   nil,
		specOf(goodTemplate, owners, `,"ttl":"1h30m","expires":"2026-12-01T00:00:00.5+01:00","allocatePolicy":""`):                                 nil,

		specOf(`null`, owners, ``):                   {`spec.template: Required value`},
		`{"owners":` + owners + `}`:                  {`spec.template: Required value`},
		specOf(`{}`, owners, ``):                     {`spec.template.spec.containers: Required value: at least one container`},
		specOf(template(`null`), owners, ``):         {`spec.template.spec.containers: Required value`},
		specOf(template(`[]`), owners, ``):           {`spec.template.spec.containers: Required value`},
		specOf(template(`[{"name":5}]`), owners, ``): {`spec.template: Invalid value: `},
		specOf(template(`[{"name":"c","resources":{"requests":{"cpu":"one"},"limits":{"memory":"1e-5000000","x":1e999}}}]`), owners, ``): {
			`spec.template.spec.containers[0].resources.limits[memory]: Invalid value: "1e-5000000": not a quantity such as 15900m`,
			`spec.template.spec.containers[0].resources.limits[x]: Invalid value: "1e999"`,
			`spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: "one"`},
		specOf(template(`[{"name":"c","resources":{"requests":{"cpu":" 1 ","memory":1e3,"a.b/x":null}}}]`), owners, ``): nil,
		specOf(template(`[{"name":"c","resources":{"requests":{"cpu":true}}}]`), owners, ``):                            {`spec.template: Invalid value`},
		specOf(`{"spec":{"overhead":{"cpu":"-1"},"resources":{"requests":{"memory":"2Gi"},"limits":{"memory":"1Gi"}},"initContainers":[{"resources":{"limits":{"c p u":1},"requests":{"koordinator.sh/gpu":150}}}],
		  "containers":[{"resources":{"requests":{"cpu":-4,"koordinator.sh/gpu-core":"0.5","nvidia.com/gpu":1}}}]}}`, owners, ``): {
			`spec.overhead[cpu]: Invalid value: "-1": must be 0 or more`, `spec.resources.requests[memory]: Invalid value: "2Gi": must be at most the limit, 1Gi`,
			`initContainers[0].resources.limits[c p u]`, `requests[koordinator.sh/gpu]: Invalid value: "150"`, `containers[0].resources.requests[cpu]: Invalid value: "-4"`, `requests[koordinator.sh/gpu-core]: Invalid value: "500m": must be a whole number`},
		gpus(`{"limits":{` + deviceList("gpu=150") + `}}`):                                               {`containers[0].resources.limits[koordinator.sh/gpu]: Invalid value: "150": container "c": above 100`},
		gpus(`{"requests":{` + deviceList("gpu=100") + `},"limits":{` + deviceList("gpu=150") + `}}`):    nil,
		gpus(`{"requests":{` + deviceList("core=150 ratio=150") + `}}`):                                  {`requests[koordinator.sh/gpu-core]: Invalid value: "150"`, `requests[koordinator.sh/gpu-memory-ratio]: Invalid value: "150"`},
		gpus(`{"requests":{` + deviceList("core=200") + `},"limits":{` + deviceList("ratio=200") + `}}`): nil,
		gpus(`{"requests":{` + deviceList("core=50 ratio=50") + `}}`):                                    nil,
		gpus(`{"requests":{` + deviceList("core=50") + `}}`):                                             {`requests[koordinator.sh/gpu-memory-ratio]: Forbidden`},
		gpus(`{"requests":{` + deviceList("gpu=200 shared=2") + `}}`):                                    {`requests[koordinator.sh/gpu.shared]: Forbidden`},
		gpus(`{"requests":{` + deviceList("npu=8") + `}}`):                                               nil,
		specOf(`{"spec":{"overhead":{"cpu":"x"},"volumes":[{"name":"v","emptyDir":{"sizeLimit":"big"}}],"containers":[{"name":"c","env":[{"name":"A","value":"1e-5000000",
		  "valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"x"}}}]}]}}`, owners, ``): {
			`containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "x"`, `spec.overhead[cpu]`, `spec.volumes[0].emptyDir.sizeLimit`},
		specOf(`{"metadata":{"labels":{"divisor":"x","sizeLimit":"y","limits":"z"}},"spec":{"nodeSelector":{"requests":"a"},"containers":[{"name":"c"}]}}`, owners, ``): nil,

		specOf(goodTemplate, `[]`, ``):                                                                                           {`spec.owners: Required value: at least one owner`},
		specOf(goodTemplate, `null`, ``):                                                                                         {`spec.owners: Required value: at least one owner`},
		specOf(goodTemplate, `[`+goodOwner+`,{}]`, ``):                                                                           {`spec.owners[1]: Required value: object, controller or labelSelector`},
		specOf(goodTemplate, `[{"object":{},"controller":null}]`, ``):                                                            {`spec.owners[0]: Required value`},
		specOf(goodTemplate, `[{"object":{"kind":"Pod","resourceVersion":"1"}}]`, ``):                                            {`spec.owners[0]: Required value`},
		specOf(goodTemplate, `[{"controller":{"controller":true}}]`, ``):                                                         {`spec.owners[0]: Required value`},
		specOf(goodTemplate, `[{"object":{"uid":"u"}},{"controller":{"apiVersion":"v1"}},{"controller":{"namespace":"n"}}]`, ``): nil,
		specOf(goodTemplate, `[{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Is"},{"key":"b","operator":"In"}]}}]`, ``): {
			`spec.owners[0].labelSelector.matchExpressions[0].operator`, `spec.owners[0].labelSelector.matchExpressions[1].values`},
		specOf(goodTemplate, `[{"labelSelector":{"matchLabels":{"a b":"c"}}}]`, ``): {`spec.owners[0].labelSelector.matchLabels`},

		specOf(goodTemplate, owners, `,"ttl":"1d"`):                 {`spec.ttl: Invalid value: "1d": is no duration such as 24h`},
		specOf(goodTemplate, owners, `,"ttl":""`):                   {`spec.ttl: Invalid value: ""`},
		specOf(goodTemplate, owners, `,"ttl":"-1s"`):                {`spec.ttl: Invalid value: "-1s": must not be negative`},
		specOf(goodTemplate, owners, `,"expires":"tomorrow"`):       {`spec.expires: Invalid value: "tomorrow"`},
		specOf(goodTemplate, owners, `,"expires":""`):               {`spec.expires: Invalid value: ""`},
		specOf(goodTemplate, owners, `,"allocatePolicy":"aligned"`): {`spec.allocatePolicy: Unsupported value: "aligned": supported values: "Aligned", "Restricted"`},
		`{"ttl":"x","expires":"y","allocatePolicy":"z"}`:            {`spec.template`, `spec.owners`, `spec.ttl`, `spec.expires`, `spec.allocatePolicy`},
		`null`: {`spec.template`, `spec.owners`},
	} {
		checked(t, spec, reservationOf(spec), "", wants...)
	}
}

// A wrong JSON type is an error of the document, with its path.
func TestReservationWrongTypes(t *testing.T) {
	for spec, want := range map[string]string{
		`"x"`: "spec", specOf(`"x"`, `[]`, ``): "spec.template", specOf(`{"spec":{"containers":{}}}`, `[]`, ``): "spec.template.spec.containers",
		specOf(goodTemplate, `{}`, ``): "spec.owners", specOf(goodTemplate, `["x"]`, ``): "spec.owners[0]", specOf(goodTemplate, `[{"labelSelector":[]}]`, ``): "spec.owners[0].labelSelector",
		specOf(goodTemplate, `[{"object":{"name":5}}]`, ``): "spec.owners[0].object.name", specOf(goodTemplate, `[]`, `,"ttl":5`): "spec.ttl",
	} {
		req := requestFor(t, "", reservationOf(spec), "")
		if _, err := reservation().Run(t.Context(), req, views.AsReservation(req.Object)); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if err := req.Object.Err(); err == nil || !strings.HasPrefix(err.Error(), want+": ") {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

func TestReservationUpdate(t *testing.T) {
	owners := "[" + goodOwner + "]"
	const bad = `{"template":{},"owners":[{}],"ttl":"1d"}`
	reencoded := reencode(t, goodTemplate)
	changed := strings.Replace(goodTemplate, "1000m", "2", 1)
	const immutable = "spec.template: Invalid value: cannot change"
	for _, c := range []struct {
		name, now, was string
		wants          []string
	}{
		{"metadata only", `{"metadata":{"name":"r","labels":{"a":"b"}},"spec":` + goodSpec + `}`, reservationOf(goodSpec), nil},
		{"metadata only, of a bad one", `{"metadata":{"name":"r","labels":{"a":"b"}},"spec":` + bad + `}`, reservationOf(bad), nil},
		{"metadata only, of one that cannot be read", `{"metadata":{"labels":{"a":"b"}},"spec":{"template":"x","owners":5}}`,
			reservationOf(`{"template":"x","owners":5}`), nil},
		{"status", `{"metadata":{"name":"r"},"spec":` + bad + `,"status":{"phase":"Available"}}`, reservationOf(bad), nil},
		{"bad, and something else changes", reservationOf(bad[:len(bad)-1] + `,"unschedulable":true}`), reservationOf(bad), nil},
		{"bad, and another thing gets bad", reservationOf(bad[:len(bad)-1] + `,"allocatePolicy":"x"}`), reservationOf(bad), []string{"spec.allocatePolicy"}},
		{"bad, and worse", reservationOf(strings.Replace(bad, "1d", "2d", 1)), reservationOf(bad), []string{`spec.ttl: Invalid value: "2d"`}},
		{"what was good gets bad", reservationOf(strings.Replace(goodSpec, "24h", "-1h", 1)), reservationOf(goodSpec), []string{"spec.ttl"}},
		{"bad gets good", reservationOf(goodSpec), reservationOf(strings.Replace(goodSpec, "24h", "1d", 1)), nil},
		{"being deleted", `{"metadata":{"deletionTimestamp":"2026-11-21T08:00:00Z"},"spec":` + bad + `}`, reservationOf(goodSpec), nil},
		{"no spec before, and a bad one now", reservationOf(bad), `{"metadata":{"name":"r"}}`,
			[]string{"spec.template.spec.containers", "spec.owners[0]", "spec.ttl"}},
		{"no spec before", reservationOf(goodSpec), `{"metadata":{"name":"r"}}`, nil},

		{"another request", reservationOf(specOf(changed, owners, ``)), reservationOf(goodSpec), []string{immutable}},
		{"a container more", reservationOf(specOf(strings.Replace(goodTemplate, `"containers":[`, `"containers":[{"name":"d"},`, 1), owners, ``)), reservationOf(goodSpec), []string{immutable}},
		{"another label", reservationOf(specOf(strings.Replace(goodTemplate, `"web"`, `"api"`, 1), owners, ``)), reservationOf(goodSpec), []string{immutable}},
		{"encoded by a typed client", reservationOf(specOf(reencoded, owners, ``)), reservationOf(goodSpec), nil},
		{"and back", reservationOf(goodSpec), reservationOf(specOf(reencoded, owners, ``)), nil},
		{"the order of members", reservationOf(specOf(`{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}},"name":"c"}]},"metadata":{"labels":{"app":"web"}}}`, owners, ``)), reservationOf(goodSpec), nil},
		{"template and ttl", reservationOf(specOf(changed, owners, `,"ttl":"x"`)), reservationOf(goodSpec), []string{"spec.ttl", immutable}},
		{"template removed", reservationOf(specOf(`null`, owners, ``)), reservationOf(goodSpec), []string{"spec.template: Required"}},
		{"template given at last", reservationOf(goodSpec), reservationOf(specOf(`null`, owners, ``)), nil},
		{"the stored template is no pod's", reservationOf(goodSpec), reservationOf(specOf(`{"spec":{"containers":"none"}}`, owners, ``)), []string{immutable}},
		{"nor is the new one, with blanks", reservationOf(specOf(`{"spec":{"containers":[ {"name":5}]}}`, owners, ``)), reservationOf(specOf(`{"spec":{"containers":[{"name":5}]}}`, owners, ``)), nil},
		{"quantities that hang", reservationOf(specOf(`{"spec": {"overhead":{"cpu":"1e-5000000"},"containers":[{}]}}`, owners, ``)),
			reservationOf(specOf(`{"spec":{"overhead":{"cpu":"1e-5000001"},"containers":[{}]}}`, owners, ``)), []string{`spec.template.spec.overhead[cpu]`, immutable}},
	} {
		checked(t, c.name, c.now, c.was, c.wants...)
	}
}

// reencode returns a template as a typed client would send it.
func reencode(t *testing.T, template string) string {
	t.Helper()
	var typed corev1.PodTemplateSpec
	if err := json.Unmarshal([]byte(template), &typed); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(typed)
	if err != nil || string(text) == template {
		t.Fatalf("%s, %v", text, err)
	}
	return string(text)
}

// TestReservationQuantityOfDoom: the quantities of a template have no schema, so they are not bounded. Parsing one of
// these with the library takes minutes.
func TestReservationQuantityOfDoom(t *testing.T) {
	for _, amount := range []string{`"1e-5000000"`, `"1\u0065-5000000"`, `1e-5000000`, `" 1e-5000000 "`, `["1e-5000000"]`, `"` + strings.Repeat("9", 1<<20) + `"`} {
		for _, list := range []string{`"containers":[{"name":"c","resources":{"limits":{"cpu":%s}}}]`, `"containers":[{}],"overhead":{"cpu":%s}`,
			`"containers":[{}],"resources":{"requests":{"cpu":%s}}`, `"containers":[{}],"volumes":[{"emptyDir":{"sizeLimit":%s}}]`,
			`"containers":[{"env":[{"valueFrom":{"resourceFieldRef":{"divisor":%s}}}]}]`, `"containers":[{}],"ephemeralContainers":[{"resources":{"requests":{"cpu":%s}}}]`,
			`"containers":[{}],"volumes":[{"downwardAPI":{"items":[{"resourceFieldRef":{"divisor":%s}}]}}]`,
			`"containers":[{}],"volumes":[{"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"requests":{"storage":%s}}}}}}]`} {
			spec := specOf(`{"spec":{`+fmt.Sprintf(list, amount)+`}}`, "["+goodOwner+"]", ``)
			req := requestFor(t, "", reservationOf(spec), "")
			if problems, err := reservation().Run(t.Context(), req, views.AsReservation(req.Object)); err != nil || len(problems) == 0 {
				t.Errorf("%.300s: %v, %v", spec, problems, err)
			}
		}
	}
}

// reviewedPod returns the pod of a sample of real size.
func reviewedPod(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("../../test/testdata/reviews/validate-pods/production-pod.json")
	if err != nil {
		t.Fatal(err)
	}
	var review struct {
		Request struct{ Object json.RawMessage }
	}
	if err := json.Unmarshal(text, &review); err != nil || len(review.Request.Object) == 0 {
		t.Fatal("the sample has no object: ", err)
	}
	return review.Request.Object
}

// FuzzReservationTemplate: any template equals itself as encoded by a typed client, and no check takes long.
func FuzzReservationTemplate(f *testing.F) {
	f.Add([]byte(goodTemplate))
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"1e-5000000"}}}`))
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"limits":{"cpu":[{"a":1e99}]}}}]}}`))
	f.Add(reviewedPod(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
			return
		}
		root, err := document.Parse(raw)
		if err != nil {
			return
		}
		if len(badQuantities(root.Root())) > 0 {
			return
		}
		typed, err := decodeTemplate(raw)
		if err != nil {
			return
		}
		text, err := json.Marshal(typed)
		if err != nil {
			return
		}
		again, err := decodeTemplate(text)
		if err == nil && equality.Semantic.DeepEqual(typed, again) && !sameTemplate(root.Root(), parsed(t, string(text)).Root()) {
			t.Errorf("%s is not the same as %s", raw, text)
		}
	})
}

func BenchmarkReservationCreate(b *testing.B) { benchmarkReservation(b, reservationOf(goodSpec), "") }

func BenchmarkReservationMetadata(b *testing.B) {
	benchmarkReservation(b, `{"metadata":{"labels":{"a":"b"}},"spec":`+goodSpec+`}`, reservationOf(goodSpec))
}

func benchmarkReservation(b *testing.B, now, was string) {
	b.Helper()
	req := requestFor(b, "", now, was)
	step, view := reservation(), views.AsReservation(req.Object)
	b.ReportAllocs()
	for b.Loop() {
		if problems, err := step.Run(b.Context(), req, view); len(problems) > 0 || err != nil {
			b.Fatal(problems, err)
		}
	}
}
