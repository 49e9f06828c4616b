package views

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
)

// QuotaProfile is the view of an ElasticQuotaProfile.
type QuotaProfile struct{ admit.Meta }

// AsQuotaProfile views a document as an ElasticQuotaProfile.
func AsQuotaProfile(d *document.Document) *QuotaProfile { return &QuotaProfile{admit.MetaOf(d.Root())} }

// Object returns the whole typed profile.
func (p *QuotaProfile) Object() api.ElasticQuotaProfile {
	return document.As[api.ElasticQuotaProfile](p.Root())
}

// SpecChanged reports whether the spec differs from the stored one, or there is no stored object.
func (p *QuotaProfile) SpecChanged(stored *document.Document) bool {
	return specChanged(p.Meta, stored)
}
