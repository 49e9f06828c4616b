package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/certs/rotation"
)

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
				"pass --ca-file, or --inject if a controller fills it in", r.At.Namespace, rotation.TLSSecret)
		}
		if unbundled {
			waiting, p.apply, p.leave = true, open, nil
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
	if p.adopt || len(p.stale) > 0 {
		tidied, err := r.tidy(ctx, p)
		if err != nil {
			return err
		}
		p.apply.ResourceVersion = tidied.ResourceVersion
	}
	_, err := r.Client.Apply(ctx, p.apply.path(), manager, true, p.apply.text(p.leave))
	return changed409(err)
}

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
