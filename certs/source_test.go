package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/internal/poll"
)

func newPair(t *testing.T, at time.Time) Pair {
	t.Helper()
	return issue(t, newAuthority(t, at), at, local...)
}

func put(t *testing.T, dir string, p Pair) {
	t.Helper()
	write(t, dir, CertFile, string(p.Cert))
	write(t, dir, KeyFile, string(p.Key))
}

// opened returns the source of a new directory with a pair.
func opened(t *testing.T, p Pair) (s *Source, dir string) {
	t.Helper()
	dir = t.TempDir()
	put(t, dir, p)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// swap replaces the content of dir like the kubelet in a Secret volume: it writes a new directory, then renames the
// link ..data. The files are links through it, made once.
func swap(t *testing.T, dir, version string, p Pair) {
	t.Helper()
	content, link := filepath.Join(dir, version), filepath.Join(dir, "..data_tmp")
	err := errors.Join(os.Mkdir(content, 0o755), os.Symlink(version, link))
	put(t, content, p)
	err = errors.Join(err, os.Rename(link, filepath.Join(dir, "..data")))
	if _, missing := os.Lstat(filepath.Join(dir, CertFile)); missing != nil {
		err = errors.Join(err, os.Symlink("..data/tls.crt", filepath.Join(dir, CertFile)),
			os.Symlink("..data/tls.key", filepath.Join(dir, KeyFile)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reload does what Watch does with a new outcome.
func reload(s *Source) (changed bool, err error) {
	next, _, err := s.read()
	if err != nil {
		return false, err
	}
	return s.served.Swap(next) != next, nil
}

func wantServed(t *testing.T, s *Source, want Pair) {
	t.Helper()
	got, err := s.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if leaf := parsed(t, want); !got.Leaf.Equal(leaf) || !s.NotAfter().Equal(leaf.NotAfter) {
		t.Errorf("serves number %x, want %x", got.Leaf.SerialNumber, leaf.SerialNumber)
	}
}

func TestSymlinkSwapIsServedEachTime(t *testing.T) {
	dir := t.TempDir()
	first := newPair(t, time.Now())
	swap(t, dir, "..ts0", first)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantServed(t, s, first)
	for i := 1; i <= 3; i++ {
		next := newPair(t, time.Now())
		swap(t, dir, fmt.Sprintf("..ts%d", i), next)
		if changed, err := reload(s); !changed || err != nil {
			t.Errorf("swap %d: changed %v, error %v", i, changed, err)
		}
		wantServed(t, s, next)
		if changed, err := reload(s); changed || err != nil {
			t.Errorf("after swap %d: changed %v, error %v, want nothing", i, changed, err)
		}
	}
}

// TestBadPair: such files fail Open; after a good pair they leave it in use.
func TestBadPair(t *testing.T) {
	at := time.Now()
	good, other := newPair(t, at), newPair(t, at)
	ca := newAuthority(t, at)
	chained := issue(t, ca, at, local...)
	chained.Cert = slices.Concat(chained.Cert, ca.Cert)
	long, large := other, other
	for range maxChain {
		long.Cert = slices.Concat(long.Cert, newAuthority(t, at).Cert)
	}
	for i := range 2 {
		names := make([]string, 500)
		for j := range names {
			names[j] = fmt.Sprintf("%d-%d.%s.example", i, j, strings.Repeat("a", 60))
		}
		large.Cert = slices.Concat(large.Cert, issue(t, ca, at, names...).Cert)
	}
	for _, test := range []struct {
		name string
		bad  Pair
		file string // that the error names
		want string
	}{
		{"half a certificate", Pair{other.Cert[:len(other.Cert)/2], other.Key}, CertFile, "cut off"},
		{"half a chain", Pair{chained.Cert[:len(chained.Cert)-50], chained.Key}, CertFile, "cut off"},
		{"half a key", Pair{other.Cert, other.Key[:len(other.Key)/2]}, KeyFile, "failed to find any PEM"},
		{"empty", Pair{}, CertFile, "holds no certificate"},
		{"garbage", Pair{[]byte("\x00\xff"), []byte("key")}, CertFile, "holds no certificate"},
		{"garbage in PEM", Pair{[]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), other.Key}, CertFile, "damaged"},
		{"switched", Pair{other.Key, other.Cert}, CertFile, "holds no certificate"},
		{"new certificate, old key", Pair{other.Cert, good.Key}, KeyFile, "does not match"},
		{"old certificate, new key", Pair{good.Cert, other.Key}, KeyFile, "does not match"},
		{"expired", newPair(t, at.AddDate(-1, 0, -1)), CertFile, "expired on"},
		{"not yet valid", newPair(t, at.AddDate(0, 0, 1)), CertFile, "not valid before"},
		{"many certificates", long, CertFile, "more certificates than clients accept"},
		{"large certificates", large, CertFile, "more certificates than clients accept"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			wantError := func(err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, test.file)) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one with %s and %q", err, test.file, test.want)
				}
			}
			put(t, dir, test.bad)
			_, err := Open(dir)
			wantError(err)

			put(t, dir, good)
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, test.bad)
			changed, err := reload(s)
			wantError(err)
			if changed || s.Valid(at) != nil {
				t.Errorf("changed %v, valid %v: want the old pair to go on", changed, s.Valid(at))
			}
			wantServed(t, s, good)

			put(t, dir, other)
			if changed, err := reload(s); !changed || err != nil {
				t.Errorf("fixed: changed %v, error %v", changed, err)
			}
			wantServed(t, s, other)
		})
	}
}

// TestCopies: clients can connect although a file has many copies of its certificates: each is sent once.
func TestCopies(t *testing.T) {
	at := time.Now()
	ca := newAuthority(t, at)
	pair := issue(t, ca, at, local...)
	pair.Cert = slices.Concat(slices.Repeat(pair.Cert, 900), ca.Cert, ca.Cert)
	s, _ := opened(t, pair)
	if served, _ := s.GetCertificate(nil); len(served.Certificate) != 2 {
		t.Errorf("%d certificates are sent", len(served.Certificate))
	}
}

func TestMissingFile(t *testing.T) {
	for _, name := range []string{CertFile, KeyFile} {
		dir := t.TempDir()
		put(t, dir, newPair(t, time.Now()))
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dir, name)) || !strings.Contains(err.Error(), "usher certs init") {
			t.Errorf("error %v, want fs.ErrNotExist for %s and what to do", err, name)
		}
	}
}

func TestValid(t *testing.T) {
	s, _ := opened(t, newPair(t, time.Now()))
	for at, want := range map[time.Time]bool{
		time.Now(): true, s.NotAfter(): true, s.NotAfter().Add(time.Second): false, time.Now().Add(-time.Hour): false,
	} {
		if err := s.Valid(at); (err == nil) != want {
			t.Errorf("at %s: %v, want valid %v", at, err, want)
		}
	}
}

// TestWatch runs on synctest's clock, so it takes no real time and misses no poll.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, other := newPair(t, time.Now()), newPair(t, time.Now())
		s, dir := opened(t, good)
		ctx, cancel := context.WithCancel(t.Context())
		var reports []string
		go s.Watch(ctx, poll.Times{Every: time.Second}, func(err error) {
			text := "served"
			if err != nil {
				text = "error"
			}
			reports = append(reports, text)
		})
		early := newPair(t, time.Now().Add(skew+23*time.Second)) // valid with the third poll after it is put there
		time.Sleep(time.Second / 2)                              // from now on, a poll is in the middle of each second
		for _, step := range []struct {
			name  string
			pairs []Pair // one a second; the last stays for three seconds more
			want  string // reports
		}{
			{"nothing new", []Pair{good}, ""},
			{"broken", []Pair{{good.Cert[:99], good.Key}}, "error"},
			{"broken in another way", []Pair{{good.Cert, other.Key}}, "error"},
			{"the old one back", []Pair{good}, "served"},
			{"swapped while it was read", []Pair{{other.Cert, good.Key}, other}, "served"},
			{"not valid yet, then valid", []Pair{early}, "error served"},
			{"not there for a moment", []Pair{{early.Cert, good.Key}, early}, ""},
		} {
			for _, pair := range step.pairs {
				put(t, dir, pair)
				time.Sleep(time.Second)
			}
			time.Sleep(2*time.Second + time.Second*time.Duration(len(step.pairs)%2))
			synctest.Wait()
			if got := strings.Join(reports, " "); got != step.want {
				t.Errorf("%s: reported %q, want %q", step.name, got, step.want)
			}
			reports = nil
		}
		cancel() // Watch has to return, or synctest finds it waiting forever
	})
}

// TestHandshake talks to a real server, while its certificate changes.
func TestHandshake(t *testing.T) {
	ca := newAuthority(t, time.Now())
	s, dir := opened(t, issue(t, ca, time.Now(), local...))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(tls.NewListener(listener, TLSConfig(s.GetCertificate, Profile{}))) }()
	defer server.Close()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	handshake := func(c *tls.Config) (tls.ConnectionState, error) {
		c.RootCAs = roots
		conn, err := tls.Dial("tcp", listener.Addr().String(), c)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	state, err := handshake(&tls.Config{NextProtos: []string{"h2", "http/1.1"}})
	if err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "http/1.1" {
		t.Errorf("version %s, protocol %q, error %v", tls.VersionName(state.Version), state.NegotiatedProtocol, err)
	}
	if _, err := handshake(&tls.Config{NextProtos: []string{"h2"}}); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("HTTP/2 only: %v", err)
	}
	renewed := issue(t, ca, time.Now(), local...)
	put(t, dir, renewed)
	if _, err := reload(s); err != nil {
		t.Fatal(err)
	}
	state, err = handshake(&tls.Config{})
	if err != nil || !state.PeerCertificates[0].Equal(parsed(t, renewed)) {
		t.Errorf("error %v, want the renewed certificate", err)
	}
}
