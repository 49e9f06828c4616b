package learn

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io/fs"
)

// Trusts is a certificate that the caBundle of each webhook must verify, as the API server does.
type Trusts struct {
	Cluster     string `json:"cluster"`
	Certificate string `json:"certificate"` // PEM, a file of the lesson
}

// trusted returns why a caBundle does not verify a certificate, or "".
func (l Lesson) trusted(t Trusts, folder string) (string, error) {
	raw, err := fs.ReadFile(l.files, t.Certificate)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return "", errors.New(t.Certificate + ": not PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	files, err := filesAt(folder, t.Cluster)
	if err != nil {
		return err.Error(), nil
	}
	objects, err := Same{}.read(files)
	if err != nil {
		return "", Unreadable{err.Error()}
	}
	for name, object := range objects {
		for _, bundle := range valuesAt(object, "webhooks.clientConfig.caBundle") {
			authorities, roots := []byte(nil), x509.NewCertPool()
			if authorities, err = base64.StdEncoding.DecodeString(text(bundle)); err == nil && roots.AppendCertsFromPEM(authorities) {
				_, err = certificate.Verify(x509.VerifyOptions{Roots: roots})
			}
			if err != nil {
				return name + ": " + err.Error(), nil
			}
		}
	}
	return "", nil
}
