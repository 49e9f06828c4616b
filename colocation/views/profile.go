package views

import (
	"bytes"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
)

// Profile is the view of a profile with the type T.
type Profile[T any] struct{ admit.Meta }

// ColocationProfile is the view of a ClusterColocationProfile.
type ColocationProfile = Profile[api.ClusterColocationProfile]

// QuotaProfile is the view of an ElasticQuotaProfile.
type QuotaProfile = Profile[api.ElasticQuotaProfile]

// AsColocationProfile views a document as a ClusterColocationProfile.
func AsColocationProfile(d *document.Document) *ColocationProfile {
	return &ColocationProfile{admit.MetaOf(d.Root())}
}

// AsQuotaProfile views a document as an ElasticQuotaProfile.
func AsQuotaProfile(d *document.Document) *QuotaProfile { return &QuotaProfile{admit.MetaOf(d.Root())} }

// Object returns the whole typed profile; the patch of a ClusterColocationProfile is exactly as written.
func (p *Profile[T]) Object() T { return document.As[T](p.Root()) }

// SpecChanged reports whether the spec differs from the stored one, or there is no stored object.
func (p *Profile[T]) SpecChanged(stored *document.Document) bool {
	return stored == nil || !bytes.Equal(p.Root().Get("spec").Bytes(), stored.Root().Get("spec").Bytes())
}
