package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Source serves the certificate of a directory (tls.crt, tls.key) and takes up a new one without a restart. All its
// methods may be called at the same time.
type Source struct {
	dir       string
	reloading sync.Mutex // one Reload at a time, so that a slow one cannot put an older pair back
	served    atomic.Pointer[served]
}

type served struct {
	pair Pair // as read, to tell if the files changed
	cert tls.Certificate
}

// Open reads tls.crt and tls.key of dir. It fails if a file is missing (fs.ErrNotExist: a caller may wait for the
// Secret to be mounted), is not PEM, if the key does not belong to the certificate, or if this is expired or not yet
// valid.
func Open(dir string) (*Source, error) {
	s := &Source{dir: dir}
	if _, err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// GetCertificate gives the present certificate to a handshake; it is a tls.Config's GetCertificate. It takes no lock,
// reads no file and never fails.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.served.Load().cert, nil
}

// Reload reads the files again, and serves them if they hold something new that can be served now (see Open).
// Otherwise the old certificate stays, with an error unless the files are simply unchanged.
//
// Content is compared, not file times or names: a Secret volume changes by swapping the symlink ..data, which file
// watches are known to lose. A swap between the two reads gives a key of another certificate, thus an error, and the
// next Reload finds both new.
func (s *Source) Reload() (changed bool, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	pair, err := readPair(s.dir, CertFile, KeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%w: make it with `usher certs init --out %s`, or mount the Secret there", err, s.dir)
	}
	if err != nil {
		return false, fmt.Errorf("%w: the user that usher runs as has to be able to read it", err)
	}
	if old := s.served.Load(); old != nil && bytes.Equal(old.pair.Cert, pair.Cert) && bytes.Equal(old.pair.Key, pair.Key) {
		return false, nil
	}
	cert, err := pair.load(s.file(CertFile), s.file(KeyFile))
	if err != nil {
		return false, err
	}
	if err := checkDates(cert.Leaf, time.Now()); err != nil {
		return false, fmt.Errorf("%s %w", s.file(CertFile), err)
	}
	s.served.Store(&served{pair: pair, cert: cert})
	return true, nil
}

// Watch calls Reload every so often (more than zero; 10 s is good: the kubelet itself takes up to a minute) until ctx
// ends. It reports each change, each error that differs from the one before, and once, as (false, nil), that an error
// is over with the old certificate back in the files. report is called on Watch's goroutine.
func (s *Source) Watch(ctx context.Context, every time.Duration, report func(changed bool, err error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := s.Reload()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if changed || text != last {
			report(changed, err)
		}
		last = text
	}
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
