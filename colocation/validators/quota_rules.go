package validators

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/document"
)

// QuotaQuestions are what the rules of the quota tree ask.
type QuotaQuestions struct {
	// Tree returns the quotas that are stored. It waits a moment until they, or what is pending, have the one of a name, if that is not
	// empty: another replica may just have let it in. An error that wraps admit.ErrNotReady makes the client try again.
	Tree func(ctx context.Context, awaited string) (*quota.Tree, error)
	// Pending is what this replica has admitted and not seen stored yet.
	Pending *rules.Pending
	// Rules are the gates, and the questions about pods and namespaces.
	Rules rules.Rules
}

// quotaRules keeps the quota tree in order: see quota.Rules. An admitted change is remembered until the tree shows it, and never on dry
// run.
func quotaRules(ask QuotaQuestions) admit.Validator[views.ElasticQuota] {
	return admit.Validator[views.ElasticQuota]{
		Name:  "quota-rules",
		Doc:   "keeps elastic quotas a tree: parents, tree ids, resources, sums of min, namespaces, and what may not be deleted",
		Needs: []string{api.CollectionElasticQuotas, api.CollectionPodRequests, admit.CollectionNamespaces},
		Run: func(ctx context.Context, req *admit.Request, q *views.ElasticQuota) (field.ErrorList, error) {
			return judgeQuota(req, q, func(c rules.Change) (rules.Verdict, error) {
				return ask.Pending.Judge(ask.Rules, ask.stored(ctx, c), c)
			})
		},
		Commit: func(ctx context.Context, req *admit.Request, q *views.ElasticQuota) (field.ErrorList, error) {
			return judgeQuota(req, q, func(c rules.Change) (rules.Verdict, error) {
				stored := ask.stored(ctx, c)
				if err := ctx.Err(); err != nil {
					return rules.Verdict{}, err
				}
				return ask.Pending.Admit(ask.Rules, stored, c)
			})
		},
	}
}

// stored returns the question for the tree, once that has the parent that a quota comes to. Pending asks it again under its lock, where nobody
// may wait.
func (q QuotaQuestions) stored(ctx context.Context, c rules.Change) func() (*quota.Tree, error) {
	if c.New != nil && (c.Old == nil || c.Old.Parent != c.New.Parent) {
		_, _ = q.Tree(ctx, c.New.Parent) // Pending hears the error
	}
	return func() (*quota.Tree, error) { return q.Tree(ctx, "") }
}

// judgeQuota reads the request and tells the verdict. What changes nothing that a rule reads, as most writes of the scheduler do, is
// not even decoded.
func judgeQuota(req *admit.Request, q *views.ElasticQuota, judge func(rules.Change) (rules.Verdict, error)) (field.ErrorList, error) {
	if req.SubResource != "" || req.Object != nil && req.OldObject != nil && !quotaChanged(q, views.AsElasticQuota(req.OldObject)) {
		return nil, nil
	}
	change := quotaChange(req, q)
	if unreadable(req.Object) || unreadable(req.OldObject) {
		return nil, nil // found by the chain
	}
	verdict, err := judge(change)
	if err != nil {
		return nil, err
	}
	for _, warning := range verdict.Warnings {
		req.Warnf("%s", warning)
	}
	return verdict.Problems, nil
}

// quotaLabels and quotaAnnotations are those that the rules read.
var (
	quotaLabels = []string{api.LabelQuotaParent, api.LabelQuotaIsParent, api.LabelQuotaTreeID, api.LabelQuotaIsRoot, api.LabelQuotaAllowForceUpdate}

	quotaAnnotations = []string{api.AnnotationQuotaNamespaces, api.AnnotationQuotaSharedWeight, api.AnnotationQuotaAdmission,
		api.AnnotationQuotaGuaranteed, api.AnnotationQuotaMaxStrictCheck}
)

// quotaChanged reports whether an update may change anything that the rules read.
func quotaChanged(now, was *views.ElasticQuota) bool {
	label := func(key string) bool { return now.Label(key) != was.Label(key) }
	annotation := func(key string) bool {
		a, _ := now.Annotation(key)
		b, _ := was.Annotation(key)
		return a != b
	}
	return now.SpecChanged(was) || slices.ContainsFunc(quotaLabels, label) || slices.ContainsFunc(quotaAnnotations, annotation)
}

func unreadable(d *document.Document) bool { return d != nil && d.Err() != nil }

// quotaChange is what the request does. It is in the request's namespace, whatever its metadata says.
func quotaChange(req *admit.Request, q *views.ElasticQuota) (change rules.Change) {
	of := func(object api.ElasticQuota) *quota.Quota {
		object.Namespace = cmp.Or(req.Namespace, object.Namespace)
		object.Name = cmp.Or(object.Name, req.Name)
		return quota.Of(&object)
	}
	stored := func(d *document.Document) *quota.Quota { return of(views.AsElasticQuota(d).Readable()) }
	if req.OldObject != nil {
		change.Old = stored(req.OldObject)
	}
	if req.Object != nil {
		change.New = of(q.Object())
	}
	return change
}
