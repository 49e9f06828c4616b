package callers

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// started starts usher with flags, and registers it. It ends with the test.
func started(ctx context.Context, t *testing.T, name string, replicas int, flags ...string) *kubetest.Usher {
	t.Helper()
	u, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: name, Replicas: replicas, Flags: flags})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = u.Unregister(ctx)
		u.Stop()
	})
	must(t, u.Register(ctx))
	return u
}

// TestClientCertificate: usher answers the API server and no one else. The CA of its certificate, the certificate, and
// usher's own key are replaced under load, and no request is refused.
func TestClientCertificate(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must(t, write(ca, read(t, filepath.Join(plane, "callers-ca.crt"))))
	u := started(ctx, t, "by-certificate", 2, "--auth=enforce", "--client-ca="+ca, "--client-names=kube-apiserver")
	foreign := t.TempDir()
	must(t, makeClient(foreign))
	stranger, err := tls.LoadX509KeyPair(filepath.Join(foreign, "client.crt"), filepath.Join(foreign, "client.key"))
	must(t, err)
	for _, r := range u.Replicas {
		if a, b, c := post(ctx, t, r, ""), post(ctx, t, r, "", stranger), post(ctx, t, r, "Bearer "+firstToken); a != 401 || b != 401 || c != 401 {
			t.Errorf("unknown callers get %d, %d and %d, want 401", a, b, c)
		}
	}

	stop := kubetest.Load(ctx, t, 0, create)
	rotated := func(n int) { awaitLog(ctx, t, u, `"msg":"known callers in force"`, n) }
	must(t, write(ca, read(t, ca)+read(t, filepath.Join(foreign, "callers-ca.crt"))))
	rotated(1)
	for _, name := range []string{"client.key", "client.crt"} { // a handshake between the two would fail, so usher's key is renewed after
		must(t, write(filepath.Join(plane, name), read(t, filepath.Join(foreign, name))))
	}
	renewServer(ctx, t, u) // another caBundle makes the API server open new connections, with the new certificate
	before := counted(ctx, t, u)
	must(t, write(ca, read(t, filepath.Join(foreign, "callers-ca.crt"))))
	rotated(2)
	time.Sleep(time.Second)
	stop()
	if after := counted(ctx, t, u); after["known"] <= before["known"] || after["wrong-certificate"] != before["wrong-certificate"] {
		t.Errorf("before the old CA was removed %v, after %v", before, after)
	}
}

// renewServer replaces usher's CA and certificate while the webhook configurations trust both.
func renewServer(ctx context.Context, t *testing.T, u *kubetest.Usher) {
	t.Helper()
	dir, next := filepath.Dir(u.CAFile), filepath.Join(t.TempDir(), "certs")
	_, err := u.Run(ctx, "certs", "init", "--service", "usher/usher", "--out", next)
	must(t, err)
	must(t, write(u.CAFile, read(t, u.CAFile)+read(t, filepath.Join(next, "ca.crt"))))
	must(t, u.Register(ctx))
	for _, name := range []string{"tls.key", "tls.crt"} {
		must(t, write(filepath.Join(dir, name), read(t, filepath.Join(next, name))))
	}
	awaitLog(ctx, t, u, `"msg":"certificate in force"`, 2)
	must(t, write(u.CAFile, read(t, filepath.Join(next, "ca.crt"))))
	must(t, u.Register(ctx))
}

// TestToken: the same with a bearer token, which is replaced under load.
func TestToken(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	tokens := filepath.Join(t.TempDir(), "tokens")
	must(t, write(tokens, firstToken+"\n"))
	u := started(ctx, t, "by-token", 2, "--auth=enforce", "--bearer-token-file="+tokens)
	if a, b := post(ctx, t, u.Replicas[0], "Bearer "+secondToken), post(ctx, t, u.Replicas[0], "Bearer "+firstToken); a != 401 || b != 400 {
		t.Errorf("a wrong token gets %d, the right one %d; want 401, and 400 for an empty review", a, b)
	}
	stop := kubetest.Load(ctx, t, 0, create)
	must(t, write(tokens, firstToken+"\n"+secondToken+"\n"))
	awaitLog(ctx, t, u, `"msg":"known callers in force"`, 1)
	must(t, write(filepath.Join(plane, "token"), secondToken))
	renewServer(ctx, t, u) // another caBundle makes the API server read the token at once, and not within a minute
	must(t, write(tokens, secondToken+"\n"))
	awaitLog(ctx, t, u, `"msg":"known callers in force"`, 2)
	time.Sleep(time.Second)
	stop()
	must(t, write(filepath.Join(plane, "token"), firstToken))
}

// TestRollOut: with --auth=log a caller that is not known is answered, counted and logged. With enforce its requests are
// refused, with a text that says so.
func TestRollOut(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	tokens := filepath.Join(t.TempDir(), "tokens")
	must(t, write(tokens, "another-0123456789abcdef0123456789abcdef\n"))
	u := started(ctx, t, "logging", 1, "--auth=log", "--bearer-token-file="+tokens)
	must(t, create(ctx))
	if n := counted(ctx, t, u); n["known"] != 0 || n["wrong-token"] < 2 {
		t.Errorf("counted %v", n)
	}
	log := u.Replicas[0].Process().Log()
	if n := strings.Count(log, "an unknown caller was answered, because of --auth=log: the bearer token is not in the file of --bearer-token-file"); n < 1 ||
		!strings.Contains(log, `"remote":"127.0.0.1"`) || strings.Contains(log, firstToken) {
		t.Errorf("%d lines\n%s", n, log)
	}
	must(t, u.Unregister(ctx))
	enforcing, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "enforcing", Flags: []string{"--auth=enforce", "--bearer-token-file=" + tokens}})
	must(t, err)
	t.Cleanup(enforcing.Stop)
	t.Cleanup(func() { _ = enforcing.Unregister(context.Background()) })
	configurations, err := enforcing.Webhooks(ctx)
	must(t, err)
	must(t, cluster.Apply(ctx, configurations))
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		if err := create(ctx); err == nil || !strings.Contains(err.Error(), "the server has asked for the client to provide credentials") {
			return fmt.Errorf("an unknown API server: %v", err)
		}
		return nil
	}))
}
