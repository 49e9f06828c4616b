package sections

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/selector"
)

// QuotaPolicy is Quotas in the form that steps use for each request.
type QuotaPolicy struct {
	// ReservedByLabel, ReservedByDefault and ReservedByMove are the fields of ReservedQuotas, with their defaults.
	ReservedByLabel, ReservedByDefault, ReservedByMove bool

	selection      []compiledSelection
	administrators *QuotaAdministrators
}

type compiledSelection struct {
	*QuotaSelection
	namespaces labels.Selector // nil without a selector, or if it selects all
}

// Compile returns the policy of a section that was checked when it was loaded. A nil section allows everything.
func (q *Quotas) Compile() *QuotaPolicy {
	if q == nil {
		q = &Quotas{}
	}
	p := &QuotaPolicy{
		ReservedByLabel: isTrue(q.Reserved.Label), ReservedByDefault: isTrue(q.Reserved.Default), ReservedByMove: isTrue(q.Reserved.Move),
		administrators: q.Administrators,
	}
	for i := range q.Selection {
		entry := &q.Selection[i]
		p.selection = append(p.selection, compiledSelection{entry, selector.Compile(entry.NamespaceSelector)})
	}
	return p
}

// isTrue returns the value of a switch that is on by default.
func isTrue(is *bool) bool { return is == nil || *is }

// LimitsLabels reports whether the policy limits which quotas pods may name.
func (p *QuotaPolicy) LimitsLabels() bool { return len(p.selection) > 0 }

// LimitsReserved reports whether the policy keeps pods out of the reserved quotas in any way.
func (p *QuotaPolicy) LimitsReserved() bool {
	return !p.ReservedByLabel || !p.ReservedByDefault || !p.ReservedByMove
}

// LimitsWriters reports whether only administrators may shape the tree.
func (p *QuotaPolicy) LimitsWriters() bool { return p.administrators != nil }

// NamespaceLabels returns the labels of a namespace.
type NamespaceLabels func() (map[string]string, error)

// MayName reports whether an entry lets the pods of a namespace name a quota, which is in the tree with an ID, and
// which entry does. It calls ofNamespace only if the labels of the namespace decide; an error of it is returned as it
// is.
func (p *QuotaPolicy) MayName(quota, tree, namespace string, ofNamespace NamespaceLabels) (by string, may bool, err error) {
	for _, entry := range p.selection {
		if !entry.covers(quota, tree) {
			continue
		}
		may, err := entry.selects(namespace, ofNamespace)
		if err != nil || may {
			return entry.Name, may, err
		}
	}
	return "", false, nil
}

func (s *compiledSelection) covers(quota, tree string) bool {
	return len(s.Quotas)+len(s.Trees) == 0 || slices.Contains(s.Quotas, quota) || slices.Contains(s.Trees, tree)
}

func (s *compiledSelection) selects(namespace string, ofNamespace NamespaceLabels) (bool, error) {
	if slices.Contains(s.Namespaces, namespace) {
		return true, nil
	}
	if s.namespaces == nil {
		return s.NamespaceSelector != nil, nil
	}
	of, err := ofNamespace()
	return err == nil && s.namespaces.Matches(labels.Set(of)), err
}

// systemMasters is the group of users whom nothing in a cluster restricts.
const systemMasters = "system:masters"

// Administers reports whether the user of a request is an administrator of the quotas in the request's namespace.
func (p *QuotaPolicy) Administers(req *admit.Request) bool {
	if p.administrators == nil || slices.Contains(p.administrators.Namespaces, req.Namespace) {
		return true
	}
	return slices.ContainsFunc(req.UserInfo.Groups, func(group string) bool {
		return group == systemMasters || slices.Contains(p.administrators.Groups, group)
	})
}
