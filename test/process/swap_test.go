package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/certs"
	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// Files that change under load: the certificate and the policy.

// secretVolume changes certificates like the kubelet: a new directory, then one rename of the link to it.
type secretVolume struct {
	dir      string
	ca       certs.Pair
	versions int
}

func newSecretVolume(t *testing.T) *secretVolume {
	t.Helper()
	ca, err := certs.NewAuthority(time.Now())
	v := &secretVolume{dir: t.TempDir(), ca: ca}
	err = errors.Join(err, os.WriteFile(filepath.Join(v.dir, "ca.crt"), ca.Cert, 0o600),
		os.Symlink("..data/tls.crt", filepath.Join(v.dir, certs.CertFile)), os.Symlink("..data/tls.key", filepath.Join(v.dir, certs.KeyFile)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *secretVolume) issue(t *testing.T) certs.Pair {
	t.Helper()
	names, err := certs.ServiceNames("")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := certs.IssueUntil(v.ca, names, time.Now(), time.Now().AddDate(0, 1, v.versions)) // each expires on another day
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func (v *secretVolume) swap(t *testing.T, leaf certs.Pair) {
	t.Helper()
	v.versions++
	version := fmt.Sprintf("..version_%d", v.versions)
	next, link := filepath.Join(v.dir, version), filepath.Join(v.dir, "..data_tmp")
	err := errors.Join(os.Mkdir(next, 0o700), os.WriteFile(filepath.Join(next, certs.CertFile), leaf.Cert, 0o600),
		os.WriteFile(filepath.Join(next, certs.KeyFile), leaf.Key, 0o600), os.Symlink(version, link), os.Rename(link, filepath.Join(v.dir, "..data")))
	if err != nil {
		t.Fatal(err)
	}
}

// serves reports whether new connections get a certificate.
func (p *process) serves(t *testing.T, leaf certs.Pair) bool {
	t.Helper()
	want, err := leaf.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	w := p.dial(t)
	defer func() { _ = w.Close() }()
	return w.ConnectionState().PeerCertificates[0].Equal(want)
}

// TestProcessCertificateRotation: under load, a renewed Secret is used, an invalid one is not, and no client notices.
func TestProcessCertificateRotation(t *testing.T) {
	t.Parallel()
	volume := newSecretVolume(t)
	first := volume.issue(t)
	volume.swap(t, first)
	p := launched(t, launch{args: []string{"--cert-dir", volume.dir}})
	p.trust(t, filepath.Join(volume.dir, "ca.crt"))
	kept := startLoad(t, loadOptions{address: p.reviews, roots: p.roots, clients: 4, right: fixed(t)})
	fresh := startLoad(t, loadOptions{address: p.reviews, roots: p.roots, clients: 4, right: fixed(t), newEach: true})
	if !p.serves(t, first) {
		t.Error("another certificate is served than there is")
	}
	for range scaled(1, 2, 5) { // more than one, because the first change of a link is the easiest to see
		broken, second := volume.issue(t), volume.issue(t)
		volume.swap(t, certs.Pair{Cert: broken.Cert, Key: first.Key})
		p.waitLog(t, "the new certificate is bad")
		eventually(t, "the bad certificate shows", func() bool { return p.metric(t, "usher_certificate_current ") == 0 })
		volume.swap(t, second)
		eventually(t, "the new certificate is served", func() bool { return p.serves(t, second) })
		p.wantExpiry(t, second)
		eventually(t, "the metric shows the new one", func() bool { return p.metric(t, "usher_certificate_current ") == 1 })
		kept.more(t, 50)
		fresh.more(t, 50)
		first = second
	}
	kept.wantNoFailure(t)
	fresh.wantNoFailure(t)
	p.wantNoFault(t)
}

// wantExpiry checks that the metric is about this certificate.
func (p *process) wantExpiry(t *testing.T, leaf certs.Pair) {
	t.Helper()
	want, err := leaf.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.metric(t, "usher_certificate_expiry_timestamp_seconds "); got != float64(want.NotAfter.Unix()) {
		t.Errorf("the metric says that the certificate expires at %v, want %v", got, want.NotAfter.Unix())
	}
}

// TestProcessPolicySwap: under load, an invalid policy changes nothing, and a valid one changes every answer from some
// moment on.
func TestProcessPolicySwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	write := func(text string) { // in one step, as a ConfigMap volume changes
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	answersOf := func(text string) map[string]string {
		policy, problems := config.Parse([]byte(text), routes.Suites().Schema())
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return rightAnswers(t, policy)
	}
	old := string(routes.Suites().Schema().DefaultYAML())
	now := strings.NewReplacer("offensive", "rude", "max: 14", "max: 5", `cpu: "2"`, `cpu: "3"`).Replace(old)
	write(old)
	p := launched(t, launch{args: []string{"--config", file}})
	clients := startLoad(t, loadOptions{address: p.reviews, roots: p.roots, clients: 8, right: oneOf(answersOf(old), answersOf(now))})
	for _, bad := range []string{"names: {denied: [offensive", "surprise: 1", "", "lifespan: {label: a, taint: b, max: 1000}"}[:scaled(1, 1, 4)] {
		write(bad)
		clients.more(t, 50)
		eventually(t, "the bad policy shows", func() bool { return p.metric(t, "usher_policy_current ") == 0 })
		write(old)
		eventually(t, "and is gone", func() bool { return p.metric(t, "usher_policy_current ") == 1 })
	}
	write(now)
	want := answersOf(now)[podSample]
	eventually(t, "the new policy is in force", func() bool {
		got, err := p.send("/mutate-pods", harness.ReadSample(t, podSample), nil)
		return err == nil && got.body == want
	})
	clients.more(t, 100)
	clients.wantNoFailure(t)
	p.wantNoFault(t)
}
