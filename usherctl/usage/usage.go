package usage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/quota"
)

// Of answers what the quotas of a namespace have left from the status that usher has written, because its owners may
// read little more. What they may not read is not known.
func Of(ctx context.Context, ask Question) (Usage, error) {
	v, err := readVisible(ctx, ask)
	if err != nil {
		return Usage{}, err
	}
	answer := Usage{Namespace: ask.Namespace, Quotas: []QuotaUsage{}}
	if !v.whole {
		answer.Notes = append(answer.Notes, "this user may not read the quotas of other namespaces")
	}
	for _, name := range v.of(ask.Namespace, &answer) {
		answer.Quotas = append(answer.Quotas, v.usageOf(name))
		if q, _ := v.tree.Get(name); v.writers(q).Others != "" {
			answer.Notes = append(answer.Notes, fmt.Sprintf("%s writes the status of %s, so that usher does not", v.writers(q).Others, name))
		}
	}
	answer.Takes = v.takes(ask)
	return answer, nil
}

// visible are the quotas that a user may read.
type visible struct {
	tree      *quota.Tree
	stored    map[types.NamespacedName]*api.ElasticQuota
	whole     bool // they are all that exist
	labelOnly bool
}

func readVisible(ctx context.Context, ask Question) (visible, error) {
	v := visible{whole: true, stored: map[types.NamespacedName]*api.ElasticQuota{}, labelOnly: ask.Gates.On(api.GateDisableDefaultQuota)}
	kind := reader.Kind{GroupVersionKind: api.ElasticQuotaKind, Resource: api.ElasticQuotaResource.Resource}
	list, err := ask.Source.List(ctx, kind, "")
	if reader.IsForbidden(err) {
		v.whole = false
		list, err = ask.Source.List(ctx, kind, ask.Namespace)
	}
	if errors.Is(err, reader.ErrNotFound) {
		return v, errors.New("the API server has no elastic quotas: their CRD is not installed")
	}
	all, err := reader.All[api.ElasticQuota](list, err)
	if err != nil {
		return v, err
	}
	quotas := make([]*quota.Quota, len(all))
	for i := range all {
		quotas[i] = quota.Of(&all[i])
		v.stored[quotas[i].Identity()] = &all[i]
	}
	v.tree = quota.NewTree(quotas)
	return v, nil
}

// of returns the names of the quotas of a namespace, that of its pods first, and notes what is to know of them.
func (v visible) of(namespace string, answer *Usage) (names []string) {
	own := v.tree.Bind(quota.BindingKey{Namespace: namespace}, false)
	switch {
	case v.labelOnly:
		answer.Notes = append(answer.Notes, "only a label chooses the quota of a pod")
	case own.Quota != nil:
		names = append(names, own.Name)
		answer.Notes = append(answer.Notes, fmt.Sprintf("pods without a quota label count for %s (via %s)", own.Name, own.Via))
	case v.whole:
		answer.Notes = append(answer.Notes, fmt.Sprintf("no quota is for the pods of namespace %s: those without a quota label are not limited", namespace))
	default:
		answer.Unknown = append(answer.Unknown, fmt.Sprintf(
			"whether a quota elsewhere lists namespace %s; an administrator sees it with the same command", namespace))
	}
	for _, name := range v.tree.Names() {
		switch q, _ := v.tree.Get(name); {
		case q.Namespace == namespace && api.ReservedQuota(name):
			answer.Notes = append(answer.Notes, fmt.Sprintf("quota %s limits nothing", name))
		case q.Namespace == namespace && !slices.Contains(names, name):
			names = append(names, name)
		case q.Namespace != namespace && v.stored[types.NamespacedName{Namespace: namespace, Name: name}] != nil:
			answer.Notes = append(answer.Notes, fmt.Sprintf("quota %s of namespace %s does not count: %s has the name", name, namespace, q.Identity()))
		}
	}
	return names
}

// level is what is known of one quota on a path, for one resource.
type level struct {
	quota          *quota.Quota
	used, reserved *quota.Amount // nil: not known
	limit          *quota.Amount // nil: none
	source         string
}

func (v visible) level(q *quota.Quota, name corev1.ResourceName) level {
	l, status, writers := level{quota: q}, v.stored[q.Identity()].Status, v.writers(q)
	if used, has := status.Used[name]; has && (writers.Others == "" || writers.OthersUsed) {
		l.used = &used
	} else if v.written(q) {
		l.used = &quota.Amount{}
	}
	if reserved := status.Reserved[name]; v.written(q) {
		l.reserved = &reserved
	}
	if limit, source, limited := q.Limit(name); limited {
		l.limit, l.source = &limit, source
	}
	return l
}

func (v visible) writers(q *quota.Quota) collections.QuotaStatusWriters {
	return collections.WritersOf(v.stored[q.Identity()])
}

// written reports whether usher writes the status of a quota: Koordinator's scheduler writes what is used alone, and leaves the
// rest as usher wrote it last.
func (v visible) written(q *quota.Quota) bool {
	status := v.stored[q.Identity()].Status
	return len(status.Limit)+len(status.Binds) > 0 && v.writers(q).Others == ""
}

// left returns what a quota has left by its own limit; nil if it is not known.
func (l level) left() *quota.Amount {
	if l.limit == nil || l.used == nil || l.reserved == nil {
		return nil
	}
	left := l.limit.DeepCopy()
	left.Sub(*l.used)
	left.Sub(*l.reserved)
	return &left
}

func (l level) by() string { return fmt.Sprintf("%s (%s)", l.quota.Name, l.source) }

// unread returns the name of the first quota above a path that is not known; empty: the path goes up to the top.
func (v visible) unread(path []*quota.Quota) string {
	if top := path[len(path)-1]; top.Parent != api.RootQuota {
		if _, known := v.tree.Get(top.Parent); !known {
			return top.Parent
		}
	}
	return ""
}

const notReadable = ", which this user may not read"

// bound says what is known of a resource on a path.
type bound struct {
	left   *quota.Amount // the least that is known
	by     string
	most   bool // less may be left
	limits bool // a quota limits the resource, or may
}

// bound returns the least that is left on a path, by what can be read, and by what usher says of what cannot.
func (v visible) bound(path []*quota.Quota, name corev1.ResourceName) (b bound) {
	for _, q := range path {
		l := v.level(q, name)
		if l.limit == nil {
			continue
		}
		b.limits = true
		switch left := l.left(); {
		case left == nil && !b.most:
			b.most, b.by = true, q.Name+", whose use is not known"
		case left != nil && (b.left == nil || left.Cmp(*b.left) < 0):
			if b.left = left; !b.most {
				b.by = l.by()
			}
		}
	}
	status, above := v.stored[path[0].Identity()].Status, v.unread(path)
	if above == "" {
		return b
	}
	switch binds, said := status.Binds[name]; {
	case !v.written(path[0]):
		b.limits, b.most, b.by = true, true, above+notReadable
	case said && !slices.ContainsFunc(path, func(q *quota.Quota) bool { return q.Name == binds }):
		b.limits, b.most, b.by = true, true, binds+notReadable
	}
	return b
}

// usageOf returns what a quota has left.
func (v visible) usageOf(name string) QuotaUsage {
	path := v.tree.Line(name)
	if len(path) == 0 {
		return QuotaUsage{Name: name}
	}
	q := path[0]
	made, stored := QuotaUsage{Namespace: q.Namespace, Name: q.Name}, v.stored[q.Identity()]
	if q.Parent != api.RootQuota {
		made.Parent = q.Parent
	}
	if at := collections.WritersOf(stored).Written; v.written(q) && !at.IsZero() {
		made.AsOf = &at
	}
	for _, name := range v.resources(path) {
		l, b := v.level(q, name), v.bound(path, name)
		made.Resources = append(made.Resources, ResourceUsage{Name: name, Used: text(l.used), Reserved: text(l.reserved), Limit: text(l.limit),
			Left: text(b.left), LeftMost: b.most && b.left != nil, By: b.by, Unlimited: !b.limits})
	}
	return made
}

// resources returns the resources that are used in the first quota of a path, or limited on it, sorted.
func (v visible) resources(path []*quota.Quota) []corev1.ResourceName {
	status := v.stored[path[0].Identity()].Status
	lists := []corev1.ResourceList{corev1.ResourceList(status.Used), corev1.ResourceList(status.Reserved)}
	for _, q := range path {
		lists = append(lists, q.Max, q.Admission)
	}
	names := slices.AppendSeq(quantity.Names(lists...), maps.Keys(status.Binds))
	slices.Sort(names)
	return slices.Compact(names)
}

func text(a *quota.Amount) *string {
	if a == nil {
		return nil
	}
	s := a.String()
	return &s
}
