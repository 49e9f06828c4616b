package mutators

import (
	"context"
	"encoding/json"
	"maps"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/views"
)

// quotaTree returns the elastic quotas, with those that were just admitted. It waits briefly for the awaited one,
// because another replica may just have admitted it.
type quotaTree = func(ctx context.Context, awaited string) (*quota.Tree, error)

// quotaDefaults completes a new quota: its parent, the tree of its parent, and a shared weight for exactly the
// resources of its max. When an update changes which resources max names, the weight follows.
func quotaDefaults(tree quotaTree) admit.Mutator[views.ElasticQuota] {
	return admit.Mutator[views.ElasticQuota]{
		Name:  "quota-defaults",
		Doc:   "sets a new quota's parent, tree id and shared weight if absent; keeps the weight's resources those of max, also on update",
		Needs: []string{api.CollectionElasticQuotas},
		Run: func(ctx context.Context, req *admit.Request, q *views.ElasticQuota) error {
			switch {
			case q.Name() == api.RootQuota:
				req.Explain("the root quota has no parent and no weight")
				return nil
			case req.Operation == admissionv1.Create:
				if err := defaultTree(ctx, q, tree); err != nil {
					return err
				}
				return defaultWeight(q)
			case req.OldObject == nil:
				req.Explain("the review has no stored quota to compare with")
				return nil
			}
			return followMax(req, q, views.AsElasticQuota(req.OldObject))
		},
	}
}

// defaultTree sets the parent and the tree.
func defaultTree(ctx context.Context, q *views.ElasticQuota, tree quotaTree) error {
	name := q.Label(api.LabelQuotaParent)
	if name == "" {
		name = api.RootQuota
		q.SetLabel(api.LabelQuotaParent, name)
	}
	if name == api.RootQuota || q.Label(api.LabelQuotaTreeID) != "" {
		return nil
	}
	quotas, err := tree(ctx, name)
	if err != nil {
		return err
	}
	parent, ok := quotas.Get(name)
	if !ok {
		return field.Invalid(admit.LabelPath(api.LabelQuotaParent), name, "there is no such quota; create the parent first")
	}
	if parent.TreeID != "" {
		q.SetLabel(api.LabelQuotaTreeID, parent.TreeID)
	}
	return nil
}

// followMax keeps the weight consistent with max on an update that changes one of them. An existing annotation that
// does not parse may stay.
func followMax(req *admit.Request, q, stored *views.ElasticQuota) error {
	text, has := q.Annotation(api.AnnotationQuotaSharedWeight)
	before, had := stored.Annotation(api.AnnotationQuotaSharedWeight)
	same := text == before && has == had
	if same && (!q.SpecChanged(stored) || sameResources(q.Max(), stored.Readable().Spec.Max)) {
		req.Explain("neither the shared weight nor the resources of spec.max change")
		return nil
	}
	if err := defaultWeight(q); !same {
		return err
	}
	return nil
}

// defaultWeight sets the weight to max, or completes an existing weight: resources that max does not name are removed,
// and missing ones get the amount of max. A text with the right resources is unchanged.
func defaultWeight(q *views.ElasticQuota) error {
	most := q.Max()
	text, _ := q.Annotation(api.AnnotationQuotaSharedWeight)
	var weight api.ResourceList
	if text != "" {
		var err error
		if weight, err = api.ParseJSONText[api.ResourceList](text); err != nil {
			return field.Invalid(admit.AnnotationPath(api.AnnotationQuotaSharedWeight), admit.Shorten(text, 200),
				err.Error()+`; write amounts by resource such as {"cpu":"4"}, or leave the annotation out`)
		}
	}
	if weight == nil || !sameResources(weight, most) {
		q.SetAnnotation(api.AnnotationQuotaSharedWeight, weightFor(most, weight))
	}
	return nil
}

// weightFor returns the text of a weight for the resources of max.
func weightFor(most, weight api.ResourceList) string {
	all := make(api.ResourceList, len(most)) // not nil, which encodes as null
	for name, amount := range most {
		if own, ok := weight[name]; ok {
			amount = own
		}
		all[name] = amount
	}
	text, _ := json.Marshal(all) // quantities always encode
	return string(text)
}

func sameResources(a, b api.ResourceList) bool {
	return maps.EqualFunc(a, b, func(_, _ resource.Quantity) bool { return true })
}
