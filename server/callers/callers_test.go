package callers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/internal/poll"
)

// authority issues client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name ...string) authority {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: append(name, "ca")[0]}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	return authority{certificate(t, template, template, &key.PublicKey, key), key}
}

func certificate(t testing.TB, template, parent *x509.Certificate, key any, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		t.Fatal(err)
	}
	made, _ := x509.ParseCertificate(der)
	return made
}

// issue issues a certificate for a client, with changes to its template.
func (a authority) issue(t testing.TB, name string, changes ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, change := range changes {
		change(template)
	}
	return tls.Certificate{Certificate: [][]byte{certificate(t, template, a.cert, &key.PublicKey, a.key).Raw}, PrivateKey: key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// written writes a file, as a new file by the same name.
func written(t testing.TB, file string, text ...[]byte) string {
	t.Helper()
	if file == "" {
		file = filepath.Join(t.TempDir(), "file")
	}
	if err := os.WriteFile(file+".new", bytes.Join(text, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}

func silent() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// served serves with a gate, over TLS, and returns its URL. An answer says how many requests its connection has had.
func served(t *testing.T, gate *Gate) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := gate.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, "resumed: %v", r.TLS.DidResume)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// client returns a client with a certificate, if it is not nil.
func client(certificate *tls.Certificate) *http.Client {
	config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(4)} //nolint:gosec // the server is ours
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

func get(t *testing.T, c *http.Client, url, token string) (int, string) {
	t.Helper()
	r, _ := http.NewRequest(http.MethodGet, url, nil)
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text)
}

const goodToken, oldToken, badToken = "0123456789abcdef0123456789abcdef", "old-456789abcdef0123456789abcdef", "bad-456789abcdef0123456789abcdef"

func opened(t testing.TB, o Options, log logrus.FieldLogger) *Gate {
	t.Helper()
	gate, err := Open(o, log)
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

// TestGate: what senders are, by certificate and by token. Either suffices.
func TestGate(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	uri, _ := url.Parse("spiffe://cluster/apiserver")
	gate := opened(t, Options{Auth: Enforce, ClientCA: written(t, "", newAuthority(t).pem(), ours.pem()),
		Names:     []string{"apiserver", "api.example.com", "192.0.2.1", uri.String()},
		TokenFile: written(t, "", []byte("\n"+oldToken+"\r\n  "+goodToken+"  \n\n"))}, silent())
	at := served(t, gate)
	certified := func(a authority, name string, changes ...func(*x509.Certificate)) *tls.Certificate {
		made := a.issue(t, name, changes...)
		return &made
	}
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	forServers := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	for _, test := range []struct {
		name        string
		certificate *tls.Certificate
		token       string
		want        Result
	}{
		{"nothing", nil, "", Missing},
		{"the common name", certified(ours, "apiserver"), "", Known},
		{"a DNS name", certified(ours, "x", func(c *x509.Certificate) { c.DNSNames = []string{"api.example.com"} }), "", Known},
		{"an address", certified(ours, "x", func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("192.0.2.1")} }), "", Known},
		{"a URI", certified(ours, "x", func(c *x509.Certificate) { c.URIs = []*url.URL{uri} }), "", Known},
		{"another name", certified(ours, "someone"), "", WrongName},
		{"a part of the name", certified(ours, "apiserve"), "", WrongName},
		{"another CA", certified(foreign, "apiserver"), "", WrongCertificate},
		{"expired", certified(ours, "apiserver", expired), "", WrongCertificate},
		{"of a server", certified(ours, "apiserver", forServers), "", WrongCertificate},
		{"a token", nil, "Bearer " + goodToken, Known},
		{"the other token", nil, "bearer   " + oldToken, Known},
		{"a wrong token", nil, "Bearer " + badToken, WrongToken},
		{"both lines", nil, "Bearer " + oldToken + "\t" + goodToken, WrongToken},
		{"an empty token", nil, "Bearer ", Missing},
		{"a password", nil, "Basic " + goodToken, Missing},
		{"a wrong certificate and a token", certified(foreign, "apiserver"), "Bearer " + goodToken, Known},
		{"a certificate and a wrong token", certified(ours, "apiserver"), "Bearer " + badToken, Known},
		{"both wrong", certified(ours, "someone"), "Bearer " + badToken, WrongName},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := gate.Counts()[test.want]
			code, text := get(t, client(test.certificate), at, test.token)
			if (code == 200) != (test.want == Known) || gate.Counts()[test.want] != before+1 {
				t.Errorf("%d %s, want %s; %v", code, text, test.want, gate.Counts())
			}
			if code != 200 && strings.TrimSpace(text) != reasons[test.want] {
				t.Errorf("the answer is %q", text)
			}
		})
	}
}

// TestGateAgain: a CA that was removed is noticed on an open connection, and on a resumed session.
func TestGateAgain(t *testing.T) {
	ours := newAuthority(t)
	file := written(t, "", ours.pem())
	gate := opened(t, Options{Auth: Enforce, ClientCA: file}, silent())
	at := served(t, gate)
	identity := ours.issue(t, "apiserver")
	c := client(&identity)
	if code, text := get(t, c, at, ""); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	c.CloseIdleConnections()
	if code, text := get(t, c, at, ""); code != 200 || text != "resumed: true" {
		t.Fatalf("a resumed session: %d %s", code, text)
	}
	next, _, err := (&Certificates{file: written(t, file, newAuthority(t).pem())}).read()
	if err != nil {
		t.Fatal(err)
	}
	gate.Certificates.current.Store(next)
	if code, text := get(t, c, at, ""); code != 401 {
		t.Errorf("the open connection: %d %s", code, text)
	}
	c.CloseIdleConnections()
	if code, text := get(t, c, at, ""); code != 401 {
		t.Errorf("the resumed session: %d %s", code, text)
	}
}

// TestRemembered: a certificate is verified once, but counts only until it ends.
func TestRemembered(t *testing.T) {
	ours := newAuthority(t)
	a := newAuthorities(ours.cert)
	leaf, _ := x509.ParseCertificate(ours.issue(t, "a", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Minute) }).Certificate[0])
	chain := []*x509.Certificate{leaf}
	now := time.Now()
	if !a.issued(chain, now) || len(a.verdicts) != 1 || !a.issued(chain, now) {
		t.Error("it is not remembered")
	}
	if a.issued(chain, now.Add(2*time.Minute)) {
		t.Error("it is valid after its end")
	}
	foreign, _ := x509.ParseCertificate(newAuthority(t).issue(t, "a").Certificate[0])
	refused := []*x509.Certificate{foreign, leaf}
	if a.issued(refused, now) || len(a.verdicts) != 2 {
		t.Error("what was refused is not remembered")
	}
	a.roots = append(a.roots, foreign)
	if a.issued(refused, now) || !a.issued(refused, now.Add(refusal)) {
		t.Error("it is not refused for a while")
	}
	early, _ := x509.ParseCertificate(ours.issue(t, "a", func(c *x509.Certificate) { c.NotBefore = now.Add(3 * time.Second) }).Certificate[0])
	if chain := []*x509.Certificate{early}; a.issued(chain, now) || a.issued(chain, now.Add(time.Second)) || !a.issued(chain, now.Add(3*time.Second)) {
		t.Error("one that was not valid yet is not valid from its begin")
	}
	for i := range 3 * maxRemembered {
		a.remember([32]byte{byte(i), byte(i >> 8)}, judged{})
	}
	if len(a.verdicts) > maxRemembered {
		t.Errorf("%d are remembered", len(a.verdicts))
	}
}

// TestChains: a chain that leads to a CA is verified in any order, and no signature is checked with a key for which only the
// sender vouches: a crafted chain costs as many checks as it has certificates, each with a key of ours.
func TestChains(t *testing.T) {
	ours, foreign := newAuthority(t), newAuthority(t)
	signs := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	}
	under := func(a authority, name string, changes ...func(*x509.Certificate)) authority {
		made := a.issue(t, name, changes...)
		leaf, _ := x509.ParseCertificate(made.Certificate[0])
		return authority{leaf, made.PrivateKey.(*ecdsa.PrivateKey)}
	}
	first := under(ours, "first", signs)
	second := under(first, "second", signs)
	third := under(second, "third", signs)
	leaf := under(second, "apiserver").cert
	notCA := under(ours, "user")
	forged := []*x509.Certificate{under(foreign, "apiserver").cert}
	for range 3 {
		forged = append(forged, under(foreign, "ca", signs).cert) // all are called "ca", and so is ours
	}
	for name, c := range map[string]struct {
		chain         []*x509.Certificate
		issued        bool
		atMost, below int // checks, and those with a key that is not ours
	}{
		"direct":                     {[]*x509.Certificate{notCA.cert}, true, 1, 0},
		"two intermediates":          {[]*x509.Certificate{leaf, second.cert, first.cert}, true, 3, 2},
		"in another order, with CA":  {[]*x509.Certificate{leaf, first.cert, ours.cert, second.cert}, true, 9, 5},
		"the certificate is the CA":  {[]*x509.Certificate{ours.cert}, true, 3, 2},
		"without the first":          {[]*x509.Certificate{leaf, second.cert}, false, 0, 0},
		"five":                       {[]*x509.Certificate{under(third, "apiserver").cert, third.cert, second.cert, first.cert, ours.cert}, false, 0, 0},
		"forged":                     {forged, false, 4, 0},
		"forged below a certificate": {[]*x509.Certificate{under(notCA, "apiserver").cert, notCA.cert}, false, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			checks, below := 0, 0
			counted := c.chain[:len(c.chain)%(maxChain+1)] // none of those that are too many
			signedBy([]*x509.Certificate{ours.cert}, counted, func(child, parent *x509.Certificate) error {
				if checks++; parent != ours.cert {
					below++
				}
				return child.CheckSignatureFrom(parent)
			})
			if issued := newAuthorities(ours.cert).issued(c.chain, time.Now()); issued != c.issued || checks > c.atMost || below > c.below {
				t.Errorf("issued: %v, %d checks, %d with a key that is not ours", issued, checks, below)
			}
		})
	}
}

// TestWatch: new files are in force without a restart; a bad one keeps the content in force, and is reported without it.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := written(t, "", []byte(oldToken))
		var reports []string
		gate := opened(t, Options{Auth: Enforce, TokenFile: file}, silent())
		gate.Watch(t.Context(), func() poll.Times { return poll.Times{Every: time.Second} }, func(file string, err error) {
			reports = append(reports, fmt.Sprint(err))
		})
		for _, step := range []struct {
			text          string
			old, new, bad bool
		}{
			{oldToken + "\n" + goodToken, true, true, false},
			{goodToken, false, true, false},
			{"short", false, true, false},
			{"", false, true, false},
			{goodToken + "\n" + badToken, false, true, true},
		} {
			written(t, file, []byte(step.text))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if got := [3]bool{gate.Tokens.has(oldToken), gate.Tokens.has(goodToken), gate.Tokens.has(badToken)}; got != [3]bool{step.old, step.new, step.bad} {
				t.Errorf("with %q: %v", step.text, got)
			}
		}
		if len(reports) != 5 || !strings.Contains(reports[2], "line 1: must be a token") || strings.Contains(fmt.Sprint(reports), "short:") {
			t.Errorf("%q", reports)
		}
	})
}

// manyCAs returns n CAs, with numbers in their name.
func manyCAs(t *testing.T, n int, name string) (text string) {
	t.Helper()
	for i := range n {
		text += string(newAuthority(t, strings.Replace(name, "%d", strconv.Itoa(i), 1)).pem())
	}
	return text
}

// TestBadFiles: what is wrong with a file, without its content.
func TestBadFiles(t *testing.T) {
	ca := newAuthority(t).pem()
	const secret = "s3cret-s3cret-s3cret-s3cret s3cret"
	for _, test := range []struct{ name, text, ca, token string }{
		{"empty", "", "contains no certificate", "contains no token; `openssl rand"},
		{"words", secret, "must contain CA certificates in PEM, and nothing else", "line 1: must be a token of at least 20"},
		{"a short token", goodToken + "\nabc", "must contain CA certificates in PEM", "line 2: must be a token"},
		{"a key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "and nothing else", "line 1"},
		{"garbage in PEM", string(ca) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 2 cannot be read", "line 1"},
		{"trailing garbage", string(ca) + secret, "and nothing else", "line 1"},
		{"many CAs", manyCAs(t, maxAuthorities+1, "ca %d"), "contains more than 32 CAs", "line 1"},
		{"many CAs of one name", manyCAs(t, maxNamesakes+1, "ca"), `contains more than 4 CAs with the subject "CN=ca"`, "line 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := written(t, "", []byte(test.text))
			_, err := OpenCertificates(file, nil)
			_, err2 := OpenTokens(file)
			if err == nil || !strings.Contains(err.Error(), test.ca) || err2 == nil || !strings.Contains(err2.Error(), test.token) {
				t.Errorf("%v\n%v", err, err2)
			}
			if strings.Contains(fmt.Sprint(err, err2), "s3cret") || !strings.Contains(fmt.Sprint(err, err2), file) {
				t.Errorf("%v\n%v", err, err2)
			}
		})
	}
	if _, err := OpenTokens("/nowhere"); err == nil || !strings.Contains(err.Error(), "--bearer-token-file: open /nowhere") {
		t.Error(err)
	}
}

// TestLogLines: with --auth=log everyone is answered. A line names the address and what is missing, and not the token;
// lines of the same kind keep a distance.
func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := logrus.New()
		log.SetOutput(&out)
		gate := opened(t, Options{Auth: Log, TokenFile: written(t, "", []byte(goodToken))}, log)
		ask := func(token string) {
			r := httptest.NewRequest(http.MethodPost, "/mutate-pods", nil)
			r.RemoteAddr = "[2001:db8::7]:4711"
			r.Header.Set("Authorization", token)
			if err := gate.Check(r); err != nil {
				t.Error(err)
			}
		}
		for range 1000 {
			ask("")
			ask("Bearer " + badToken)
			ask("Bearer " + goodToken)
		}
		time.Sleep(linesEvery + time.Second)
		ask("")
		text := out.String()
		if n := strings.Count(text, "\n"); n != 3 || strings.Count(text, `remote="2001:db8::7" result=missing`) != 2 || strings.Count(text, "result=wrong-token") != 1 ||
			!strings.Contains(text, "answered, because of --auth=log: neither a client certificate nor a bearer token was sent") || strings.Contains(text, badToken) {
			t.Errorf("%d lines\n%s", n, text)
		}
		if c := gate.Counts(); c[Missing] != 1001 || c[WrongToken] != 1000 || c[Known] != 1000 {
			t.Errorf("%v", c)
		}
	})
}

// FuzzTokens: no content of a file makes reading it fail in another way than by an error without content, and what is
// read is found again.
func FuzzTokens(f *testing.F) {
	f.Add([]byte(goodToken+"\n"+oldToken), "x")
	f.Add([]byte("\xff\x00\n"), "")
	f.Fuzz(func(t *testing.T, text []byte, other string) {
		tokens, err := OpenTokens(written(t, "", text))
		if err != nil {
			return
		}
		lines := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			lines[strings.TrimSpace(line)] = true
		}
		delete(lines, "")
		for line := range lines {
			if !tokens.has(line) {
				t.Errorf("%q is not found", line)
			}
		}
		if tokens.has(other) != lines[other] {
			t.Errorf("%q is found: %v", other, tokens.has(other))
		}
	})
}

// BenchmarkCheck measures the check of a known caller, by certificate and by token.
func BenchmarkCheck(b *testing.B) {
	ours := newAuthority(b)
	leaf, _ := x509.ParseCertificate(ours.issue(b, "apiserver").Certificate[0])
	gate := opened(b, Options{Auth: Enforce, ClientCA: written(b, "", ours.pem()), Names: []string{"apiserver"},
		TokenFile: written(b, "", []byte(goodToken))}, silent())
	for name, r := range map[string]*http.Request{
		"certificate": {TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}, Header: http.Header{}},
		"token":       {Header: http.Header{"Authorization": {"Bearer " + goodToken}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if gate.Check(r) != nil {
					b.Fatal("unknown")
				}
			}
		})
	}
}
