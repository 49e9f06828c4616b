package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"usher.dev/usher/internal/poll"
)

// Source serves the certificate in a directory (tls.crt, tls.key), and reloads it without a restart. It is safe for
// concurrent use.
type Source struct {
	dir    string
	served *poll.Current[served]
}

type served struct {
	sum  poll.Sum // of the files
	cert tls.Certificate
}

// Open reads tls.crt and tls.key of dir. It fails if a file is missing (fs.ErrNotExist: a caller may wait for the
// Secret to be mounted), is not a regular file or not PEM, if the key does not belong to the certificate, or if the
// certificate is expired or not yet valid.
func Open(dir string) (s *Source, err error) {
	s = &Source{dir: dir}
	s.served, err = poll.Open(s.read)
	return s, err
}

// GetCertificate returns the current certificate; it is the GetCertificate of a tls.Config. It takes no lock, reads no
// file and never fails.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.served.Load().cert, nil
}

// Watch reads the files repeatedly until ctx ends, and serves a new certificate as soon as the files contain a valid
// one (see Open); until then the old one stays in use. An interval of 10 s is enough, since the kubelet itself needs up
// to a minute. Watch calls report(nil) when it starts serving a new certificate, reports each error that differs from
// the previous one, and calls report(nil) again when the files have the current certificate again after an error.
// report is called on Watch's goroutine.
//
// See poll.Changes for when a content is new. If the files are swapped between the two reads, the key does not match
// the certificate: that is an error which the next reading does not repeat, so it is not reported.
func (s *Source) Watch(ctx context.Context, times poll.Times, report func(error)) {
	s.served.Watch(ctx, times, report)
}

// read returns the content of the files if it can be served now. A certificate that is not valid yet may be later.
func (s *Source) read() (*served, poll.Sum, error) {
	pair, err := readPair(s.dir, CertFile, KeyFile, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, poll.Sum{}, fmt.Errorf("%w: make it with `usher certs init --out %s`, or mount the Secret there", err, s.dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, poll.Sum{}, fmt.Errorf("%w: the user that usher runs as has to be able to read it", err)
	case err != nil:
		return nil, poll.Sum{}, err
	}
	sum := poll.SumOf(pair.Cert, pair.Key)
	if s.served != nil && s.served.Load().sum == sum {
		return s.served.Load(), sum, nil
	}
	cert, err := pair.load(s.file(CertFile), s.file(KeyFile))
	if err != nil {
		return nil, sum, err
	}
	if err := CheckDates(cert.Leaf, time.Now()); err != nil {
		return nil, sum, fmt.Errorf("%s %w", s.file(CertFile), err)
	}
	return &served{sum, cert}, sum, nil
}

// NotAfter returns the expiry time of the served certificate, for the expiry metric.
func (s *Source) NotAfter() time.Time {
	return s.served.Load().cert.Leaf.NotAfter
}

// Valid returns an error if the served certificate is not valid at now. It is used as a readiness check.
func (s *Source) Valid(now time.Time) error {
	if err := CheckDates(s.served.Load().cert.Leaf, now); err != nil {
		return fmt.Errorf("the served certificate (%s) %w", s.file(CertFile), err)
	}
	return nil
}

func (s *Source) file(name string) string { return filepath.Join(s.dir, name) }

// TLSConfig returns a server's TLS configuration with certificates from get: TLS 1.2 with AEAD suites and forward
// secrecy, or TLS 1.3, whose suites all have both. A profile may narrow that.
//
// HTTP/1.1 only: the API server uses it for a webhook behind a Service, and HTTP/2 would add attacks such as rapid
// reset (CVE-2023-44487) without any benefit. Note that http.Server.ServeTLS itself appends "h2" to NextProtos, for
// clients that offer nothing else: also set the server's Protocols to HTTP/1, or call Serve on a tls.NewListener.
func TLSConfig(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), p Profile) *tls.Config {
	config := &tls.Config{GetCertificate: get, MinVersion: max(p.MinVersion, tls.VersionTLS12), NextProtos: []string{"http/1.1"},
		CipherSuites: p.Suites, CurvePreferences: p.Curves}
	if len(p.Suites) == 0 {
		config.CipherSuites = forwardSecret
	}
	return config
}
