package process

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
	"usher.dev/usher/test/harness"
)

// run runs a command and returns its exit code and output.
func run(t *testing.T, in string, args ...string) (code int, out, errors string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Program{Suites: routes.Suites(), Version: "dev", In: strings.NewReader(in), Out: &stdout, Err: &stderr, Serve: server.Run}.Run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// TestCommandGoldens compares the output of the commands with goldens. `make golden` rewrites them.
func TestCommandGoldens(t *testing.T) {
	ca, open := filepath.Join("test", "testdata", "ca.crt"), strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates"))
	for file, args := range map[string]string{
		"help":                "help",
		"webhooks":            "webhooks --ca-file " + ca,
		"webhooks-policy":     "webhooks --config samples/policy.yaml",
		"webhooks-url":        "webhooks --url https://127.0.0.1:9443/ --service demo/door",
		"webhooks-colocation": "webhooks --suite colocation --exclude-namespace rook-ceph --exclude-namespace calico-system --exclude-namespace rook-ceph --feature-gates " + open,
		"serve-help":          "serve --help",
	} {
		t.Run(file, func(t *testing.T) {
			code, out, errors := run(t, "", strings.Fields(args)...)
			if code != 0 || errors != "" {
				t.Errorf("usher %s: exit code %d: %s", args, code, errors)
			}
			harness.CompareGolden(t, filepath.Join("test", "testdata", file+".golden"), out)
		})
	}
}

// TestMovedCommands: commands of usherctl that were usher's say where they are.
func TestMovedCommands(t *testing.T) {
	for args, now := range map[string]string{"review FILE": "`usherctl review` now", "test --coverage dir": "`usherctl test` now", "doctor": "`usherctl doctor` now",
		"new step name": "`usherctl new` now", "quota -n team-a": "`kubectl get elasticquotas`, or for manifests `usherctl review --cluster=api FILE`, now"} {
		if code, out, errors := run(t, "", strings.Fields(args)...); code != 2 || out != "" || !strings.Contains(errors, "this is "+now) {
			t.Errorf("usher %s: exit code %d: %s%s", args, code, out, errors)
		}
	}
}

// TestExitCodes: what each mistake ends with, and what it says.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("surprise: 1\nlifespan: {label: a, taint: b, max: 1000}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		in   string
		args string
		code int
		says []string
	}{
		{"", "nonsense", 2, []string{`unknown command "nonsense"`}},
		{"", "webhooks aply", 2, []string{`unknown command "aply" for "usher webhooks"; did you mean apply?`}},
		{"", "webhooks --out dir", 2, []string{"--out and --static-dir go with --static"}},
		{"", "webhooks --rbac --compare nothing", 2, []string{"[compare rbac]"}},
		{"", "webhooks --compare test/testdata/webhooks.golden", 0, []string{"not looked at: their caBundles"}},
		{"", "webhooks --compare test/testdata/webhooks.golden --ca-file test/testdata/ca.crt", 0, []string{"are those that are needed\n"}},
		{"", "webhooks --compare test/testdata/webhooks.golden --url https://127.0.0.1:9443", 1, []string{"clientConfigs differ", "needed https://127.0.0.1:9443/mutate-pods"}},
		{"", "serve --suite core --slo-config-name x", 2, []string{"--slo-config-name is for the suite colocation, which --suite leaves out"}},
		{"", "serve --suite core --feature-gates MultiQuotaTree=true", 2, []string{"--feature-gates is for the suite colocation"}},
		{"", "serve --suite cor", 2, []string{`"cor": must be core or colocation`}},
		{"", "serve --suite=", 2, []string{"--suite: name a suite"}},
		{"", "serve --lisen :1", 2, []string{"unknown flag: --lisen; did you mean --listen?"}},
		{"", "serve --nonsense", 2, []string{"unknown flag: --nonsense; `usher serve --help` lists the flags"}},
		{"", "show a b", 2, []string{"accepts at most 1 arg"}},
		{"", "serve here", 2, []string{`usher serve takes no arguments, and there is "here"`}},
		{"", "serve --nonsense", 2, []string{"unknown flag"}},
		{"", "serve extra", 2, []string{"extra"}},
		{"", "serve --plain --listen 0.0.0.0:9443", 2, []string{"127.0.0.1:9443"}},
		{"", "serve --plain --listen :9443", 2, []string{"this machine only"}},
		{"", "serve --plain --cert-dir x", 2, []string{"--cert-dir"}},
		{"", "serve --log-format xml", 2, []string{"auto, json or text"}},
		{"", "serve --listen 127.0.0.1:0 --config " + bad, 2, []string{"surprise: Forbidden: unknown field; the known fields are ", "lifespan.max"}},
		{"", "serve --config /does/not/exist", 2, []string{"no such file"}},
		{"", "serve --listen 127.0.0.1:0 --cert-dir " + dir, 2, []string{"usher certs init"}},
		{"", "webhooks --service usher", 2, []string{"namespace/name"}},
		{"", "webhooks --service a/b/c", 2, []string{"namespace/name"}},
		{"", "webhooks --service A/b", 2, []string{"--service \"A/b\"", "namespace/name", "lower-case letters"}},
		{"", "webhooks --service=", 2, []string{"namespace/name"}},
		{"", "certs init --days 0", 2, []string{"--days 0: must be 1 to 365"}},
		{"", "webhooks --url https://u:p@h/#x", 2, []string{"https://"}},
		{"", "webhooks --exclude-namespace Storage", 2, []string{`--exclude-namespace "Storage"`, "lowercase RFC 1123 label"}},
		{"", "webhooks --exclude-pods cni", 2, []string{`--exclude-pods "cni"`, "namespace/serviceaccount"}},
		{"", "webhooks --exclude-pods Net/cni", 2, []string{`--exclude-pods "Net/cni"`, "lowercase RFC 1123 label"}},
		{"", "webhooks --exclude-namespace=", 2, []string{`--exclude-namespace ""`, "lowercase RFC 1123 label"}},
		{"", "webhooks extra", 2, []string{`"extra"`}},
		{"", "webhooks --suite=colocation --fail-closed=/validate-pods", 2, []string{"--fail-closed /validate-pods", "register no such path"}},
		{"", "webhooks --fail-closed=/mutate-nodes", 2, []string{"--fail-closed /mutate-nodes", "heartbeat"}},
		{"", "show samples/reviews/mutate-pods/lifespan-three.json", 2, []string{"this is a request, not an answer"}},
		{"", "show no-such-file", 2, []string{"no-such-file"}},
		{"", "show a b", 2, []string{"at most 1 arg"}},
		{"", "--version", 0, []string{"usher version dev"}},
		{"", "webhooks --url http://x", 2, []string{"https://"}},
		{"", "webhooks --ca-file main.go", 2, []string{"no PEM certificate"}},
		{"", "certs", 2, []string{"usher certs init"}},
		{"", "certs rotate --distrust", 2, []string{"--distrust is for --ca"}},
		{"", "certs rotate --service x", 2, []string{"namespace/name"}},
		{"", "certs rotate --kubeconfig /nowhere", 2, []string{"/nowhere"}},
		{"", "webhooks apply --kubeconfig /nowhere", 2, []string{"no API server", "/nowhere", "set KUBECONFIG"}},
		{"", "webhooks --certs=managed", 2, []string{"--rbac"}},
		{"", "webhooks --rbac --certs=managed", 0, []string{"usher-ca", "usher-tls", "mutatingwebhookconfigurations", "RoleBinding"}},
		{"", "serve --plain --require-sections env,naems", 2, []string{"the policy has no section naems", "did you mean names?"}},
		{"", "serve --plain --require-sections names,rules,limits", 2, []string{"policy embedded default: it lacks the sections rules, limits", "take them out of the flag"}},
		{"", "serve --certs=somewhere", 2, []string{"must be local or managed"}},
		{"", "serve --certs=managed --cert-dir x", 2, []string{"leave out --cert-dir"}},
		{"", "serve --certs=managed --plain", 2, []string{"--plain serves no certificate"}},
		{"", "serve --plain --tls-min-version=modern", 2, []string{"--plain serves no certificate, and no TLS"}},
		{"", "serve --certs=managed --service usher", 2, []string{"namespace/name"}},
		{"", "serve --certs=managed --cert-lifetime 9s", 2, []string{"at least 10s"}},
		{"", "serve --certs=managed --ca-lifetime 24h", 2, []string{"three times --cert-lifetime"}},
		{"", "serve --cert-lifetime 1h", 2, []string{"is for --certs=managed"}},
		{"", "serve --certs=managed --kubeconfig /nowhere", 2, []string{"pass --kubeconfig", "/nowhere"}},
		{"", "certs init -o secret", 2, []string{"--service"}},
		{"", "certs init --service a.b", 2, []string{"namespace/name"}},
		{"", "version", 0, []string{"dev"}},
		{"nonsense", "show", 2, []string{"no AdmissionReview came back", "nonsense"}},
		{`{"response":{"uid":"u","allowed":false,"status":{"code":403,"reason":"Forbidden","message":"no"}}}`, "show", 1, []string{"denied", "403 Forbidden", "no"}},
	}
	for _, c := range cases {
		code, out, errors := run(t, c.in, strings.Fields(c.args)...)
		if code != c.code {
			t.Errorf("usher %s: exit code %d, want %d\n%s%s", c.args, code, c.code, out, errors)
		}
		for _, want := range c.says {
			if !strings.Contains(out+errors, want) {
				t.Errorf("usher %s does not say %q:\n%s%s", c.args, want, out, errors)
			}
		}
	}
}

// TestCertsInit: `serve --cert-dir` and `webhooks --ca-file` accept what it writes.
func TestCertsInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	code, secret, errors := run(t, "", "certs", "init", "--service", "demo/door", "--out", dir, "-o", "secret")
	if code != 0 || !strings.Contains(secret, "kind: Secret") || strings.Contains(secret, "ca.key") {
		t.Fatalf("%d %s %s", code, secret, errors)
	}
	short := filepath.Join(t.TempDir(), "short")
	if code, _, errors := run(t, "", "certs", "init", "--days", "30", "--out", short); code != 0 {
		t.Fatal(errors)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(short, "tls.crt"), filepath.Join(short, "tls.key"))
	if err != nil || pair.Leaf.NotAfter.After(time.Now().AddDate(0, 0, 31)) || pair.Leaf.NotAfter.Before(time.Now().AddDate(0, 0, 29)) {
		t.Errorf("--days 30: %v until %v", err, pair.Leaf.NotAfter)
	}
	if code, _, errors := run(t, "", "certs", "init", "--out", dir); code != 2 || !strings.Contains(errors, "--overwrite") {
		t.Errorf("a CA was overwritten: %d %s", code, errors)
	}
	if code, out, errors := run(t, "", "webhooks", "--ca-file", filepath.Join(dir, "ca.crt")); code != 0 || strings.Count(out, "caBundle: LS0t") != 4 {
		t.Errorf("%d %s %s", code, out, errors)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	many := filepath.Join(short, "many.crt")
	if err := os.WriteFile(many, bytes.Repeat(ca, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errors := run(t, "", "webhooks", "--ca-file", many); code != 2 || !strings.Contains(errors, "at most 32 KiB") {
		t.Errorf("many CAs: %d %s", code, errors)
	}
	s := start(t, "--cert-dir", dir)
	if s.out.String() != "" {
		t.Errorf("a service in a cluster greets nobody: %s", s.out)
	}
	if code, text := s.get(t, "http://"+s.operations+"/readyz"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
}
