package views

import (
	"bytes"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
)

// ColocationProfile is the view of a ClusterColocationProfile.
type ColocationProfile struct{ admit.Meta }

// AsColocationProfile views a document as a ClusterColocationProfile.
func AsColocationProfile(d *document.Document) *ColocationProfile {
	return &ColocationProfile{admit.MetaOf(d.Root())}
}

// Object returns the whole typed profile, with its patch exactly as written.
func (p *ColocationProfile) Object() api.ClusterColocationProfile {
	return document.As[api.ClusterColocationProfile](p.Root())
}

// SpecChanged reports whether the spec differs from the stored one, or there is no stored object.
func (p *ColocationProfile) SpecChanged(stored *document.Document) bool {
	return specChanged(p.Meta, stored)
}

func specChanged(now admit.Meta, stored *document.Document) bool {
	return stored == nil || !bytes.Equal(now.Root().Get("spec").Bytes(), stored.Root().Get("spec").Bytes())
}
