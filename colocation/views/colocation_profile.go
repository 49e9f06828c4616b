package views

import (
	"bytes"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/document"
)

// ColocationProfile is the view of a ClusterColocationProfile.
type ColocationProfile struct{ admit.Meta }

// AsColocationProfile views a document as a ClusterColocationProfile.
func AsColocationProfile(d *document.Document) *ColocationProfile {
	return &ColocationProfile{admit.MetaOf(d.Root())}
}

// Object is the whole typed profile. Its patch is as it was written.
func (p *ColocationProfile) Object() api.ClusterColocationProfile {
	return document.As[api.ClusterColocationProfile](p.Root())
}

// SpecChanged reports whether the spec is another than that of the stored object; it is if there is none.
func (p *ColocationProfile) SpecChanged(stored *document.Document) bool {
	return stored == nil || !bytes.Equal(p.Root().Get("spec").Bytes(), stored.Root().Get("spec").Bytes())
}
