package whole

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The files of an API server.
const (
	caCert     = "ca.crt"
	serverCert = "server.crt"
	serverKey  = "server.key" // also signs tokens of service accounts
)

// authority is the CA of a server and of its clients.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority() (a authority, err error) {
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return a, err
	}
	a.cert, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "kubernetes"}, a.key)
	return a, err
}

// issue returns a certificate and its key, as PEM.
func (a authority) issue(subject pkix.Name, usage x509.ExtKeyUsage) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: a.cert.NotBefore, NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}, BasicConstraintsValid: true}
	if usage == x509.ExtKeyUsageServerAuth {
		template.IPAddresses, template.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost", "kubernetes.default.svc"}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return certificatePEM(der), keyPEM, err
}

// writeTo writes the files of a server.
func (a authority) writeTo(dir string) error {
	certPEM, keyPEM, err := a.issue(pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{caCert: a.pem(), serverCert: certPEM, serverKey: keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (a authority) pem() []byte { return certificatePEM(a.cert.Raw) }

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// client returns how a user reaches a server.
func (a authority) client(host, user string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := a.issue(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth)
	return &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: a.pem(), CertData: certPEM, KeyData: keyPEM}}, err
}

// writeKubeconfig writes a kubeconfig that only its owner reads.
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "usher-lab"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return clientcmd.WriteToFile(*file, path)
}
