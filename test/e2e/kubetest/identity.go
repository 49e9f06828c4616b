package kubetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the cluster's CA: it signs the certificates of the API server and of its clients.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "usher-e2e-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, pem: encodePEM("CERTIFICATE", der)}, err
}

// pair is a certificate and its key, both PEM.
type pair struct{ cert, key []byte }

// issue signs a certificate: for a server if there are addresses, otherwise for a client, with name as the user and its
// groups.
func (a *authority) issue(name string, groups []string, addresses ...string) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, address := range addresses {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(address); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, address)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	return pair{cert: encodePEM("CERTIFICATE", der), key: encodePEM("EC PRIVATE KEY", keyDER)}, err
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// writeIdentities writes the certificate and key files that the API server needs.
func (c *Cluster) writeIdentities() error {
	server, err := c.ca.issue("kube-apiserver", nil, "127.0.0.1", "localhost", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	accounts, err := c.ca.issue("service accounts", nil) // only the key is used: it signs tokens
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"ca.crt": c.ca.pem, "server.crt": server.cert, "server.key": server.key,
		"sa.key": accounts.key, "audit-policy.yaml": []byte(auditPolicyOf(c.options.AuditLevel))} {
		if err := os.WriteFile(c.file(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Kubeconfig writes a kubeconfig with a certificate for the user of that name, and returns its path.
func (c *Cluster) Kubeconfig(user string, groups ...string) (string, error) {
	identity, err := c.ca.issue(user, groups)
	if err != nil {
		return "", err
	}
	return c.kubeconfig(pathSafe(user), c.URL, c.ca.pem, map[string]any{"client-certificate-data": identity.cert, "client-key-data": identity.key})
}

// ClientFiles writes a certificate for the user of that name, its key, and the CA of the API server, as PEM files: for
// programs that read no kubeconfig.
func (c *Cluster) ClientFiles(user string, groups ...string) (cert, key, ca string, err error) {
	identity, err := c.ca.issue(user, groups)
	if err != nil {
		return "", "", "", err
	}
	name := pathSafe(user)
	cert, certErr := c.write(name+"-client.crt", string(identity.cert))
	key, keyErr := c.write(name+"-client.key", string(identity.key))
	ca, caErr := c.write(name+"-ca.crt", string(c.ca.pem))
	return cert, key, ca, errors.Join(certErr, keyErr, caErr)
}

// KubeconfigVia writes a kubeconfig for a proxy that authenticates the user itself.
func (c *Cluster) KubeconfigVia(name, url string, ca []byte) (string, error) {
	return c.kubeconfig(name, url, ca, map[string]any{})
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a service account, as its pods have it, and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	answer, err := c.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token",
		Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": Object{"expirationSeconds": 3600}})
	if err != nil {
		return "", err
	}
	return c.kubeconfig(namespace+"-"+name, c.URL, c.ca.pem, map[string]any{"token": answer.String("status", "token")})
}

func (c *Cluster) kubeconfig(name, url string, ca []byte, user map[string]any) (string, error) {
	type object = map[string]any // []byte becomes base64 in JSON, as the ...-data fields require
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "Config", "current-context": "e2e",
		"clusters": []object{{"name": "e2e", "cluster": object{"server": url, "certificate-authority-data": ca}}},
		"users":    []object{{"name": name, "user": user}},
		"contexts": []object{{"name": "e2e", "context": object{"cluster": "e2e", "user": name}}}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, name+".kubeconfig")
	return file, os.WriteFile(file, text, 0o600)
}
