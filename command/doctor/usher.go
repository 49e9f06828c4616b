package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/review"
	"usher.dev/usher/command/webhookmatch"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/server/webhooks"
)

// Usher describes what usher serves, and how it should be registered.
type Usher struct {
	At    webhooks.Address
	Paths []string // that it serves
	// Needed returns the webhooks that it should be registered with, given the names of those that are.
	Needed func(registered []string) []webhooks.Hook
	// Watching are the rights that it needs to watch the cluster, and Writing those to keep its certificates.
	Watching, Writing []rbacv1.PolicyRule
	Gates             string // the feature gates that its Deployment sets
	Managed           bool   // it keeps its certificates itself
	// Unknown is the reason why usher may be run differently, or nil. Assumed says why the policy is only assumed; "": usher runs with it. A
	// registration that is not what an assumed policy needs makes the rest Unknown, see settled.
	Unknown error
	Assumed string
	// Unusable is the reason why usher cannot load its policy, or its gates, or nil. The policy is a key of a ConfigMap.
	Unusable       error
	ConfigMap, Key string
	// Apply is the command that restores its registration, without the Service.
	Apply string
}

// settled returns usher as it is known once its registration has been read: if that is not what an assumed policy needs, usher runs with
// another policy, and what it needs is unknown.
func (u Usher) settled(registered []entry) Usher {
	if u.Assumed == "" || u.Unknown != nil {
		return u
	}
	var differing []string
	needed := u.neededBy(registered)
	for _, w := range registered {
		if n := neededFor(w, needed); w.ushers() && (n == nil || len(webhooks.Lacks(*n, w.Hook)) > 0) {
			differing = append(differing, w.Name)
		}
	}
	for _, n := range needed {
		if !slices.ContainsFunc(registered, func(w entry) bool { return w.ushers() && w.Name == n.Name }) {
			differing = append(differing, n.Name)
		}
	}
	if len(differing) > 0 {
		u.Unknown = fmt.Errorf("%s, and the registration is that of another policy (%s); pass the policy that usher runs with: --config FILE", u.Assumed, review.List(once(differing)))
	}
	return u
}

// service returns the Service as namespace/name.
func (u Usher) service() string { return u.At.Namespace + "/" + u.At.Service }

// about returns the subject of a finding about usher.
func (u Usher) about() subject { return subject{entry: entry{home: u}} }

// apply returns the command that restores usher's registration.
func (u Usher) apply() string { return u.Apply + " --service " + review.Word(u.service()) }

// restoring returns the command of apply, or "" if it is not known what usher needs.
func (u Usher) restoring() string {
	if u.Unknown != nil {
		return ""
	}
	return u.apply()
}

// gatesFlag returns the feature gates as a flag.
func (u Usher) gatesFlag() string {
	if u.Gates == "" {
		return ""
	}
	return " --feature-gates " + review.Word(u.Gates)
}

// webhookProblems returns what is wrong with a webhook of usher, beside what may be wrong with any.
func (u Usher) webhookProblems(w entry, namespaces []corev1.Namespace) (found []review.Finding) {
	if !w.ushers() || len(u.Paths) == 0 {
		return nil
	}
	path, served := w.ushersPath(u.Paths)
	if !served {
		like := "`usher steps` lists those that it serves."
		if best := nearest.Of(path, u.Paths); best != "" {
			like = "Did you mean " + best + "?"
		}
		return []review.Finding{problem("usher-path-unknown", u.about(), "usher does not serve the path %s: each call ends with HTTP 404. "+
			"%s %s",
			path, w.consequence(), like)}
	}
	if expected := webhooks.PathOf(w.Name); path != expected {
		return []review.Finding{problem("usher-path-differs", u.about(), "the registered path is %s, and that of this webhook is %s: "+
			"requests get the steps of another route, and those of %[2]s never run.", path, expected)}
	}
	if u.Unknown != nil {
		return nil // what usher needs is not known
	}
	if w.needed == nil {
		return []review.Finding{problem("usher-registration-differs", u.about(), "usher does not need this webhook with its policy and feature "+
			"gates: it is called for nothing. %s", otherFlags)}
	}
	if lacks := webhooks.Lacks(*w.needed, w.Hook); len(lacks) > 0 {
		found = append(found, problem("usher-registration-differs", u.about(), "the registration is not what usher needs for its policy and "+
			"feature gates: %s. %s",
			strings.Join(lacks, "; "), otherFlags))
	}
	if added := webhooks.Additions(*w.needed, w.Hook); len(added) > 0 {
		found = append(found, w.narrowed(added, namespaces)...)
	}
	return found
}

// narrowed returns the findings for a registration to which something was added that leaves out more than usher does. It is a warning if
// authors of objects can decide what is left out, or if users who may do nearly everything or three quarters of the namespaces are.
func (w entry) narrowed(added []string, namespaces []corev1.Namespace) (found []review.Finding) {
	const leaves = "what was added to the registration leaves out more than usher does: %s. What is left out is neither checked nor changed."
	about, then, severe, mild := w.about(), []string(nil), []string(nil), []string(nil)
	left, reasons := w.withoutOthers(added)
	taken, all := w.takesIn(namespaces)
	for _, what := range added {
		field, rest, _ := strings.Cut(what, " ")
		name, _, _ := strings.Cut(rest, ":")
		change := change{field: field}
		switch {
		case field == "objectSelector" && w.forNamespaced():
			change.value, then = w.neededObjects(), append(then, byAuthors)
		case field == "matchConditions" && reasons[name] != "":
			change.value, then = left, append(then, reasons[name])
		case field == "namespaceSelector" && all > 0 && taken*4 <= all:
			change.value = w.neededNamespaces()
			what += fmt.Sprintf(", which %d of the %d namespaces meet", taken, all)
		default:
			mild = append(mild, what)
			continue
		}
		severe, about.changes = append(severe, what), withChange(about.changes, change)
	}
	if len(severe) > 0 {
		found = append(found, problem("usher-leaves-out", about, leaves+"%s", strings.Join(severe, "; "), strings.Join(once(then), "")))
	}
	if len(mild) > 0 {
		found = append(found, milder(problem("usher-leaves-out", w.about(), leaves, strings.Join(mild, "; ")), review.Info))
	}
	return found
}

// neededNamespaces returns the namespaceSelector that usher needs, with the namespaces that are left out by name.
func (w entry) neededNamespaces() *metav1.LabelSelector {
	names := namesLeftOut(w.NamespaceSelector)
	switch {
	case len(names) > 0:
		return without(w.needed.NamespaceSelector, names)
	case w.needed.NamespaceSelector == nil:
		return &metav1.LabelSelector{}
	}
	return w.needed.NamespaceSelector
}

// forNamespaced reports whether the webhook is for objects in namespaces, which many people may write.
func (w entry) forNamespaced() bool {
	namespaced, _ := scopes(w.Rules, resources.BuiltIn())
	return namespaced
}

// written matches where an expression reads what the author of a request writes.
var written = regexp.MustCompile(`\b((object|oldObject)\b|request\.(name|options)\b)`)

// byAuthors is why it matters that something is asked of what the author of a request writes.
const byAuthors = " Whoever writes an object can decide whether usher sees it."

// withoutOthers returns the match conditions without those of the additions that matter, and why these do, by name: they read what the
// author of a request writes, or leave out users who may do nearly everything.
func (w entry) withoutOthers(additions []string) (left []registration.MatchCondition, reasons map[string]string) {
	left, reasons = []registration.MatchCondition{}, map[string]string{}
	for _, c := range w.MatchConditions {
		text := strings.ReplaceAll(c.Expression, "object.metadata.namespace", "") // which a right is needed for
		added := c.Name != "not-excluded-pods" && slices.ContainsFunc(additions, func(what string) bool { return strings.HasPrefix(what, "matchConditions "+c.Name+": ") })
		switch users := webhookmatch.LeavesOut(c, w.Rules); {
		case added && w.forNamespaced() && written.MatchString(text):
			reasons[c.Name] = byAuthors
		case added && len(users) > 0:
			reasons[c.Name] = fmt.Sprintf(" It leaves out %s.", review.List(users))
		default:
			left = append(left, c)
		}
	}
	return left, reasons
}

// takesIn returns for how many namespaces the webhook is called, of those that usher needs it for.
func (w entry) takesIn(namespaces []corev1.Namespace) (taken, all int) {
	needed, is := selector.Of(w.needed.NamespaceSelector), selector.Of(w.NamespaceSelector)
	for _, n := range namespaces {
		if needed.Matches(n.Labels) {
			if all++; is.Matches(n.Labels) {
				taken++
			}
		}
	}
	return taken, all
}

// neededFor returns how a webhook of usher should be registered; nil if it should not be, or is not usher's.
func neededFor(w entry, needed []webhooks.Hook) *webhooks.Hook {
	i := slices.IndexFunc(needed, func(n webhooks.Hook) bool { return n.Name == w.Name })
	if i < 0 || !w.ushers() {
		return nil
	}
	return &needed[i]
}

const otherFlags = "If usher runs with others than its Deployment has, pass them: --config, --feature-gates, --suite."

// neededBy returns the webhooks that usher should be registered with, beside those that are.
func (u Usher) neededBy(registered []entry) []webhooks.Hook {
	var all []webhooks.Hook
	for _, w := range registered {
		if w.ushers() {
			all = append(all, w.Hook)
		}
	}
	if len(all) == 0 || u.Needed == nil {
		return nil
	}
	return u.Needed(webhooks.NamesOf(all))
}

// problems returns what is wrong with usher's registration as a whole. rights are the findings about its rights.
func (u Usher) problems(f *snapshot, needed []webhooks.Hook, rights []review.Finding) (found []review.Finding) {
	if u.Unusable != nil {
		found = append(found, problem("usher-policy-unusable", u.about(), "%v. No replica can start with it; those that run keep the policy "+
			"that they have.", u.Unusable))
	}
	if !slices.ContainsFunc(f.webhooks, entry.ushers) {
		return found
	}
	if u.Unknown != nil && u.Assumed != "" {
		found = append(found, milder(problem("usher-registration-differs", u.about(), "not judged: %v.", u.Unknown), review.Unknown))
	} else if u.Unknown != nil {
		found = append(found, unreadFinding(u.Unknown, "what usher should be registered for"))
	} else {
		found = append(found, u.missing(f.webhooks, needed)...)
	}
	return slices.Concat(found, koordinatorProblems(f.webhooks), rights, f.revivedProblems())
}

// missing returns the finding for webhooks of usher that are not registered.
func (u Usher) missing(registered []entry, needed []webhooks.Hook) []review.Finding {
	var names []string
	for _, n := range needed {
		if !slices.ContainsFunc(registered, func(w entry) bool { return w.ushers() && w.Name == n.Name }) {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []review.Finding{problem("usher-not-registered", u.about(), "the API server does not know %s, which usher's policy needs: nothing is "+
		"checked or changed there. %s", review.List(names), otherFlags)}
}

// koordinatorProblems returns the finding for webhooks of Koordinator that are registered for what usher's do.
func koordinatorProblems(all []entry) []review.Finding {
	for _, w := range all {
		if !koordinators(w) {
			continue
		}
		for _, other := range all {
			if shared := sharedResource(w, other); other.ushers() && shared != "" {
				return []review.Finding{problem("koordinator-beside-usher", w.about(), "%s %s is registered for %s, as %s of usher is: both do the "+
					"same, and two on one object compound. Switch Koordinator's off, too: its gate "+
					"WebhookFramework=false.", w.kind, w.configuration.Name, shared, other.Name)}
			}
		}
	}
	return nil
}

// sharedResource returns a resource that both webhooks are for, or "".
func sharedResource(a, b entry) string {
	for _, rule := range a.Rules {
		for _, name := range rule.Resources {
			for _, group := range rule.APIGroups {
				for _, operation := range rule.Operations {
					if covers(b.Rules, operation, group, name) {
						return name
					}
				}
			}
		}
	}
	return ""
}

// rightsProblems asks the API server which of usher's rights are missing.
func (u Usher) rightsProblems(ctx context.Context, source reader.Source) []review.Finding {
	if !source.Live() {
		return nil
	}
	watching, err := u.missingRights(ctx, source, u.Watching)
	writing, err2 := u.missingRights(ctx, source, u.Writing)
	if err := errors.Join(err, err2); err != nil {
		return []review.Finding{unreadFinding(err, "the rights of usher")}
	}
	missing := slices.Concat(watching, writing)
	if len(missing) == 0 {
		return nil
	}
	about := u.about()
	about.watching, about.writing = len(watching) > 0, len(writing) > 0
	return []review.Finding{problem("usher-rights-missing", about, "%s may not: %s. usher needs that, as its Deployment %s runs it.",
		u.At.User, strings.Join(missing, "; "), u.service())}
}

// missingRights returns which of some rights a user lacks.
func (u Usher) missingRights(ctx context.Context, source reader.Source, rules []rbacv1.PolicyRule) (missing []string, err error) {
	var reviews []authorizationv1.SubjectAccessReview
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, attributes := range attributesOf(rule, verb, u.At.Namespace) {
				reviews = append(reviews, u.access(attributes))
			}
		}
	}
	answers := make([]authorizationv1.SubjectAccessReview, len(reviews))
	errs := make([]error, len(reviews))
	var calls []func()
	for i := range reviews {
		calls = append(calls, func() {
			answers[i], errs[i] = reader.One[authorizationv1.SubjectAccessReview](
				source.Ask(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", reviews[i]))
		})
	}
	reader.InParallel(calls...)
	var denied []authorizationv1.ResourceAttributes
	for i, answer := range answers {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if !answer.Status.Allowed {
			denied = append(denied, *reviews[i].Spec.ResourceAttributes)
		}
	}
	return attributesTexts(denied), nil
}

// access returns the question whether usher may do something.
func (u Usher) access(attributes authorizationv1.ResourceAttributes) authorizationv1.SubjectAccessReview {
	groups := []string{"system:authenticated"}
	if account, is := strings.CutPrefix(u.At.User, "system:serviceaccount:"); is {
		namespace, _, _ := strings.Cut(account, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	a := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &attributes, User: u.At.User,
		Groups: groups}}
	a.APIVersion, a.Kind = authorizationv1.SchemeGroupVersion.String(), "SubjectAccessReview"
	return a
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
		resource := strings.TrimSpace(a.Resource + " " + a.Name)
		if a.Subresource != "" {
			resource = strings.Replace(resource, a.Resource, a.Resource+"/"+a.Subresource, 1)
		}
		if a.Group != "" {
			resource = strings.Replace(resource, a.Resource, a.Resource+"."+a.Group, 1)
		}
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
