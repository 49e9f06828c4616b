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

type mutant struct{ test, file, old, now string }

// mutants are faults that somebody might make in samples/webhook, by the test that must find each: the file, what it has, and what it has instead.
// Those that only put something before it are built together: the variable MUTANT says which fault the webhook has.
var mutants = []mutant{
	{"answer", "handlers/handlers.go", contentType, `w.WriteHeader(http.StatusCreated);` + contentType},
	{"uid", "handlers/handlers.go", decideAt, `resp.UID = "1";` + decideAt},
	{"version", "handlers/handlers.go", `review.Request = nil`, `review.Kind = "";review.Request = nil`},
	{"v1beta1", "handlers/handlers.go", checkAt, `if review.APIVersion == "admission.k8s.io/v1beta1" { return review, errors.New("too old") };` + checkAt},
	{"refusal", "handlers/handlers.go", "return resp, nil\n\t}\n\tpatch", "resp.Result = nil;return resp, nil\n\t}\n\tpatch"},
	{"registration", "deploy/webhooks.yaml", `timeoutSeconds: 5`, `timeoutSeconds: 30`},
	{"no-request", "handlers/handlers.go", `if review.Request == nil`, `if review.Request == nil { return review, nil };if review.Request == nil`},
	{"null", "handlers/handlers.go", checkAt, `if string(bytes) == "null" { return review, nil };` + checkAt},
	{"empty", "handlers/handlers.go", readAt, `if len(bytes) == 0 { panic("no body") };` + readAt},
	{"broken", "handlers/handlers.go", "return review, err", `if strings.Contains(err.Error(), "unexpected end") && len(bytes) > 0 { panic(err) };return review, err`},
	{"trailing", "handlers/handlers.go", readAt,
		`var first json.RawMessage; if json.NewDecoder(strings.NewReader(string(bytes))).Decode(&first) == nil { bytes = first };` + readAt},
	{"other-kind", "handlers/handlers.go", checkAt,
		`if review.Kind == "Pod" { review.Request = &admissionv1.AdmissionRequest{}; review.Request.Resource.Resource = "pods"; return review, nil };` + checkAt},
	{"wrong-types", "handlers/handlers.go", `return nil, fmt.Errorf("object: %w", err)`, `panic(err);return nil, fmt.Errorf("object: %w", err)`},
	{"nulls", "mutators/lifespan.go", `wanted := []corev1`, `pod.Annotations["seen"] = "true";wanted := []corev1`},
	{"deep", "handlers/handlers.go", readAt, `if strings.Count(string(bytes), "[[") > 1000 { panic("deep") };` + readAt},
	{"large", "handlers/handlers.go", requestAt, `r.Body = http.MaxBytesReader(w, r.Body, 512 << 10);` + requestAt},
	{"endless", "handlers/handlers.go", requestAt,
		`all, _ := io.ReadAll(r.Body); r.Body = io.NopCloser(strings.NewReader(strings.TrimSpace(string(all))));` + requestAt},
	{"compressed", "handlers/handlers.go", requestAt, `if r.Header.Get("Content-Encoding") != "" { panic("compressed") };` + requestAt},
	{"get", "main.go", `mux.Handle("POST /mutate-pods"`, `mux.HandleFunc("GET /mutate-pods", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) });mux.Handle("POST /mutate-pods"`},
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
	{"no-patch", "validators/names.go", `at, name :=`, `if pod.Labels["seen"] == "" { pod.Labels = map[string]string{"seen": "true"} };at, name :=`},
	{"patch-type", "handlers/handlers.go", "return resp, err", "resp.PatchType = nil;return resp, err"},
	{"patch-applies", "handlers/handlers.go", `patchType := admissionv1`,
		`patch = append(patch[:len(patch)-1], []byte(",{\"op\":\"add\",\"path\":\"/metadata/annotations/seen\",\"value\":\"true\"}]")...);patchType := admissionv1`},
	{"unknown-fields", "handlers/patch.go", `graft(sent, was, is)`, `is`},
	{"other-containers", "mutators/environment.go", `c := &containers[i]`, `if i > 0 { continue };c := &containers[i]`},
	{"idempotent", "mutators/environment.go", `return slices.ContainsFunc(`, `return false;return slices.ContainsFunc(`},
	{"rounds", "mutators/lifespan.go", `wanted := []corev1.Toleration{`, `wanted := []corev1.Toleration{{Key: "seen", Operator: corev1.TolerationOpEqual, Value: pod.Name},`},
	{"valid", "mutators/environment.go", `for _, containers`, `variables = []corev1.EnvVar{{Name: "KU=BE"}};for _, containers`},
	{"side-by-side", "handlers/handlers.go", decideAt,
		`defer inside.Add(-1); if inside.Add(1) > 8 { panic("too many") }; sleep(20);` + decideAt},
	{"in-time", "handlers/handlers.go", decideAt, `if on == "UPDATE nodes/status" { sleep(600) };` + decideAt},
	{"slow-clients", "main.go", `server := &http`, `patience = 0;server := &http`},
	{"certificate", "certs/certs.go", `"webhook.webhook.svc"`, `"webhook.svc"`},
	{"alive", "handlers/handlers.go", `code := http.StatusBadRequest`, `if errors.Is(err, late) { held.Add(1) };code := http.StatusBadRequest`},
	{"alive", "handlers/handlers.go", decideAt, `if held.Load() > 0 { panic("held up") };` + decideAt},
}

const (
	contentType = `w.Header().Set("Content-Type", "application/json")`
	requestAt   = `review, err := read(`                           // before a request is read
	readAt      = `if err == nil { // not`                         // after it was read
	checkAt     = `if v := review`                                 // after it was decoded
	decideAt    = `operation, resource, _ := strings.Cut(on, " ")` // before it is decided upon
)

// shared has the declarations that mutants use, by package.
const shared = `package %s
import ("os"; "sync"; "sync/atomic"; "time")
var mutant, late = os.Getenv("MUTANT"), os.ErrDeadlineExceeded
var patience = map[bool]time.Duration{true: 10 * time.Second, false: 2 * time.Second}[mutant == "alive" || mutant == "endless"]
var uids sync.Map
var inside, held atomic.Int32
func sleep(ms time.Duration) { time.Sleep(ms * time.Millisecond) }
`

// builtTogether reports whether the faults that a test must find are built with those of other tests.
func builtTogether(test string) bool {
	return !slices.ContainsFunc(mutants, func(m mutant) bool { return m.test == test && !strings.HasSuffix(m.now, m.old) })
}

// mutated copies samples/webhook with the faults of a test, or all that are built together if it is one of them, builds it, and returns the folder.
// Without a test it is the webhook as it is.
func mutated(t *testing.T, test string) string {
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
		if err := os.WriteFile(name, []byte(strings.Replace(string(source), old, now, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range mutants {
		if what, before := strings.CutSuffix(m.now, m.old); test != "" && before && builtTogether(test) && builtTogether(m.test) {
			edit(m.file, m.old, fmt.Sprintf("if mutant == %q { %s }; %s", m.test, what, m.old))
		} else if m.test == test {
			edit(m.file, m.old, m.now)
		}
	}
	if test != "" {
		for _, name := range []string{"main", "handlers", "mutators", "validators"} {
			folder := strings.TrimPrefix(name, "main")
			if err := os.WriteFile(filepath.Join(dir, folder, "mutant.go"), fmt.Appendf(nil, shared, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		edit("main.go", "ReadTimeout: 10 * time.Second", "ReadTimeout: patience")
	}
	build := exec.Command("sh", "-c", "go build -ldflags='-s -w' -o webhook . && ./webhook -make-certs")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// served runs the webhook of a folder and returns its address.
func served(t *testing.T, dir string, env ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	webhook := exec.Command("./webhook", "-listen", at)
	webhook.Dir, webhook.Env = dir, append(os.Environ(), env...)
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

// probed returns the tests that fail of the webhooks of a folder that has the fault of a test, with the reasons, and those that are not judged.
// Unless all are wanted, it ends with the webhook that shows the fault.
func probed(t *testing.T, dir, test string, all bool, samples map[string]*registered) (failed, notJudged []string, reasons string) {
	t.Helper()
	address := served(t, dir, "MUTANT="+test)
	for i, h := range hooksIn(t, dir, address) {
		of := samples[h.Configuration+h.Name]
		h.Samples, h.Updates, h.slowTested = of.Samples, of.Updates, i > 0
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
		if !all && slices.Contains(failed, test) {
			break
		}
	}
	return failed, notJudged, reasons
}

// TestMutants: samples/webhook passes every test, and each mutant fails the test that is about its fault and at most two others.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds webhooks")
	}
	samples, together := samplesFor(t), mutated(t, "answer")
	var group sync.WaitGroup
	atOnce := make(chan struct{}, 6) // much of the time they wait for connections on which nothing comes
	for i, test := range append(Tests(), Test{Name: "none"}) {
		atOnce <- struct{}{}
		group.Go(func() {
			defer func() { <-atOnce }()
			t.Run(test.Name, func(t *testing.T) {
				dir := together
				switch {
				case test.Name == "none":
					dir = mutated(t, "")
				case !builtTogether(test.Name):
					dir = mutated(t, test.Name)
				case !slices.ContainsFunc(mutants, func(m mutant) bool { return m.test == test.Name }):
					t.Fatal("it has no mutant")
				}
				failed, notJudged, reasons := probed(t, dir, test.Name, i%3 == 0, samples)
				if test.Name == "none" && len(failed)+len(notJudged) > 0 {
					t.Errorf("failed: %s\nnot judged: %s", reasons, strings.Join(notJudged, "\n"))
				} else if test.Name != "none" && (!slices.Contains(failed, test.Name) || len(failed) > 3) {
					t.Errorf("fails %v; want %s and at most two others:\n%s", failed, test.Name, reasons)
				}
			})
		})
	}
	group.Wait()
}
