package certs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"testing"
	"time"
)

// Files of other programs are not destroyed: neither a lone key, nor a CA with a key of another kind, however old.
func TestForeignFilesAreKept(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	write(t, dir, KeyFile, "somebody's")
	if err := WriteFiles(dir, newAuthority(t, now), newPair(t, now), false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a lone key: %v", err)
	}
	if read(t, dir, KeyFile) != "somebody's" {
		t.Error("a lone key was overwritten")
	}

	dir = t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	foreign := Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}
	if err := writePair(dir, CACertFile, CAKeyFile, foreign); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureLocal(dir, []string{"localhost"}, now, func(string) {}); err == nil {
		t.Error("a foreign CA near its end was replaced")
	}
	if read(t, dir, CAKeyFile) != string(foreign.Key) {
		t.Error("a foreign CA key was overwritten")
	}
}
