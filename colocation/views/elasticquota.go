package views

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
)

// ElasticQuota is the view of an ElasticQuota.
type ElasticQuota struct{ admit.Meta }

// AsElasticQuota views a document as an ElasticQuota.
func AsElasticQuota(d *document.Document) *ElasticQuota { return &ElasticQuota{admit.MetaOf(d.Root())} }

// Object returns the whole typed quota with all edits so far. It is decoded field by field, so that errors have the
// path of the field.
func (q *ElasticQuota) Object() api.ElasticQuota { return elasticQuota(q.Root()) }

// Readable is Object for a stored quota, which may predate the rules: a field that does not decode counts as missing,
// and is not an error of the request.
func (q *ElasticQuota) Readable() api.ElasticQuota {
	sub := q.Root().Sub()
	if sub == nil {
		return api.ElasticQuota{}
	}
	defer sub.Release()
	return elasticQuota(sub.Root())
}

func elasticQuota(root *document.Value) api.ElasticQuota {
	list := func(part, name string) api.ResourceList { return document.As[api.ResourceList](root.At(part, name)) }
	return api.ElasticQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: root.Get("apiVersion").Text(), Kind: root.Get("kind").Text()},
		ObjectMeta: document.As[metav1.ObjectMeta](root.Get("metadata")),
		Spec:       api.ElasticQuotaSpec{Min: list("spec", "min"), Max: list("spec", "max")},
		Status:     api.ElasticQuotaStatus{Used: list("status", "used")},
	}
}

// Max returns spec.max; nil if it is absent or null.
func (q *ElasticQuota) Max() api.ResourceList {
	return document.As[api.ResourceList](q.Root().At("spec", "max"))
}

// SpecChanged reports whether the text of the spec differs from the stored one, even if the meaning may be the same.
func (q *ElasticQuota) SpecChanged(stored *ElasticQuota) bool {
	return !bytes.Equal(q.Root().Get("spec").Bytes(), stored.Root().Get("spec").Bytes())
}
