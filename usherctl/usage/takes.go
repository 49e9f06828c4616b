package usage

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// planned are the pods of one quota.
type planned struct {
	QuotaTake
	path []*quota.Quota
	sum  corev1.ResourceList
}

// takes returns what planned pods would take, by quota.
func (v visible) takes(ask Question) (all []QuotaTake) {
	var plans []*planned
	for _, pods := range ask.Pods {
		one := v.plan(pods, ask)
		same := slices.IndexFunc(plans, func(p *planned) bool { return p.Quota == one.Quota && p.Fits == one.Fits && p.Why == one.Why })
		if same < 0 {
			plans = append(plans, one)
			continue
		}
		plans[same].Of, plans[same].Pods = append(plans[same].Of, one.Of...), plans[same].Pods+one.Pods
		quantity.AddTo(plans[same].sum, one.sum)
	}
	taken := map[string]corev1.ResourceList{} // in each quota, by all plans
	for _, p := range plans {
		for _, name := range v.levels(p.path) {
			if taken[name] == nil {
				taken[name] = corev1.ResourceList{}
			}
			quantity.AddTo(taken[name], p.sum)
		}
	}
	for _, p := range plans {
		v.judge(p, taken)
		all = append(all, p.QuotaTake)
	}
	return all
}

// levels returns the names of the quotas on a path, with the first one above it that is not known.
func (v visible) levels(path []*quota.Quota) (names []string) {
	for _, q := range path {
		names = append(names, q.Name)
	}
	if len(path) > 0 && v.unread(path) != "" {
		names = append(names, v.unread(path))
	}
	return names
}

// plan places pods in their quota. Fits is set where that alone decides.
func (v visible) plan(pods PlannedPods, ask Question) *planned {
	p := &planned{QuotaTake: QuotaTake{Of: []string{pods.Of}, Pods: pods.Count}, sum: corev1.ResourceList{}}
	if pods.Unknown != "" {
		p.Fits, p.Why = FitsUnknown, pods.Unknown
		return p
	}
	meta := pods.Pod.ObjectMeta
	if meta.Namespace == "" {
		meta.Namespace = ask.Namespace
	}
	counted := quota.PodOf(&meta, &pods.Pod.Spec, &pods.Pod.Status)
	charge := quota.CountingOf(ask.Gates).Charge(counted)
	for name, amount := range charge {
		if !amount.IsZero() {
			p.sum[name] = times(amount, pods.Count)
		}
	}
	switch b := v.tree.Bind(counted.BindingKey(), v.labelOnly); {
	case b.Quota != nil && b.Quota.IsParent && !ask.Gates.On(api.GateSupportParentQuotaSubmitPod):
		p.Quota, p.Fits, p.Why = b.Name, FitsNo, fmt.Sprintf("quota %s is a parent, which takes no pods", b.Name)
	case b.Quota != nil:
		p.Quota, p.path = b.Name, v.tree.Line(b.Name)
		if quota.CountingOf(ask.Gates).Devices && quota.ClaimsDevices(&pods.Pod.Spec) {
			p.Fits, p.Why = FitsUnknown, "they claim devices, which are counted when they are created"
		}
	case !v.whole && b.Name != "": // without a name, only a label would choose one
		p.Fits, p.Why = FitsUnknown, "this user may not read their quota"
	case b.Unknown():
		p.Quota, p.Fits, p.Why = b.Name, FitsNo, fmt.Sprintf("there is no quota %s, which their label names", admit.Shorten(b.Name, 80))
	default:
		p.Fits, p.Why = FitsYes, "no quota limits them"
	}
	return p
}

// times returns an amount n times. n may be large, so that it is doubled, not added up.
func times(amount quota.Amount, n int64) quota.Amount {
	total, doubled := quota.Amount{Format: amount.Format}, amount.DeepCopy()
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			total.Add(doubled)
		}
		doubled.Add(doubled.DeepCopy())
	}
	return total
}

// judge says whether pods fit into their quota and those above it.
func (v visible) judge(p *planned, taken map[string]corev1.ResourceList) {
	if p.Fits == "" {
		p.Fits = FitsYes
	}
	for _, name := range slices.Sorted(maps.Keys(p.sum)) {
		amount := p.sum[name]
		row := ResourceTake{Name: name, Takes: amount.String(), Fits: p.Fits}
		if len(p.path) > 0 {
			row.Fits, row.By = v.fits(p.path, name, taken)
		}
		p.Resources = append(p.Resources, row)
	}
	if len(p.path) == 0 {
		return
	}
	for _, row := range p.Resources {
		if row.Fits == FitsNo || row.Fits == FitsUnknown && p.Fits == FitsYes {
			p.Fits = row.Fits
		}
	}
}

// fits says whether what is taken of a resource fits on a path, and whose limit decides that.
func (v visible) fits(path []*quota.Quota, name corev1.ResourceName, taken map[string]corev1.ResourceList) (fits, by string) {
	for _, q := range path {
		l := v.level(q, name)
		if left := l.left(); left != nil && left.Cmp(taken[q.Name][name]) < 0 {
			return FitsNo, l.by()
		}
	}
	b, above := v.bound(path, name), v.unread(path)
	switch {
	case b.most:
		return FitsUnknown, b.by
	case above != "" && b.left != nil && b.left.Cmp(taken[above][name]) < 0: // there may be just as much left above
		return FitsUnknown, above + notReadable
	case !b.limits:
		return FitsYes, ""
	}
	return FitsYes, b.by
}
