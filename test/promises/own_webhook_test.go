package promises

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// TestOwnWebhookIsSmall: samples/webhook has at most 450 lines of Go without tests, and knows nothing of usher.
func TestOwnWebhookIsSmall(t *testing.T) {
	lines := 0
	for _, pattern := range []string{"samples/webhook/*.go", "samples/webhook/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text := harness.ReadFile(t, file)
			if strings.Contains(text, `"usher.dev/usher/`) {
				t.Errorf("%s imports usher", file)
			}
			if !strings.HasSuffix(file, "_test.go") {
				lines += strings.Count(text, "\n")
			}
		}
	}
	if lines == 0 || lines > 450 {
		t.Errorf("%d lines, want at most 450", lines)
	}
}

// TestOwnWebhookAnswersAsUsher: samples/webhook and usher, which keeps capacity, answer the samples of the default policy with the same
// verdict about the same fields, and with patches to the same object.
func TestOwnWebhookAnswersAsUsher(t *testing.T) {
	address, client := startOwnWebhook(t)
	suites := routes.Suites()
	policy := strings.Replace(string(suites.Schema().DefaultYAML()), "capacity: raise", "capacity: keep", 1)
	mux := harness.DefaultServer().Serve(harness.OpenInstance(t, suites, harness.DemoGates(t, suites), harness.ParsePolicy(t, suites, []byte(policy))).Routes())
	beyond := []string{
		"mutate-pods/mirror-pod", "validate-pods/mirror-pod", // the webhook configurations of samples/webhook exempt them
		"mutate-nodes/node-update",         // samples/webhook: HTTP 400, because the path is for nodes/status
		"mutate-nodes/malformed-heartbeat", // samples/webhook: HTTP 400; the heartbeat passes, because failurePolicy is Ignore
		"mutate-pods/wrong-type",           // samples/webhook: HTTP 400, and no field; the pod is refused, because failurePolicy is Fail
	}
	kept := strings.NewReplacer( // nodes as they are where capacity is kept
		`,\"capacity\":\"31900m\"`, "", `,\"capacity\":\"47800m\"`, "", `"cpu": "31900m"`, `"cpu": "16"`, `"cpu": "47800m"`, `"cpu": "16"`)
	steps, _ := suites.Steps()
	steps = slices.DeleteFunc(steps, func(step string) bool {
		return slices.Contains([]string{"environment", "lifespan", "denied-names", "overcommit"}, step) // those of samples/webhook
	})
	compared := 0
	for _, name := range harness.Samples(t) {
		ofAnother := slices.ContainsFunc(steps, func(step string) bool { return strings.HasPrefix(filepath.Base(name), step) })
		if !slices.Contains([]string{"mutate-pods", "validate-pods", "mutate-nodes"}, harness.Route(name)) || harness.SamplePolicy(name) != "" || ofAnother || slices.Contains(beyond, name) {
			continue
		}
		compared++
		t.Run(name, func(t *testing.T) {
			body := []byte(kept.Replace(string(harness.ReadSample(t, name))))
			theirs := harness.Post(mux, name, body)
			resp, err := client.Post(address+"/"+harness.Route(name), "application/json", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			ours, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			got, want := outcomeOf(t, body, resp.StatusCode, ours), outcomeOf(t, body, theirs.Code, theirs.Body.Bytes())
			if !reflect.DeepEqual(got, want) {
				t.Errorf("samples/webhook: %+v\nusher: %+v", got, want)
			}
		})
	}
	if compared < 20 {
		t.Errorf("only %d samples were compared", compared)
	}
}

// outcome is the verdict of an answer, and the object that is stored.
type outcome struct {
	answered, allowed bool
	version           string
	fields            []string // that are refused
	object            any      // after the patch
}

func outcomeOf(t *testing.T, body []byte, code int, answer []byte) (o outcome) {
	t.Helper()
	var asked, answered admissionv1.AdmissionReview
	if code != http.StatusOK {
		return o
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &answered); err != nil || answered.Response.UID != asked.Request.UID {
		t.Fatalf("%v: %s", err, answer)
	}
	o.answered, o.version = true, answered.APIVersion
	if o.allowed = answered.Response.Allowed; !o.allowed && answered.Response.Result.Details != nil {
		for _, cause := range answered.Response.Result.Details.Causes {
			o.fields = append(o.fields, cause.Field)
		}
	}
	object := asked.Request.Object.Raw
	if answered.Response.Patch != nil {
		object = harness.ApplyPatch(t, object, answered.Response.Patch)
	}
	if object != nil {
		if err := json.Unmarshal(object, &o.object); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// startOwnWebhook builds and starts samples/webhook, and returns its address and a client that trusts it.
func startOwnWebhook(t *testing.T) (address string, client *http.Client) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "webhook")
	if out, err := harness.Go(t.Context(), "samples/webhook", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	_ = listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	started := exec.CommandContext(ctx, program, "-listen", host, "-certs", filepath.Join(dir, "certs"))
	if err := started.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = started.Wait() })
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ca, err := os.ReadFile(filepath.Join(dir, "certs", "ca.crt"))
		if err != nil {
			continue
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
		if resp, err := client.Get("https://" + host + "/healthz"); err == nil {
			_ = resp.Body.Close()
			return "https://" + host, client
		}
	}
	t.Fatal("samples/webhook does not answer")
	return "", nil
}
