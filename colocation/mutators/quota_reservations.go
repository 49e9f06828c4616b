package mutators

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
)

// quotaReservations keeps the quota ledger's record out of everybody else's hands: a new quota has none, and an update leaves the one
// that is stored. A kubectl replace would lose it, and with it what was promised to pods that are just being created; a copied manifest
// would bring another quota's. The ledger's own writes do not come here.
func quotaReservations() admit.Mutator[views.ElasticQuota] {
	return admit.Mutator[views.ElasticQuota]{
		Name: "quota-reservations",
		Doc:  "keeps the annotation " + api.AnnotationQuotaReservations + ", the quota ledger's record, as it is stored; a new quota has none",
		Run: func(_ context.Context, req *admit.Request, q *views.ElasticQuota) error {
			var Entry string
			var stored bool
			switch {
			case req.OldObject != nil:
				Entry, stored = views.AsElasticQuota(req.OldObject).Annotation(api.AnnotationQuotaReservations)
			case req.Operation != admissionv1.Create:
				return nil // nothing tells what is stored
			}
			if stored {
				q.SetAnnotation(api.AnnotationQuotaReservations, Entry)
			} else {
				q.RemoveAnnotation(api.AnnotationQuotaReservations)
			}
			return nil
		},
	}
}
