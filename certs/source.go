package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"usher.dev/usher/poll"
)

// Source serves the certificate of a directory (tls.crt, tls.key) and takes up a new one without a restart. All its
// methods may be called at the same time.
type Source struct {
	dir    string
	served atomic.Pointer[served]
}

type served struct {
	sum  poll.Sum // of the files, to tell if they changed
	cert tls.Certificate
}

// Open reads tls.crt and tls.key of dir. It fails if a file is missing (fs.ErrNotExist: a caller may wait for the
// Secret to be mounted), is no regular file, is not PEM, if the key does not belong to the certificate, or if this is
// expired or not yet valid.
func Open(dir string) (*Source, error) {
	s := &Source{dir: dir}
	first, _, err := s.read()
	if err != nil {
		return nil, err
	}
	s.served.Store(first)
	return s, nil
}

// GetCertificate gives the present certificate to a handshake; it is a tls.Config's GetCertificate. It takes no lock,
// reads no file and never fails.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.served.Load().cert, nil
}

// Watch reads the files again and again until ctx ends (every 10 s is good: the kubelet itself takes up to a minute), and
// serves them if they hold something new that can be served now (see Open). Otherwise the old certificate stays. It
// reports nil when a certificate is put in service, each error that differs from the one before, and nil once more when an
// error is over with the old certificate back in the files. report is called on Watch's goroutine.
//
// See poll.Changes for what is new. A swap between the two files' reads gives a key of another certificate: an error that
// the next reading does not repeat.
func (s *Source) Watch(ctx context.Context, times poll.Times, report func(error)) {
	poll.Changes(ctx, times, s.served.Load().sum, s.read, func(next *served, err error) {
		if err == nil {
			s.served.Store(next)
		}
		report(err)
	})
}

// read gives what the files hold, if it can be served now: a certificate that is not valid yet may be so the next time.
func (s *Source) read() (*served, poll.Sum, error) {
	pair, err := readPair(s.dir, CertFile, KeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, poll.Sum{}, fmt.Errorf("%w: make it with `usher certs init --out %s`, or mount the Secret there", err, s.dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, poll.Sum{}, fmt.Errorf("%w: the user that usher runs as has to be able to read it", err)
	case err != nil:
		return nil, poll.Sum{}, err
	}
	sum := poll.SumOf(pair.Cert, pair.Key)
	if now := s.served.Load(); now != nil && now.sum == sum {
		return now, sum, nil
	}
	cert, err := pair.load(s.file(CertFile), s.file(KeyFile))
	if err != nil {
		return nil, sum, err
	}
	if err := checkDates(cert.Leaf, time.Now()); err != nil {
		return nil, sum, fmt.Errorf("%s %w", s.file(CertFile), err)
	}
	return &served{sum, cert}, sum, nil
}

// NotAfter is when the served certificate ends: the value of the expiry gauge.
func (s *Source) NotAfter() time.Time {
	return s.served.Load().cert.Leaf.NotAfter
}

// Valid returns nil if the served certificate is within its dates at now, else why not: readiness asks this.
func (s *Source) Valid(now time.Time) error {
	if err := checkDates(s.served.Load().cert.Leaf, now); err != nil {
		return fmt.Errorf("the served certificate (%s) %w", s.file(CertFile), err)
	}
	return nil
}

func (s *Source) file(name string) string { return filepath.Join(s.dir, name) }

// TLSConfig is the server's side of TLS, with certificates from get: TLS 1.2 with AEAD suites and forward secrecy, or
// 1.3, whose suites are all such.
//
// HTTP/1.1 only: that is what the API server speaks to a webhook behind a Service, and HTTP/2 would add rapid reset
// (CVE-2023-44487) and its kin for nobody's gain. Mind that http.Server.ServeTLS appends "h2" to NextProtos by itself,
// for clients that offer nothing else: set the server's Protocols to HTTP/1 too, or Serve on a tls.NewListener.
func TLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		GetCertificate: get,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
}
