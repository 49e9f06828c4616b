package mutators

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
)

// quotaReservations protects the quota ledger's record from other writers: a new quota has none, and an update keeps
// the stored one. A kubectl replace would lose it, with the reservations of pods that are just being created; a copied
// manifest would bring another quota's. The ledger's own writes are excluded by the webhook configuration.
func quotaReservations() admit.Mutator[views.ElasticQuota] {
	return admit.Mutator[views.ElasticQuota]{
		Name: "quota-reservations",
		Doc:  "keeps the annotation " + api.AnnotationQuotaReservations + ", the quota ledger's record, as it is stored; a new quota has none",
		Run: func(_ context.Context, req *admit.Request, q *views.ElasticQuota) error {
			var text string
			var stored bool
			switch {
			case req.OldObject != nil:
				text, stored = views.AsElasticQuota(req.OldObject).Annotation(api.AnnotationQuotaReservations)
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
