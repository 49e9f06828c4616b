package rotation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/certs"
	"usher.dev/usher/internal/apiserver"
)

// The Secrets in the namespace of the Service.
const (
	CASecret  = "usher-ca"  // private: the keys of the CAs
	TLSSecret = "usher-tls" // as it can be mounted: the leaf, its key, and the CAs to trust
)

// The keys of usher-ca. Those of usher-tls are the files of certs.
const (
	activeCert, activeKey = certs.CACertFile, certs.CAKeyFile
	nextCert, nextKey     = "next.crt", "next.key"
	retiredCerts          = "retired.crt"
	leavesEnd             = "leaves-end" // JSON: when the last leaf of a CA ends, by its serial number
)

// The annotations that request something: the serial number of what is to be replaced, or not to be trusted any longer.
const replaceAnnotation, distrustAnnotation = "usher.dev/replace", "usher.dev/distrust"

// manager is the field manager that writes the Secrets; creator creates them, empty.
const manager, creator = "usher", "usher-create"

// stored is a Secret that was read.
type stored struct {
	path   string
	secret corev1.Secret
}

func secretPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/secrets/" + name
}

// readSecret reads a Secret, which it creates if there is none, without certificates. So two replicas that start
// together never overwrite each other: only an update at the version that was read fills it.
func readSecret(ctx context.Context, c apiserver.Client, namespace, name string) (stored, error) {
	path := secretPath(namespace, name)
	text, err := c.Get(ctx, path)
	if apierrors.IsNotFound(err) {
		if text, err = c.Apply(ctx, path, creator, false, emptySecret(namespace, name)); apierrors.IsConflict(err) {
			text, err = c.Get(ctx, path) // another replica was faster
		}
	}
	if err != nil {
		return stored{}, fmt.Errorf("secret %s/%s: %w", namespace, name, err)
	}
	s := stored{path: path}
	if err := json.Unmarshal(text, &s.secret); err != nil {
		return stored{}, fmt.Errorf("secret %s/%s: it cannot be decoded", namespace, name)
	}
	return s, nil
}

func emptySecret(namespace, name string) []byte {
	secret := corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Labels: map[string]string{"app.kubernetes.io/name": "usher"}},
		Type: corev1.SecretTypeOpaque,
	}
	if name == TLSSecret {
		secret.Type, secret.Data = corev1.SecretTypeTLS, map[string][]byte{certs.CertFile: {}, certs.KeyFile: {}}
	}
	text, _ := json.Marshal(secret)
	return text
}

// fixed returns an error if data differs from the data of an immutable Secret.
func (s stored) fixed(data map[string][]byte) error {
	if _, differs := s.with(data); !differs || s.secret.Immutable == nil || !*s.secret.Immutable {
		return nil
	}
	return fmt.Errorf("secret %s/%s is immutable: delete it, and usher creates it anew", s.secret.Namespace, s.secret.Name)
}

// with returns the Secret with the values of data set, and whether that changes anything.
func (s stored) with(data map[string][]byte) (next corev1.Secret, differs bool) {
	next = s.secret
	next.Data = maps.Clone(s.secret.Data)
	for key, value := range data {
		if bytes.Equal(next.Data[key], value) {
			continue
		}
		differs = true
		if next.Data == nil {
			next.Data = map[string][]byte{}
		}
		if next.Data[key] = value; len(value) == 0 && s.secret.Type != corev1.SecretTypeTLS {
			delete(next.Data, key)
		}
	}
	return next, differs
}

// write replaces the data of a Secret at the version that was read, if it differs, and keeps everything else: labels,
// annotations, and data of others.
func (s stored) write(ctx context.Context, c apiserver.Client, data map[string][]byte) error {
	next, differs := s.with(data)
	if !differs {
		return nil
	}
	text, err := json.Marshal(next)
	if err == nil {
		_, err = c.Update(ctx, s.path, manager, text)
	}
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", s.secret.Namespace, s.secret.Name, err)
	}
	return nil
}

// decode returns what both Secrets hold. What is damaged is left out, or found by the rules.
func decode(ca, tls stored) State {
	data, leaf := ca.secret.Data, tls.secret.Data
	s := State{
		Active:      Authority{Pair: pair(data[activeCert], data[activeKey])},
		Next:        Authority{Pair: pair(data[nextCert], data[nextKey])},
		Leaf:        pair(leaf[certs.CertFile], leaf[certs.KeyFile]),
		Bundle:      leaf[certs.CACertFile],
		ReplaceCA:   ca.secret.Annotations[replaceAnnotation],
		DistrustCA:  ca.secret.Annotations[distrustAnnotation],
		ReplaceLeaf: tls.secret.Annotations[replaceAnnotation],
	}
	var ends map[string]time.Time
	if json.Unmarshal(data[leavesEnd], &ends) != nil {
		ends = nil
	}
	there := []string{Serial(s.Active.Cert)}
	s.Active.LeavesEnd = ends[there[0]]
	for _, cert := range parseAll(data[retiredCerts]) {
		r := Retired{Cert: cert}
		r.LeavesEnd = ends[r.serial()]
		s.Retired, there = append(s.Retired, r), append(there, r.serial())
	}
	for _, serial := range there {
		delete(ends, serial)
	}
	s.Lost = ends
	return s
}

// pair returns a pair that is empty or has both parts, so that a lost half is noticed as damage.
func pair(cert, key []byte) certs.Pair {
	if len(cert) == 0 && len(key) == 0 {
		return certs.Pair{}
	}
	return certs.Pair{Cert: cert, Key: key}
}

// caData returns the data of usher-ca for a state.
func caData(s State) map[string][]byte {
	ends := maps.Clone(s.Lost)
	note := func(serial string, end time.Time) {
		if ends != nil && !end.IsZero() {
			ends[serial] = end.UTC()
		}
	}
	note(Serial(s.Active.Cert), s.Active.LeavesEnd)
	for _, r := range s.Retired {
		note(r.serial(), r.LeavesEnd)
	}
	var text []byte
	if ends != nil {
		text, _ = json.Marshal(ends)
	}
	return map[string][]byte{activeCert: s.Active.Cert, activeKey: s.Active.Key, nextCert: s.Next.Cert, nextKey: s.Next.Key,
		retiredCerts: encode(s.retired()), leavesEnd: text}
}

// tlsData returns the data of usher-tls for a state.
func tlsData(s State) map[string][]byte {
	return map[string][]byte{certs.CertFile: s.Leaf.Cert, certs.KeyFile: s.Leaf.Key, certs.CACertFile: s.Bundle}
}

// SecretRights are the rights of a keeper in the namespace of its Service. Creating by server-side apply is the verb
// create with a name, so that no right to create other Secrets is needed.
func SecretRights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{CASecret, TLSSecret},
		Verbs: []string{"get", "create", "patch", "update"}}}
}

// ConfigurationRights are the rights of a keeper in the cluster.
func ConfigurationRights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: Collections,
		ResourceNames: []string{Configuration}, Verbs: []string{"get", "update"}}}
}
