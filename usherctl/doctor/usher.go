package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/live"
	"usher.dev/usher/usherctl/report"
)

// Usher describes what usher serves, and how it should be registered.
type Usher struct {
	At    webhooks.Address
	Paths []string // that it serves
	// Needed returns the webhooks that it should be registered with, given the names of those that are.
	Needed func(registered []string) []webhooks.Hook
	// Watching are the rights that it needs to watch the cluster, and Writing those to keep its certificates.
	Watching, Writing []rbacv1.PolicyRule
	Deployed          installed.Usher // how its Deployment runs it
	// Unknown is the reason why usher may be run differently, or nil. Assumed says why the policy is only assumed; "": usher runs with it. A
	// registration that is not what an assumed policy needs makes the rest Unknown, see settled.
	Unknown error
	Assumed string
	// Unusable is the reason why usher cannot load its policy, or its gates, or nil.
	Unusable error
	// Idle reports whether no step has anything to do, given the names of the webhooks that are registered.
	Idle func(registered []string) bool
	// Running compares what runs behind the Service with what Needed and Idle stand for.
	Running func(context.Context) (live.Running, error)
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
	if differing = append(differing, notRegistered(needed, registered)...); len(differing) > 0 {
		u.Unknown = fmt.Errorf("%s, and the registration is that of another policy (%s); pass the policy that usher runs with: --config FILE", u.Assumed,
			report.List(once(differing)))
	}
	return u
}

// service returns the Service as namespace/name.
func (u Usher) service() string { return u.At.Namespace + "/" + u.At.Service }

// about returns the subject of a finding about usher.
func (u Usher) about() subject { return subject{entry: entry{home: u}} }

// apply returns the command that restores usher's registration.
func (u Usher) apply() string { return u.Apply + " --service " + report.Word(u.service()) }

// restoring returns the command of apply, or "" if it is not known what usher needs.
func (u Usher) restoring() string {
	if u.Unknown != nil {
		return ""
	}
	return u.apply()
}

// webhookProblems returns what is wrong with a webhook of usher, beside what may be wrong with any.
func (u Usher) webhookProblems(w entry, namespaces []corev1.Namespace) (found []report.Finding) {
	if !w.ushers() || len(u.Paths) == 0 {
		return nil
	}
	path, served := w.ushersPath(u.Paths)
	if !served {
		like := "`usherctl steps` lists those that it serves."
		if best := nearest.Of(path, u.Paths); best != "" {
			like = "Did you mean " + best + "?"
		}
		return []report.Finding{problem("usher-path-unknown", u.about(), "usher does not serve the path %s: each call ends with HTTP 404. "+
			"%s %s",
			path, w.consequence(), like)}
	}
	if expected := webhooks.PathOf(w.Name); path != expected {
		return []report.Finding{problem("usher-path-differs", u.about(), "the registered path is %s, and that of this webhook is %s: "+
			"requests get the steps of another route, and those of %[2]s never run.", path, expected)}
	}
	if u.Unknown != nil {
		return nil // what usher needs is not known
	}
	if w.needed == nil {
		return []report.Finding{problem("usher-registration-differs", u.about(), "usher does not need this webhook with its policy and feature "+
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
	if !slices.ContainsFunc(registered, entry.ushers) || u.Needed == nil {
		return nil
	}
	return u.Needed(namesOfUshers(registered))
}

// namesOfUshers returns the names of usher's webhooks by which it is known which suites are registered.
func namesOfUshers(registered []entry) []string {
	var all []webhooks.Hook
	for _, w := range registered {
		if w.ushers() {
			all = append(all, w.Hook)
		}
	}
	return webhooks.NamesOf(all)
}

// notRegistered returns the names of the needed webhooks of usher that are not registered.
func notRegistered(needed []webhooks.Hook, registered []entry) (names []string) {
	for _, n := range needed {
		if !isRegistered(n, registered) {
			names = append(names, n.Name)
		}
	}
	return names
}

// isRegistered reports whether a needed webhook of usher is registered.
func isRegistered(needed webhooks.Hook, registered []entry) bool {
	return slices.ContainsFunc(registered, func(w entry) bool { return w.ushers() && w.Name == needed.Name })
}

// problems returns what is wrong with usher's registration as a whole. rights are the findings about its rights.
func (u Usher) problems(ctx context.Context, f *snapshot, needed []webhooks.Hook, rights []report.Finding) (found []report.Finding) {
	if u.Unusable != nil {
		about, meant := u.about(), u.meant(ctx, f.source)
		about.misspelt = meant != ""
		found = append(found, problem("usher-policy-unusable", about, "%v%s No replica can start with it; those that run keep the policy that they "+
			"have.", u.Unusable, cmp.Or(meant, ".")))
	}
	if !slices.ContainsFunc(f.webhooks, entry.ushers) {
		return found
	}
	switch {
	case u.Unknown == nil:
		found = append(found, u.missing(f.webhooks, needed)...)
	case u.Assumed != "":
		found = append(found, milder(problem("usher-registration-differs", u.about(), "not judged: %v.", u.Unknown), report.Unknown))
	case u.Unusable != nil: // of the same cause
		found[0].Message += " Not looked at: what usher should be registered for."
	default:
		found = append(found, unreadFinding(u.Unknown, "what usher should be registered for"))
	}
	return slices.Concat(found, koordinatorProblems(f.webhooks), rights, f.revived)
}

// meant asks for the ConfigMap with nearly the name of the one that the Deployment names, if that does not exist; "": none is there, or may be read.
func (u Usher) meant(ctx context.Context, source reader.Source) string {
	if !errors.Is(u.Unusable, reader.ErrNotFound) || u.Deployed.ConfigMap == "" {
		return ""
	}
	kind := reader.NewKind("", "v1", "ConfigMap", "configmaps")
	all, err := reader.All[metav1.PartialObjectMetadata](source.List(ctx, kind, u.At.Namespace))
	if err != nil {
		return ""
	}
	var names []string
	for _, o := range all {
		names = append(names, o.Name)
	}
	return nearest.Question(u.Deployed.ConfigMap, names)
}

// missing returns the finding for webhooks of usher that are not registered.
func (u Usher) missing(registered []entry, needed []webhooks.Hook) []report.Finding {
	names := notRegistered(needed, registered)
	if len(names) == 0 {
		return nil
	}
	return []report.Finding{problem("usher-not-registered", u.about(), "the API server does not know %s, which usher's policy needs: nothing is "+
		"checked or changed there. %s", report.List(names), otherFlags)}
}

// koordinatorProblems returns the finding for webhooks of Koordinator that are registered for what usher's do.
func koordinatorProblems(all []entry) []report.Finding {
	for _, w := range all {
		if !koordinators(w) {
			continue
		}
		for _, other := range all {
			if shared := sharedRule(w, other); other.ushers() && shared != "" {
				return []report.Finding{problem("koordinator-beside-usher", w.about(), "%s %s is registered for %s, as %s of usher is: both do the "+
					"same, and two on one object compound. Switch Koordinator's off, too: its gate "+
					"WebhookFramework=false.", w.kind, w.configuration.Name, shared, other.Name)}
			}
		}
	}
	return nil
}

// sharedRule returns an operation on a resource that both webhooks are for, such as "CREATE of pods", or "".
func sharedRule(a, b entry) string {
	for _, rule := range a.Rules {
		for _, name := range rule.Resources {
			for _, group := range rule.APIGroups {
				for _, operation := range rule.Operations {
					if covers(b.Rules, operation, group, name) {
						return string(operation) + " of " + name
					}
				}
			}
		}
	}
	return ""
}
