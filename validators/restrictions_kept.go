package validators

import (
	"context"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// restrictionsKept keeps the users whom a restriction binds from changing the labels by which it selects a
// namespace, and those by which the API server decides whether to call usher. called selects the namespaces for which it
// does. A user could otherwise remove the restriction and then do what it forbids.
func restrictionsKept(policy Restrictions, called labels.Selector) admit.Validator[admit.Meta] {
	all := compileRestrictions(policy)
	return admit.Validator[admit.Meta]{
		Name:    "restrictions-kept",
		Doc:     "refuses changes of a namespace's labels that would free a user of a restriction",
		For:     admit.Namespaces(admissionv1.Update),
		Section: restrictionsSection,
		Idle:    len(policy) == 0,
		Run: func(_ context.Context, req *admit.Request, now *admit.Meta) (problems field.ErrorList, _ error) {
			if req.OldObject == nil || req.Object == nil {
				req.Explain("only the labels of stored namespaces are guarded")
				return nil, nil
			}
			was, is := admit.AsMeta(req.OldObject).Labels(), now.Labels()
			var lost []*restriction
			for i := range all {
				if r := &all[i]; r.binds(req.UserInfo) && r.shed(was, is, called) {
					lost = append(lost, r)
				}
			}
			if len(lost) == 0 {
				req.Explain("no restriction that binds user %s loses this namespace", req.UserInfo.Username)
			}
			return changedLabels(lost, was, is, called), nil
		},
	}
}

// shed reports whether a namespace was restricted before a change of its labels, and is not afterwards.
func (r *restriction) shed(was, is map[string]string, called labels.Selector) bool {
	restricted := func(of map[string]string) bool {
		return called.Matches(labels.Set(of)) && (r.selector == nil || r.selector.Matches(labels.Set(of)))
	}
	return restricted(was) && !restricted(is)
}

// changedLabels returns a problem for each changed label by which lost restrictions select the namespace.
func changedLabels(lost []*restriction, was, is map[string]string, called labels.Selector) (problems field.ErrorList) {
	names := map[string][]string{} // of restrictions, by the key of a label
	for _, r := range lost {
		for key := range keysOf(r.selector, called) {
			names[key] = append(names[key], r.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		before, had := was[key]
		after, has := is[key]
		if before == after && had == has {
			continue
		}
		must := "must remain " + before
		if !had {
			must = "must not be set"
		}
		problems = append(problems, field.Forbidden(admit.LabelPath(key), fmt.Sprintf(
			"%s: by this label the policy selects the namespace for restrictions that apply to you (%s)%s",
			must, admit.SomeNames(names[key]), remedy(lost[0].Message))))
	}
	return problems
}

// keysOf returns the keys of the labels that selectors ask for; nil selectors ask for none.
func keysOf(selectors ...labels.Selector) map[string]bool {
	keys := map[string]bool{}
	for _, s := range selectors {
		if s == nil {
			continue
		}
		requirements, _ := s.Requirements()
		for _, requirement := range requirements {
			keys[requirement.Key()] = true
		}
	}
	return keys
}
