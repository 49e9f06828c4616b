package validators

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/quota/rules"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
)

// QuotaQuestions holds the questions of the steps quota-rules and quota-authority.
type QuotaQuestions struct {
	// Policy says who may shape the tree; nil: every user.
	Policy *sections.QuotaPolicy
	// Quotas is like Tree, for a step that does not ask about pods.
	Quotas func(ctx context.Context, awaited string) (*quota.Tree, error)
	// Tree returns the stored quotas. If awaited is not empty, it waits briefly until a quota of that name is stored or
	// pending, because another replica may just have admitted it. An error that wraps admit.ErrNotReady makes the
	// client retry.
	Tree func(ctx context.Context, awaited string) (*quota.Tree, error)
	// Pending holds what this replica has admitted and not observed as stored yet.
	Pending *rules.Pending
	// Rules are the settings of the gates, and the queries about pods and namespaces.
	Rules rules.Rules
	// Announce makes an admitted change known to all who admit pods, before it is stored. from is the resourceVersion that
	// the change was judged on; empty for a new quota. Nil where pods are not checked against quotas.
	Announce func(ctx context.Context, c rules.Change, from string) error
}

// quotaRules enforces the rules of the quota tree, see package rules. An admitted change is kept until the tree shows
// it; never on dry run.
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
				return ask.admit(ctx, req, c)
			})
		},
	}
}

// admit judges a change, keeps it, and announces it. A deletion is kept last: it is judged again after its announcement, before which
// pods may have been stored.
func (q QuotaQuestions) admit(ctx context.Context, req *admit.Request, c rules.Change) (rules.Verdict, error) {
	stored := q.stored(ctx, c)
	if err := ctx.Err(); err != nil {
		return rules.Verdict{}, err
	}
	first := q.Pending.Admit
	if c.New == nil {
		first = q.Pending.Judge
	}
	verdict, err := first(q.Rules, stored, c)
	if err == nil && len(verdict.Problems) == 0 {
		err = q.announce(ctx, req, c)
	}
	if err == nil && len(verdict.Problems) == 0 && c.New == nil {
		return q.Pending.Admit(q.Rules, stored, c)
	}
	return verdict, err
}

// stored returns the query for the tree, after waiting for the new parent of the quota. Pending calls the query again
// under its lock, where it must not wait.
func (q QuotaQuestions) stored(ctx context.Context, c rules.Change) func() (*quota.Tree, error) {
	if parent := newParent(c); parent != "" {
		_, _ = q.Tree(ctx, parent) // Pending gets the error again
	}
	return func() (*quota.Tree, error) { return q.Tree(ctx, "") }
}

// newParent returns the parent that a change gives to its quota; empty if it gives none.
func newParent(c rules.Change) string {
	if c.New == nil || c.Old != nil && c.Old.Parent == c.New.Parent {
		return ""
	}
	return c.New.Parent
}

// announce announces an admitted change. If it fails, the change must not be stored; Pending then forgets it after some
// seconds.
func (q QuotaQuestions) announce(ctx context.Context, req *admit.Request, c rules.Change) error {
	if q.Announce == nil {
		return nil
	}
	from := ""
	if req.OldObject != nil {
		from = views.AsElasticQuota(req.OldObject).Readable().ResourceVersion
	}
	return q.Announce(ctx, c, from)
}

// judgeQuota reads the request and reports the verdict. A request that changes nothing that a rule reads, like most
// writes of the scheduler, is not even decoded.
func judgeQuota(req *admit.Request, q *views.ElasticQuota, judge func(rules.Change) (rules.Verdict, error)) (field.ErrorList, error) {
	change, some := readChange(req, q)
	if !some {
		return nil, nil
	}
	verdict, err := judge(change)
	if err != nil {
		return nil, err
	}
	for _, warning := range verdict.Warnings {
		req.Warnf("%s", warning)
	}
	if len(verdict.Problems) == 0 {
		req.Explain("the quota tree stays a tree: parent, tree id, resources, sums of min and namespaces fit")
	}
	return verdict.Problems, nil
}

// readChange returns the change that a request makes; some is false if there is nothing to judge.
func readChange(req *admit.Request, q *views.ElasticQuota) (change rules.Change, some bool) {
	if req.SubResource != "" || req.Object != nil && req.OldObject != nil && !quotaChanged(q, views.AsElasticQuota(req.OldObject)) {
		req.Explain("the request changes nothing that the rules of quotas read")
		return change, false
	}
	change = quotaChange(req, q)
	return change, !unreadable(req.Object) && !unreadable(req.OldObject) // the chain reports what does not decode
}

// quotaLabels and quotaAnnotations are the keys that the rules read.
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

// quotaChange returns the change that the request makes. Its namespace is the request's, whatever the metadata says.
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
