package validators

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// quotaAuthority keeps users who are not administrators of quotas within the quotas of their own namespace: they may
// divide what an administrator has given to the namespace, but neither enlarge it nor touch what others have. Package
// rules says what reaches beyond that.
func quotaAuthority(ask QuotaQuestions) admit.Validator[views.ElasticQuota] {
	return admit.Validator[views.ElasticQuota]{
		Name:    "quota-authority",
		Doc:     "lets only the policy's administrators change elastic quotas beyond those below the quotas of the user's own namespace",
		Section: sections.QuotasSection,
		Needs:   []string{api.CollectionElasticQuotas, admit.CollectionNamespaces},
		Idle:    ask.Policy == nil || !ask.Policy.LimitsWriters(),
		Run: func(ctx context.Context, req *admit.Request, q *views.ElasticQuota) (field.ErrorList, error) {
			if ask.Policy.Administers(req) {
				return pass(req, "quotas.administrators of the policy names namespace %s, or a group of the user", req.Namespace)
			}
			change, some := readChange(req, q)
			if !some {
				return nil, nil
			}
			tree, err := ask.Quotas(ctx, newParent(change))
			if err != nil {
				return nil, fmt.Errorf("reading the elastic quotas: %w", err)
			}
			problems, err := ask.Rules.Overreach(tree, change)
			if err == nil && len(problems) == 0 {
				req.Explain("the change stays within the quotas of namespace %s", req.Namespace)
			}
			return problems, err
		},
	}
}
