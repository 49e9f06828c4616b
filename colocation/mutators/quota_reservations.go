package mutators

import (
	"cmp"
	"context"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
)

// quotaReservations protects the quota ledger's record from other writers: a new quota has none, and an update keeps the stored one,
// with a mark if the quota moves. A kubectl replace would lose it, with the reservations of pods that are just being created; a copied
// manifest would bring another quota's. The ledger's own writes are excluded by the webhook configuration. moving returns the record of a
// quota that gets another parent or other namespaces, from the stored record and resourceVersion (ledger.Moving); nil if quotas are not
// evaluated.
func quotaReservations(moving func(record, version string) string) admit.Mutator[views.ElasticQuota] {
	return admit.Mutator[views.ElasticQuota]{
		Name: "quota-reservations",
		Doc: "keeps the quota ledger's record, annotation " + api.AnnotationQuotaReservations +
			", as stored, and marks it when the quota moves; a new quota has none",
		Run: func(_ context.Context, req *admit.Request, q *views.ElasticQuota) error {
			var text string
			var stored bool
			switch {
			case req.OldObject != nil:
				before := views.AsElasticQuota(req.OldObject)
				text, stored = before.Annotation(api.AnnotationQuotaReservations)
				if moving != nil && moves(before, q) {
					text = moving(text, before.Readable().ResourceVersion)
					stored = stored || text != ""
				}
			case req.Operation != admissionv1.Create:
				req.Explain("the review has no stored quota, so the ledger's record is left as it is")
				return nil // there is nothing to tell what is stored
			}
			if stored {
				q.SetAnnotation(api.AnnotationQuotaReservations, text)
			} else {
				q.RemoveAnnotation(api.AnnotationQuotaReservations)
			}
			return nil
		},
	}
}

// moves reports whether a quota gets another parent or other namespaces. One without the label is below the root quota.
func moves(before, after *views.ElasticQuota) bool {
	was, _ := before.Annotation(api.AnnotationQuotaNamespaces)
	is, _ := after.Annotation(api.AnnotationQuotaNamespaces)
	parent := func(q *views.ElasticQuota) string { return cmp.Or(q.Label(api.LabelQuotaParent), api.RootQuota) }
	return was != is || parent(before) != parent(after)
}
