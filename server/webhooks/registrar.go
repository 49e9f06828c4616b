package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/internal/apiserver"
)

// manager is the field manager of everything but the caBundle, which rotation.BundleManager keeps current.
const manager = "usher-webhooks"

// Registrar registers routes at one API server. It changes nothing that others have set, except with Force.
type Registrar struct {
	Client apiserver.Client
	Routes []admit.Route
	At     Address
	Force  bool // take over the fields that others have set, and the registration of another Service

	asInstalled bool                              // see AsInstalled
	home        *registration.WebhookClientConfig // what entries that call another server are to call; nil: they stay
	saved       []configuration                   // how usher was registered, where an entry is missing; nil if that is not known
}

// Plan lists what registering would change.
type Plan struct {
	Changes []string // one a line; none: there is nothing to do
	Left    []string // what others have set in another way, and what stays so
	Kept    []string // what others added to selectors and conditions: it leaves out more requests than usher does, and stays
	parts   []part
}

// part is the plan for one configuration.
type part struct {
	registered configuration // with an empty name if there is none
	apply      configuration
	stale      []string  // entries that are no longer needed
	leave      []written // what stays others'
	adopt      bool      // kubectl's fields of usher's entries become usher's
}

// Plan compares what is registered with what is needed. The API server works out the result, by a dry run.
func (r Registrar) Plan(ctx context.Context) (Plan, error) {
	registered, err := r.registered(ctx)
	if err != nil {
		return Plan{}, err
	}
	known := r.known(registered)
	bundle, err := r.bundle(ctx, known)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	unchosen := r.At
	unchosen.Excluded, unchosen.ExcludedPods, unchosen.SkipKubelets = nil, nil, false
	bare, chosen := needed(r.Routes, unchosen), needed(r.Routes, r.At)
	for i, wanted := range needed(r.Routes, r.At) {
		is := registered[i]
		if is.Name == "" && len(wanted.Webhooks) == 0 {
			continue
		}
		if other := is.elsewhere(r.At); other != "" && !r.Force {
			return Plan{}, fmt.Errorf("%s %s calls the Service %s, of another usher, and not %s/%s: to register this one in its place, "+
				"pass --force-conflicts; to unregister the other one: usher webhooks remove", is.Kind, is.Name, other, r.At.Namespace, r.At.Service)
		}
		if r.fit(&wanted, known[i], bundle); r.asInstalled {
			r.restore(&wanted, bare[i], known[i])
		}
		next := part{registered: is, apply: wanted, stale: is.stale(wanted), adopt: is.byKubectl()}
		after, left, err := r.try(ctx, &next)
		if err != nil {
			return Plan{}, err
		}
		plan.Changes = append(plan.Changes, changes(is, after, next.stale)...)
		plan.Changes = append(plan.Changes, r.takenOver(next)...)
		plan.Left = append(plan.Left, left...)
		plan.Kept = append(plan.Kept, kept(chosen[i], after)...)
		plan.parts = append(plan.parts, next)
	}
	return plan, nil
}

// kept returns, one a line, what was added to entries and leaves out more requests than usher needs, with the manager that set it.
func kept(wanted, is configuration) (lines []string) {
	for _, w := range wanted.Webhooks {
		entry := is.entry(w.Name)
		if entry == nil {
			continue
		}
		wrote := is.writersOf(w.Name)
		for _, what := range Additions(w, *entry) {
			field, rest, _ := strings.Cut(what, " ")
			if name, _, _ := strings.Cut(rest, ":"); field == "matchConditions" {
				field += "/" + name
			}
			by := ""
			if who := wrote.changedBy(field); who != "" {
				by = fmt.Sprintf(", as %q has set it", who)
			}
			lines = append(lines, fmt.Sprintf("%s: stays%s, and leaves out more than usher does: %s", w.Name, by, what))
		}
	}
	return lines
}

// registered returns the configurations of the API server, in the order of needed; a missing configuration is empty.
func (r Registrar) registered(ctx context.Context) (all []configuration, err error) {
	for _, c := range needed(nil, r.At) {
		raw, err := r.Client.Get(ctx, c.path())
		if apierrors.IsNotFound(err) {
			all = append(all, configuration{})
			continue
		}
		if err != nil {
			return nil, err
		}
		is, err := readConfiguration(raw)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
		all = append(all, is)
	}
	return all, nil
}

// known returns what is registered, and what was where that is missing.
func (r Registrar) known(registered []configuration) []configuration {
	known := slices.Clone(registered)
	for i, saved := range r.saved {
		known[i] = known[i].with(saved)
	}
	return known
}

// bundle returns the caBundle for entries: from the flag, else from the Secret with the serving certificate, else from
// an existing entry; nil if there is none yet.
func (r Registrar) bundle(ctx context.Context, registered []configuration) ([]byte, error) {
	if len(r.At.CABundle) > 0 {
		return r.At.CABundle, nil
	}
	raw, err := r.Client.Get(ctx, "/api/v1/namespaces/"+r.At.Namespace+"/secrets/"+rotation.TLSSecret)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
	case err != nil:
		return nil, err
	default:
		var secret corev1.Secret
		if err := json.Unmarshal(raw, &secret); err != nil {
			return nil, fmt.Errorf("the Secret %s/%s: %w", r.At.Namespace, rotation.TLSSecret, err)
		}
		if bundle := secret.Data["ca.crt"]; checkBundle(bundle) == nil {
			return bundle, nil
		}
	}
	for _, c := range registered {
		if bundle := c.bundle(); bundle != nil {
			return bundle, nil
		}
	}
	return nil, nil
}

// fit completes what is wanted by what is registered: the caBundle, the parts of selectors that others added, and the
// version that a change is for. A caBundle that another controller fills in stays.
func (r Registrar) fit(wanted *configuration, is configuration, bundle []byte) {
	injected := len(r.At.Annotations) > 0 && len(r.At.CABundle) == 0
	wanted.ResourceVersion = is.ResourceVersion
	for i := range wanted.Webhooks {
		w := &wanted.Webhooks[i]
		w.ClientConfig.CABundle = bundle
		if was := is.entry(w.Name); was != nil {
			if injected && len(was.ClientConfig.CABundle) > 0 {
				w.ClientConfig.CABundle = was.ClientConfig.CABundle
			}
			w.NamespaceSelector = withOthers(w.NamespaceSelector, was.NamespaceSelector)
			w.ObjectSelector = withOthers(w.ObjectSelector, was.ObjectSelector)
		}
	}
}

// try applies a part as a dry run. What is in conflict with others is set to what they have set, unless Force is set.
func (r Registrar) try(ctx context.Context, p *part) (after configuration, left []string, err error) {
	p.leave = r.leftTo(p)
	raw, err := r.Client.DryApply(ctx, p.apply.path(), manager, r.Force, p.apply.text(p.leave))
	if conflicts, ok := conflictsOf(err); ok {
		left = p.apply.yield(p.registered, conflicts)
		p.leave = r.leftTo(p)
		raw, err = r.Client.DryApply(ctx, p.apply.path(), manager, true, p.apply.text(p.leave))
	}
	if err != nil {
		return after, nil, changed409(err)
	}
	after, err = readConfiguration(raw)
	return after, left, err
}

// leftTo returns what an apply leaves to others who have written it since the registration, also if it has the value that usher
// needs: if it became usher's, nobody would hear of the change any longer. What kubectl registered is not others'.
func (r Registrar) leftTo(p *part) []written {
	if r.Force && !r.asInstalled || p.adopt {
		return nil
	}
	return theirs(p.apply, p.registered)
}

// takenOver returns, one a line, what becomes usher's with Force although its value stays.
func (r Registrar) takenOver(p part) (lines []string) {
	if !r.Force || r.asInstalled {
		return nil
	}
	for _, one := range theirs(p.apply, p.registered) {
		lines = append(lines, fmt.Sprintf("~ %s: %s: stays as %q has set it, and counts as chosen", one.entry, one.field, one.by))
	}
	return lines
}

// byKubectl reports whether kubectl registered the entries, and `usher webhooks apply` never did.
func (c configuration) byKubectl() bool {
	by := func(name string, operation metav1.ManagedFieldsOperationType) bool {
		return slices.ContainsFunc(c.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == name && f.Operation == operation })
	}
	return by(kubectlApply, metav1.ManagedFieldsOperationUpdate) && !by(manager, metav1.ManagedFieldsOperationApply)
}

// explained adds to a refusal by RBAC, or of the result, what to do about it.
func explained(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the rights for this are in deploy/components/registration", err)
	}
	if apierrors.IsInvalid(err) { // such as an entry with both a URL and a Service, because kubectl registered the other one
		return fmt.Errorf("%w; if this comes from what is registered, such as a URL in place of a Service, "+
			"run usher webhooks remove first", err)
	}
	return err
}
