package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/report"
)

// rightsProblems asks the API server which of usher's rights are missing.
func (u Usher) rightsProblems(ctx context.Context, source reader.Source) []report.Finding {
	if !source.Live() {
		return nil
	}
	watching, err := u.missingRights(ctx, source, u.Watching)
	writing, err2 := u.missingRights(ctx, source, u.Writing)
	if err := errors.Join(err, err2); err != nil {
		return []report.Finding{unreadFinding(err, "the rights of usher")}
	}
	missing := slices.Concat(watching, writing)
	if len(missing) == 0 {
		return nil
	}
	about := u.about()
	about.watching, about.writing = len(watching) > 0, len(writing) > 0
	return []report.Finding{problem("usher-rights-missing", about, "%s may not: %s. usher needs that, as its Deployment %s runs it.",
		u.At.User, strings.Join(missing, "; "), u.service())}
}

// missingRights returns which of some rights a user lacks.
func (u Usher) missingRights(ctx context.Context, source reader.Source, rules []rbacv1.PolicyRule) ([]string, error) {
	var all []authorizationv1.ResourceAttributes
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			all = append(all, attributesOf(rule, verb, u.At.Namespace)...)
		}
	}
	answers, errs := make([]authorizationv1.SubjectAccessReviewStatus, len(all)), make([]error, len(all))
	var calls []func()
	for i := range all {
		calls = append(calls, func() {
			answers[i], errs[i] = access(ctx, source, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &all[i], User: u.At.User,
				Groups: u.groups()})
		})
	}
	parallel.Run(calls...)
	var denied []authorizationv1.ResourceAttributes
	for i, answer := range answers {
		if !answer.Allowed {
			denied = append(denied, all[i])
		}
	}
	return attributesTexts(denied), cmp.Or(errs...)
}

// groups returns the groups of usher's user.
func (u Usher) groups() []string {
	groups := []string{"system:authenticated"}
	if account, is := strings.CutPrefix(u.At.User, "system:serviceaccount:"); is {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	return groups
}

// access asks the API server whether a user may do something.
func access(ctx context.Context, source reader.Source, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus,
	error) {
	review := authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: spec}
	answer, err := reader.One[authorizationv1.SubjectAccessReview](source.Ask(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review))
	return answer.Status, err
}

// attributesOf returns what a rule permits with a verb. Secrets and quotas of usher's own are in its namespace.
func attributesOf(rule rbacv1.PolicyRule, verb, namespace string) (all []authorizationv1.ResourceAttributes) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			for _, object := range names {
				resource, sub, _ := strings.Cut(name, "/")
				a := authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: object}
				if resource == "secrets" {
					a.Namespace = namespace
				}
				all = append(all, a)
			}
		}
	}
	return all
}

// attributesTexts says what attributes are about, with the verbs for one resource together.
func attributesTexts(all []authorizationv1.ResourceAttributes) (texts []string) {
	var resources []string
	verbs := map[string][]string{}
	for _, a := range all {
		resource := schema.GroupResource{Group: a.Group, Resource: a.Resource}.String()
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		resource = strings.TrimSpace(resource + " " + a.Name)
		if verbs[resource] == nil {
			resources = append(resources, resource)
		}
		verbs[resource] = append(verbs[resource], a.Verb)
	}
	for _, resource := range resources {
		texts = append(texts, strings.Join(verbs[resource], ", ")+" "+resource)
	}
	return texts
}
