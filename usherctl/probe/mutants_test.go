package probe

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/usherctl/requests"
)

const own = "../../samples/webhook" // a webhook of one's own

// mutants are faults that somebody might make in samples/webhook, by the test that must find each: the file, what it has, and what it has instead.
var mutants = []struct{ test, file, old, now string }{
	{"answer", "handlers/handlers.go", `w.Header().Set("Content-Type", "application/json")`, `w.WriteHeader(http.StatusCreated)`},
	{"uid", "handlers/handlers.go", `UID: req.UID,`, `UID: "1",`},
	{"version", "handlers/handlers.go", `review.Request = nil`, `review.Request, review.Kind = nil, ""`},
	{"v1beta1", "handlers/handlers.go", `v != "admission.k8s.io/v1" && v != "admission.k8s.io/v1beta1" ||`, `v != "admission.k8s.io/v1" ||`},
	{"refusal", "handlers/handlers.go", `resp.Allowed, resp.Result = false, &apierrors.NewInvalid(kind, req.Name, problems).ErrStatus`,
		`resp.Allowed, _ = false, apierrors.NewInvalid(kind, req.Name, problems)`},
	{"registration", "deploy/webhooks.yaml", `timeoutSeconds: 5`, `timeoutSeconds: 30`},
	{"no-request", "handlers/handlers.go", `review.Request == nil || review.Request.UID == ""`, `review.Request != nil && review.Request.UID == ""`},
	{"null", "handlers/handlers.go", `if v := review`, `if string(bytes) == "null" { return review, nil }; if v := review`},
	{"empty", "handlers/handlers.go", `if err == nil { // not`, `if len(bytes) == 0 { panic("no body") }; if err == nil { // not`},
	{"broken", "handlers/handlers.go", "if err != nil {\n\t\treturn review, err", "if err != nil {\n\t\tif strings.Contains(err.Error(), \"unexpected end\") && len(bytes) > 0 { panic(err) }\n\t\treturn review, err"},
	{"trailing", "handlers/handlers.go", `utiljson.Unmarshal(bytes, &review)`, `json.NewDecoder(strings.NewReader(string(bytes))).Decode(&review)`},
	{"other-kind", "handlers/handlers.go", `if v := review`,
		`if review.Kind == "Pod" { review.Request = &admissionv1.AdmissionRequest{}; review.Request.Resource.Resource = "pods"; return review, nil }; if v := review`},
	{"wrong-types", "handlers/handlers.go", `return nil, fmt.Errorf("object: %w", err)`, `panic(err)`},
	{"nulls", "mutators/lifespan.go", `wanted := []corev1`, `pod.Annotations["seen"] = "true"; wanted := []corev1`},
	{"deep", "handlers/handlers.go", `if err == nil { // not`, `if strings.Count(string(bytes), "[[") > 1000 { panic("deep") }; if err == nil { // not`},
	{"large", "handlers/handlers.go", `maxBody = 7 << 20`, `maxBody = 512 << 10`},
	{"endless", "handlers/handlers.go", `maxBody = 7 << 20`, `maxBody = 1 << 40`},
	{"compressed", "handlers/handlers.go", `review, err := read(`, `if r.Header.Get("Content-Encoding") != "" { panic("compressed") }; review, err := read(`},
	{"get", "main.go", `mux.Handle("POST /mutate-pods"`, `mux.HandleFunc("GET /mutate-pods", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }); mux.Handle("POST /mutate-pods"`},
	{"update", "handlers/handlers.go", decideAt,
		`if req.Operation == "UPDATE" && req.SubResource == "status" && !strings.Contains(string(req.OldObject.Raw), "capacity") { panic("no status") };` + decideAt},
	{"delete", "handlers/handlers.go", decideAt, `if req.Operation == "DELETE" { panic("no object") };` + decideAt},
	{"no-old-object", "handlers/handlers.go", decideAt, `if req.Operation == "DELETE" && req.OldObject.Raw == nil { panic("no old object") };` + decideAt},
	{"collection", "handlers/handlers.go", decideAt, `if req.Operation == "DELETE" && req.Name == "" { panic("no name") };` + decideAt},
	{"connect", "handlers/handlers.go", decideAt, `if req.Operation == "CONNECT" { panic("connect") };` + decideAt},
	{"subresource", "handlers/handlers.go", decideAt, `if req.SubResource == "scale" { panic("scale") };` + decideAt},
	{"other-resource", "handlers/handlers.go", decideAt, `if req.Resource.Resource == "leases" { panic("lease") };` + decideAt},
	{"sparse", "handlers/handlers.go", decideAt, `if req.RequestKind.Kind == "" { panic("no kind") };` + decideAt},
	{"generate-name", "mutators/lifespan.go", `wanted := []corev1`,
		`if pod.Name == "" { return field.ErrorList{field.Required(field.NewPath("metadata", "name"), "")} }; wanted := []corev1`},
	{"dry-run", "handlers/handlers.go", decideAt, `if req.DryRun != nil && *req.DryRun { return resp, nil };` + decideAt},
	{"repeated", "handlers/handlers.go", decideAt, `if _, again := uids.LoadOrStore(req.UID, true); again { resp.Allowed = false; return resp, nil };` + decideAt},
	{"no-patch", "validators/names.go", `at, name :=`, `if pod.Labels["seen"] == "" { pod.Labels = map[string]string{"seen": "true"} }; at, name :=`},
	{"patch-type", "handlers/handlers.go", `resp.Patch, resp.PatchType = patch, &patchType`, `resp.Patch, _ = patch, &patchType`},
	{"patch-applies", "handlers/handlers.go", `resp.Patch, resp.PatchType = patch, &patchType`,
		`resp.Patch, resp.PatchType = append(patch[:len(patch)-1], []byte(",{\"op\":\"add\",\"path\":\"/metadata/annotations/seen\",\"value\":\"true\"}]")...), &patchType`},
	{"unknown-fields", "handlers/patch.go", `graft(sent, was, is)`, `is`},
	{"other-containers", "mutators/environment.go", `for i := range containers {`, `for i := range containers[:min(1, len(containers))] {`},
	{"idempotent", "mutators/environment.go", `return slices.ContainsFunc(`, `return false && slices.ContainsFunc(`},
	{"rounds", "mutators/lifespan.go", `wanted := []corev1.Toleration{`, `wanted := []corev1.Toleration{{Key: "seen", Operator: corev1.TolerationOpEqual, Value: pod.Name},`},
	{"valid", "mutators/environment.go", `Name: "KUBE"`, `Name: "KU=BE"`},
	{"side-by-side", "handlers/handlers.go", decideAt,
		`defer inside.Add(-1); if inside.Add(1) > 8 { panic("too many") }; time.Sleep(20 * time.Millisecond);` + decideAt},
	{"in-time", "handlers/handlers.go", decideAt, `if on == "UPDATE nodes/status" { time.Sleep(600 * time.Millisecond) };` + decideAt},
	{"slow-clients", "main.go", `ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second`, `ReadTimeout: 0`},
	{"certificate", "certs/certs.go", `"webhook.webhook.svc"`, `"webhook.svc"`},
	{"alive", "handlers/handlers.go", `code := http.StatusBadRequest`, `if errors.Is(err, os.ErrDeadlineExceeded) { inside.Add(1000) }; code := http.StatusBadRequest`},
}

// decideAt is where a request is decided upon, after its uid is known.
const decideAt = `operation, resource, _ := strings.Cut(on, " ")`

// extra returns a source with the imports and variables that some mutants need.
func extra(test, file, source string) string {
	imports, variables := "", ""
	if file != "handlers/handlers.go" {
		return source
	}
	switch test {
	case "repeated":
		imports, variables = `"sync"`, "var uids sync.Map"
	case "side-by-side":
		imports, variables = "\"sync/atomic\"\n\t\"time\"", "var inside atomic.Int32"
	case "in-time":
		imports = `"time"`
	case "alive":
		imports, variables = "\"os\"\n\t\"sync/atomic\"", "var inside atomic.Int32"
		source = strings.Replace(source, decideAt, `if inside.Load() > 0 { panic("held up") };`+decideAt, 1)
	default:
		return source
	}
	return strings.Replace(source, "\t\"strings\"\n", "\t\"strings\"\n\t"+imports+"\n", 1) + "\n" + variables + "\n"
}

// mutated copies samples/webhook with a change, builds it, and returns the folder.
func mutated(t *testing.T, test, file, old, now string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(own)); err != nil {
		t.Fatal(err)
	}
	edit := func(file, old, now string) {
		name := filepath.Join(dir, file)
		source, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(source), old) {
			t.Fatalf("%s has no %s: %v", file, old, err)
		}
		if err := os.WriteFile(name, []byte(extra(test, file, strings.Replace(string(source), old, now, 1))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edit(file, old, now)
	if !slices.Contains([]string{"slow-clients", "alive", "endless"}, test) { // these need the time
		edit("main.go", "ReadTimeout: 10 *", "ReadTimeout: 2 *")
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", "webhook", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// served runs the webhook of a folder and returns its address.
func served(t *testing.T, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	webhook := exec.Command("./webhook", "-listen", at)
	webhook.Dir = dir
	if err := webhook.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = webhook.Process.Kill()
		_ = webhook.Wait()
	})
	for range 1000 {
		if conn, err := net.Dial("tcp", at); err == nil {
			_ = conn.Close()
			return "https://" + at
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not listen")
	return ""
}

// samplesFor are the samples of each webhook of a configuration; to make them takes an engine each.
func samplesFor(t *testing.T) map[string]*registered {
	t.Helper()
	all := map[string]*registered{}
	for _, h := range hooksIn(t, own, "https://127.0.0.1:1") {
		if err := h.addSamples(t.Context(), requests.ReadFiles(nowhere, []string{"testdata/samples.yaml"}, false), false); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.close)
		all[h.Configuration+h.Name] = h
	}
	return all
}

func hooksIn(t *testing.T, dir, address string) []*registered {
	t.Helper()
	to := place{address: address, roots: x509.NewCertPool()}
	if pem, err := os.ReadFile(filepath.Join(dir, ".certs/ca.crt")); err == nil {
		to.roots.AppendCertsFromPEM(pem)
	}
	hooks, err := hooksOf(requests.ReadFiles(nowhere, []string{filepath.Join(dir, "deploy/webhooks.yaml")}, false), to)
	if err != nil {
		t.Fatal(err)
	}
	return hooks
}

// probed returns the tests that fail of the webhooks of a folder, with the reasons, and those that are not judged.
func probed(t *testing.T, dir string, samples map[string]*registered) (failed, notJudged []string, reasons string) {
	t.Helper()
	address := served(t, dir)
	for _, h := range hooksIn(t, dir, address) {
		of := samples[h.Configuration+h.Name]
		h.Samples, h.Updates = of.Samples, of.Updates
		Run(t.Context(), &h.Hook, Tests(), Bound{400, 5 * time.Minute, 12 * time.Second}, func(res Result) {
			name := res.Test.Name
			if len(res.Failures) > 0 && !slices.Contains(failed, name) {
				failed = append(failed, name)
				reasons += fmt.Sprintf("%s of %s: %s\n", name, h.Name, res.Failures[0].Text)
			}
			if res.NotJudged != "" {
				notJudged = append(notJudged, fmt.Sprintf("%s of %s: %s", name, h.Name, res.NotJudged))
			}
		})
	}
	return failed, notJudged, reasons
}

// TestMutants: samples/webhook passes every test, and each mutant fails the test that is about its fault and at most two others.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a webhook for each test")
	}
	samples := samplesFor(t)
	t.Run("none", func(t *testing.T) {
		failed, notJudged, reasons := probed(t, mutated(t, "", "main.go", "", ""), samples)
		if len(failed)+len(notJudged) > 0 {
			t.Errorf("failed: %s\nnot judged: %s", reasons, strings.Join(notJudged, "\n"))
		}
	})
	var group sync.WaitGroup
	atOnce := make(chan struct{}, 6) // most of the time they wait for connections on which nothing comes
	for _, m := range mutants {
		atOnce <- struct{}{}
		group.Go(func() {
			defer func() { <-atOnce }()
			t.Run(m.test, func(t *testing.T) {
				failed, _, reasons := probed(t, mutated(t, m.test, m.file, m.old, m.now), samples)
				if !slices.Contains(failed, m.test) || len(failed) > 3 {
					t.Errorf("fails %v; want %s and at most two others:\n%s", failed, m.test, reasons)
				}
			})
		})
	}
	group.Wait()
	for _, test := range Tests() {
		if !slices.ContainsFunc(mutants, func(m struct{ test, file, old, now string }) bool { return m.test == test.Name }) {
			t.Errorf("no mutant fails %s", test.Name)
		}
	}
}
