package podvalidation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taken are the paths of the files in a projected volume; nil where files may have the same path.
type taken map[string]bool

// take adds a problem if a path is taken.
func (l *list) take(at *field.Path, text string, paths taken) {
	if paths != nil && text != "" {
		l.duplicate(paths[text], at, text)
		paths[text] = true
	}
}

// items adds the problems of the keys of a Secret or ConfigMap that are files.
func (l *list) items(items []corev1.KeyToPath, paths taken, at *field.Path) {
	for i, item := range items {
		at := at.Index(i)
		l.required(at.Child("key"), item.Key, "the key in the object")
		l.file(at.Child("path"), item.Path)
		l.take(at.Child("path"), item.Path, paths)
		l.mode(at.Child("mode"), item.Mode)
		l.user(at.Child("user"), item.User)
	}
}

// files adds the problems of fields of the pod that are files.
func (l *list) files(items []corev1.DownwardAPIVolumeFile, paths taken, at *field.Path) {
	for i, item := range items {
		at := at.Index(i)
		l.file(at.Child("path"), item.Path)
		l.take(at.Child("path"), item.Path, paths)
		l.mode(at.Child("mode"), item.Mode)
		l.user(at.Child("user"), item.User)
		if item.FieldRef != nil {
			l.fieldRef(item.FieldRef, fileFields, at.Child("fieldRef"))
		} else if item.ResourceFieldRef != nil {
			l.required(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName, "the container that has the resource")
			l.resourceRef(item.ResourceFieldRef, at.Child("resourceFieldRef"))
		}
		l.invalid((item.FieldRef == nil) == (item.ResourceFieldRef == nil), at, field.OmitValueType{}, "write one of fieldRef and resourceFieldRef")
	}
}

// projected adds the problems of a volume with several sources. A source of a signer must only have its name.
func (l *list) projected(p *corev1.ProjectedVolumeSource, at *field.Path) {
	l.mode(at.Child("defaultMode"), p.DefaultMode)
	l.user(at.Child("defaultUser"), p.DefaultUser)
	paths := taken{}
	for i, s := range p.Sources {
		at, kinds := at.Child("sources").Index(i), 0
		if s, at := s.Secret, at.Child("secret"); s != nil {
			kinds++
			l.required(at.Child("name"), s.Name, "the name of the Secret")
			l.items(s.Items, paths, at.Child("items"))
		}
		if s, at := s.ConfigMap, at.Child("configMap"); s != nil {
			kinds++
			l.required(at.Child("name"), s.Name, "the name of the ConfigMap")
			l.items(s.Items, paths, at.Child("items"))
		}
		if s, at := s.DownwardAPI, at.Child("downwardAPI"); s != nil {
			kinds++
			l.files(s.Items, paths, at.Child("items"))
		}
		if s, at := s.ServiceAccountToken, at.Child("serviceAccountToken"); s != nil {
			kinds++
			l.file(at.Child("path"), s.Path)
			if s.ExpirationSeconds != nil {
				l.between(at.Child("expirationSeconds"), *s.ExpirationSeconds, 600, 1<<32)
			}
			l.user(at.Child("user"), s.User)
		}
		if s := s.ClusterTrustBundle; s != nil {
			kinds++
			l.trustBundle(s, paths, at.Child("clusterTrustBundle"))
		}
		if s := s.PodCertificate; s != nil {
			kinds++
			l.podCertificate(s, paths, at.Child("podCertificate"))
		}
		l.forbidden(kinds > 1, at, "has several kinds of sources; make each an element of the list")
	}
}

func (l *list) trustBundle(s *corev1.ClusterTrustBundleProjection, paths taken, at *field.Path) {
	l.invalid((s.Name == nil) == (s.SignerName == nil), at, field.OmitValueType{}, "write one of name and signerName")
	l.missing(s.Name != nil && *s.Name == "", at.Child("name"), "")
	l.missing(s.SignerName != nil && *s.SignerName == "", at.Child("signerName"), "")
	l.forbidden(s.Name != nil && s.SignerName == nil && s.LabelSelector != nil, at.Child("labelSelector"), "is for signerName")
	l.file(at.Child("path"), s.Path)
	l.take(at.Child("path"), s.Path, paths)
	l.user(at.Child("user"), s.User)
}

func (l *list) podCertificate(s *corev1.PodCertificateProjection, paths taken, at *field.Path) {
	l.required(at.Child("signerName"), s.SignerName, "")
	chosen(l, at.Child("keyType"), s.KeyType, "such as ED25519", "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if s.MaxExpirationSeconds != nil {
		l.between(at.Child("maxExpirationSeconds"), int64(*s.MaxExpirationSeconds), 3600, 91*24*3600)
	}
	l.user(at.Child("user"), s.User)
	files := 0
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", s.CredentialBundlePath}, {"keyPath", s.KeyPath}, {"certificateChainPath", s.CertificateChainPath},
	} {
		if f.path != "" {
			files++
			l.file(at.Child(f.name), f.path)
			l.take(at.Child(f.name), f.path, paths)
		}
	}
	l.missing(files == 0, at, "write credentialBundlePath, or keyPath and certificateChainPath")
}
