package certs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files of other programs are not destroyed: neither a lone key, nor a CA with a key of another kind, however old.
func TestForeignFilesAreKept(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	lone := filepath.Join(dir, KeyFile)
	if err := os.WriteFile(lone, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca, err := NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := Issue(ca, []string{"localhost"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(dir, ca, leaf, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a lone key: %v", err)
	}
	if text, _ := os.ReadFile(lone); string(text) != "somebody's" {
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
	if kept, _ := os.ReadFile(filepath.Join(dir, CAKeyFile)); string(kept) != string(foreign.Key) {
		t.Error("a foreign CA key was overwritten")
	}
}
