package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/apiserver"
	"usher.dev/usher/handlers"
)

// Field managers: of everything but the caBundle, and of the caBundle, which `usher serve --certs=managed` keeps
// current.
const (
	manager       = "usher-webhooks"
	bundleManager = "usher-ca-bundle"
)

// Registrar registers routes at one API server. It changes nothing that others have set, except with Force.
type Registrar struct {
	Client apiserver.Client
	Routes []handlers.Route
	At     Address
	Force  bool // take over the fields that others have set
}

// Plan is what registering would change.
type Plan struct {
	Changes []string // one a line; none: there is nothing to do
	Left    []string // what others have set in another way, and what stays so
	parts   []part
}

// part is the plan for one configuration.
type part struct {
	registered configuration // with an empty name if there is none
	apply      configuration
	stale      []string // entries that are no longer needed
	adopt      bool     // kubectl's fields of usher's entries become usher's
}

// Plan compares what is registered with what is needed. The API server works out the result, by a dry run.
func (r Registrar) Plan(ctx context.Context) (Plan, error) {
	registered, err := r.registered(ctx)
	if err != nil {
		return Plan{}, err
	}
	bundle, err := r.bundle(ctx, registered)
	if err != nil {
		return Plan{}, err
	}
	var plan Plan
	for i, wanted := range needed(r.Routes, r.At) {
		is := registered[i]
		if is.Name == "" && len(wanted.Webhooks) == 0 {
			continue
		}
		r.fit(&wanted, is, bundle)
		next := part{registered: is, apply: wanted, stale: is.stale(wanted), adopt: is.byKubectl()}
		after, left, err := r.try(ctx, &next)
		if err != nil {
			return Plan{}, err
		}
		plan.Changes = append(plan.Changes, changes(is, after, next.stale)...)
		plan.Left = append(plan.Left, left...)
		plan.parts = append(plan.parts, next)
	}
	return plan, nil
}

// registered returns the configurations of the API server, in the order of needed; one that does not exist is empty.
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

// bundle returns the caBundle for entries: from the flag, else from the Secret with the serving certificate, else that
// of an entry that exists; nil if there is none yet.
func (r Registrar) bundle(ctx context.Context, registered []configuration) ([]byte, error) {
	if len(r.At.CABundle) > 0 {
		return r.At.CABundle, nil
	}
	raw, err := r.Client.Get(ctx, "/api/v1/namespaces/"+r.At.Namespace+"/secrets/"+tlsSecret)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
	case err != nil:
		return nil, err
	default:
		var secret corev1.Secret
		if err := json.Unmarshal(raw, &secret); err != nil {
			return nil, fmt.Errorf("the Secret %s/%s: %w", r.At.Namespace, tlsSecret, err)
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
	raw, err := r.Client.DryApply(ctx, p.apply.path(), manager, r.Force, p.apply.text())
	if conflicts, ok := conflictsOf(err); ok {
		left = p.apply.yield(p.registered, conflicts)
		raw, err = r.Client.DryApply(ctx, p.apply.path(), manager, true, p.apply.text())
	}
	if err != nil {
		return after, nil, changed409(err)
	}
	after, err = readConfiguration(raw)
	return after, left, err
}

// byKubectl reports whether kubectl registered the entries, and `usher webhooks apply` never did.
func (c configuration) byKubectl() bool {
	by := func(name string, operation metav1.ManagedFieldsOperationType) bool {
		return slices.ContainsFunc(c.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == name && f.Operation == operation })
	}
	return by(kubectlApply, metav1.ManagedFieldsOperationUpdate) && !by(manager, metav1.ManagedFieldsOperationApply)
}

// ErrChanged is returned if a configuration has changed since it was read.
var ErrChanged = errors.New("the registration was changed at the same time")

// Apply carries out a plan. For entries that have no caBundle yet and wait for another controller to fill it in, it
// registers failurePolicy Ignore first, until they have one.
func (r Registrar) Apply(ctx context.Context, plan Plan, wait time.Duration, say func(string)) error {
	waiting := false
	for _, p := range plan.parts {
		open, unbundled := p.apply.openFailing()
		if unbundled && len(r.At.Annotations) == 0 {
			return fmt.Errorf("no caBundle: the Secret %s/%s has no ca.crt that can be read; "+
				"pass --ca-file, or --inject if a controller fills it in", r.At.Namespace, tlsSecret)
		}
		if unbundled {
			waiting, p.apply = true, open
		}
		if err := r.carryOut(ctx, p); err != nil {
			return err
		}
	}
	if !waiting {
		return nil
	}
	say("registered with failurePolicy Ignore until the caBundle is filled in")
	if err := r.awaitBundles(ctx, wait); err != nil {
		return err
	}
	next, err := r.Plan(ctx)
	if err != nil {
		return err
	}
	return r.Apply(ctx, next, wait, say)
}

// carryOut applies one part. Server-side apply removes only what usher applied before, so entries that were registered
// in another way are removed first.
func (r Registrar) carryOut(ctx context.Context, p part) error {
	if p.adopt || p.leftovers() {
		tidied, err := r.tidy(ctx, p)
		if err != nil {
			return err
		}
		p.apply.ResourceVersion = tidied.ResourceVersion
	}
	_, err := r.Client.Apply(ctx, p.apply.path(), manager, true, p.apply.text())
	return changed409(err)
}

// leftovers reports whether server-side apply would leave entries that are no longer needed.
func (p part) leftovers() bool { return len(p.stale) > 0 }

// tidy removes the entries that are no longer needed, and makes usher the owner of what kubectl applied for it.
func (r Registrar) tidy(ctx context.Context, p part) (configuration, error) {
	raw, err := r.Client.Get(ctx, p.apply.path())
	if err != nil {
		return configuration{}, err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return configuration{}, err
	}
	metadata, _ := object["metadata"].(map[string]any)
	metadata["resourceVersion"] = p.registered.ResourceVersion
	entries, _ := object["webhooks"].([]any)
	object["webhooks"] = slices.DeleteFunc(entries, func(e any) bool {
		entry, _ := e.(map[string]any)
		name, _ := entry["name"].(string)
		return slices.Contains(p.stale, name)
	})
	if p.adopt {
		adopt(metadata)
	}
	text, err := json.Marshal(object)
	if err != nil {
		return configuration{}, err
	}
	if raw, err = r.Client.Update(ctx, p.apply.path(), manager, text); err != nil {
		return configuration{}, changed409(err)
	}
	return readConfiguration(raw)
}

// awaitBundles waits until every entry of a Service has a caBundle.
func (r Registrar) awaitBundles(ctx context.Context, wait time.Duration) error {
	return until(ctx, wait, func() (string, error) {
		registered, err := r.registered(ctx)
		if err != nil {
			return "", err
		}
		for _, c := range registered {
			if _, unbundled := c.openFailing(); unbundled {
				return "the caBundle is not filled in yet", nil
			}
		}
		return "", nil
	}, nil)
}

// changed409 returns ErrChanged for a conflict with another writer.
func changed409(err error) error {
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return explained(err)
}

// explained adds to a refusal by RBAC, or to one of the result, what to do about it.
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

// Others returns the names of entries that are not usher's, which Remove deletes, too.
func Others(ctx context.Context, client apiserver.Client) (names []string, err error) {
	registered, err := Registrar{Client: client}.registered(ctx)
	for _, c := range registered {
		names = append(names, c.others()...)
	}
	return names, err
}

// Remove deletes both configurations, also if it fails for one, and returns the kinds of those that were there.
func Remove(ctx context.Context, client apiserver.Client) (gone []string, err error) {
	for _, c := range needed(nil, Address{}) {
		switch failed := client.Delete(ctx, c.path()); {
		case apierrors.IsNotFound(failed):
		case apierrors.IsForbidden(failed):
			err = errors.Join(err, fmt.Errorf("%w; this takes the verb delete, which no service account of usher has: run it as an administrator", failed))
		case failed != nil:
			err = errors.Join(err, failed)
		default:
			gone = append(gone, c.Kind)
		}
	}
	return gone, err
}
