package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"usher.dev/usher/internal/atomicfile"
	"usher.dev/usher/internal/poll"
)

// The files of a certificate directory. The names are the keys of a Secret of type kubernetes.io/tls, so a mounted
// Secret, including one of cert-manager, is a certificate directory, too.
const (
	CACertFile = "ca.crt"
	CAKeyFile  = "ca.key" // never in a Secret
	CertFile   = "tls.crt"
	KeyFile    = "tls.key"
)

const (
	// authorityReserve and leafReserve are the remaining lifetimes that EnsureLocal requires of certificates, so that a
	// service started now can run for a while.
	authorityReserve = 30 * 24 * time.Hour
	leafReserve      = 7 * 24 * time.Hour
)

// WriteFiles writes a CA and a serving certificate issued by it to dir as ca.crt, ca.key, tls.crt and tls.key, and
// creates dir (0700) if it is missing. Keys are readable by their owner only. Each file is replaced atomically. If dir
// already has one of the files, WriteFiles fails with fs.ErrExist unless overwrite is set, because clients with the
// caBundle of an old CA do not trust a new one.
func WriteFiles(dir string, ca, leaf Pair, overwrite bool) error {
	for _, name := range []string{CAKeyFile, CACertFile, KeyFile, CertFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && !overwrite {
			return fmt.Errorf("%s: %w: choose another directory, or ask to overwrite; clients that trust the old CA then have "+
				"to be given the new %s", filepath.Join(dir, name), fs.ErrExist, CACertFile)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the certificate directory: %w", err)
	}
	if err := writePair(dir, CACertFile, CAKeyFile, ca); err != nil {
		return err
	}
	return writePair(dir, CertFile, KeyFile, leaf)
}

// EnsureLocal makes sure that dir holds a CA and a serving certificate for exactly names, and returns the CA as PEM. It
// is meant for a laptop, where `curl --cacert dir/ca.crt` should keep working over restarts.
//
// Existing files are kept while they are good: the CA while it has 30 days left, the serving certificate while it is
// signed by this CA, covers exactly names and has 7 days left. Otherwise they are made again; that is not an error,
// because nothing in the directory is irreplaceable:
//
//   - ca.crt missing, damaged or near its end: renewed with the existing key, so that copies of the older ca.crt
//     (in a browser or a container) still trust the served certificate, until they expire themselves;
//   - ca.key missing or damaged: a new CA in the same place. Copies of ca.crt have to be replaced, and say reports it;
//   - tls.crt or tls.key: issued again.
//
// say is called with one sentence for each file made. EnsureLocal fails only if a name is invalid, or if a file cannot
// be written, or exists but cannot be read: a file of another user is not damaged. Concurrent starts wait for each
// other, if the system has flock, and end up with the same files; a start that is killed halfway leaves a mismatch that
// the next one repairs.
func EnsureLocal(dir string, names []string, now time.Time, say func(string)) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the certificate directory: %w", err)
	}
	defer lock(dir)()
	ca, err := ensureAuthority(dir, now, say)
	if err != nil {
		return nil, err
	}
	if err := ensureLeaf(dir, ca, names, now, say); err != nil {
		return nil, err
	}
	return ca.Cert, nil
}

func ensureAuthority(dir string, now time.Time, say func(string)) (Pair, error) {
	certFile := filepath.Join(dir, CACertFile)
	ca, err := readPair(dir, CACertFile, CAKeyFile, true)
	if err != nil {
		return Pair{}, err
	}
	fault := authorityFault(dir, ca, now)
	if fault == nil {
		return ca, nil
	}
	if key, err := parseKey(ca.Key); err == nil {
		say(fmt.Sprintf("%v; renewed %s with the key that is there", fault, certFile))
		if ca.Cert, err = selfSign(key, now, now.AddDate(1, 0, 0)); err != nil {
			return Pair{}, err
		}
		return ca, writeFile(certFile, ca.Cert, 0o644)
	}
	if _, err := tls.X509KeyPair(ca.Cert, ca.Key); err == nil {
		return Pair{}, fmt.Errorf("%w: this CA was made elsewhere, with a key of another kind; renew it there, or choose another directory", fault)
	}
	if len(ca.Cert) == 0 && len(ca.Key) == 0 {
		say(fmt.Sprintf("made a CA: clients that trust %s trust this service", certFile))
	} else {
		say(fmt.Sprintf("%s: missing or damaged; made a new CA, replace copies of %s", filepath.Join(dir, CAKeyFile), certFile))
	}
	if ca, err = NewAuthority(now); err != nil {
		return Pair{}, err
	}
	return ca, writePair(dir, CACertFile, CAKeyFile, ca)
}

// authorityFault returns why a CA should no longer be used, or nil.
func authorityFault(dir string, ca Pair, now time.Time) error {
	certFile := filepath.Join(dir, CACertFile)
	cert, err := ca.load(certFile, filepath.Join(dir, CAKeyFile))
	if err != nil {
		return err
	}
	if err := CheckAuthority(cert.Leaf, now); err != nil {
		return fmt.Errorf("%s: %w", certFile, err)
	}
	if cert.Leaf.NotAfter.Sub(now) <= authorityReserve {
		return fmt.Errorf("%s: ends on %s", certFile, cert.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	return nil
}

func ensureLeaf(dir string, ca Pair, names []string, now time.Time, say func(string)) error {
	leaf, err := readPair(dir, CertFile, KeyFile, true)
	if err != nil {
		return err
	}
	if leafGood(leaf, ca, names, now) {
		return nil
	}
	if leaf, err = Issue(ca, names, now); err != nil {
		return err
	}
	say(fmt.Sprintf("%s: issued for %v", filepath.Join(dir, CertFile), names))
	return writePair(dir, CertFile, KeyFile, leaf)
}

// leafGood reports whether a serving certificate covers exactly names and will verify under ca for at least
// leafReserve.
func leafGood(leaf, ca Pair, names []string, now time.Time) bool {
	cert, err := leaf.load(CertFile, KeyFile)
	if err != nil || !coversExactly(cert.Leaf, names) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	for _, at := range []time.Time{now, now.Add(leafReserve)} {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at}); err != nil {
			return false
		}
	}
	return true
}

func coversExactly(cert *x509.Certificate, names []string) bool {
	dns, ips, err := splitNames(names)
	return err == nil && slices.Equal(nameSet(dns, ips), nameSet(cert.DNSNames, cert.IPAddresses))
}

func nameSet(dns []string, ips []net.IP) []string {
	set := slices.Clone(dns)
	for _, ip := range ips {
		set = append(set, ip.String())
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// parseKey parses a key in the format that makePair writes.
func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("not an ECDSA key")
	}
	return key, nil
}

// maxFile is the maximum size of a file in bytes, as of a Secret.
const maxFile = 1 << 20

// readPair reads a pair. A missing file is an error, or treated as empty.
func readPair(dir, certName, keyName string, orEmpty bool) (p Pair, err error) {
	if p.Cert, err = poll.ReadFile(filepath.Join(dir, certName), maxFile); err != nil && !(orEmpty && errors.Is(err, fs.ErrNotExist)) {
		return Pair{}, err
	}
	if p.Key, err = poll.ReadFile(filepath.Join(dir, keyName), maxFile); err != nil && !(orEmpty && errors.Is(err, fs.ErrNotExist)) {
		return Pair{}, err
	}
	return p, nil
}

// writePair writes the key first, so that a reader of the new certificate finds its key.
func writePair(dir, certName, keyName string, p Pair) error {
	if err := writeFile(filepath.Join(dir, keyName), p.Key, 0o600); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, certName), p.Cert, 0o644)
}

// writeFile replaces a file as a whole.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := atomicfile.Replace(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
