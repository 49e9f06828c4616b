package rotation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/certs"
	"usher.dev/usher/internal/apiserver"
)

// Rotation is a request for a new certificate, which the replicas fulfil.
type Rotation struct {
	Client apiserver.Client
	Target Target

	CA       bool // a new CA too
	Distrust bool // the old CA is no longer trusted as soon as all replicas use the new one

	oldCA, oldLeaf string // serial numbers
}

// Request asks for a new certificate: it notes on the Secrets which one is to be replaced. Asking again before it is
// replaced changes nothing.
func (r *Rotation) Request(ctx context.Context) error {
	ca, leaf, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.oldCA, r.oldLeaf = Serial(ca.Data[activeCert]), Serial(leaf.Data[certs.CertFile])
	if r.oldCA == "" || r.oldLeaf == "" {
		return fmt.Errorf("the Secrets %s and %s of namespace %s hold no certificate yet: is usher running with --certs=managed? "+
			"/readyz of its pods says what is missing", CASecret, TLSSecret, r.Target.Namespace)
	}
	if !r.CA {
		return r.annotate(ctx, leaf, map[string]string{replaceAnnotation: r.oldLeaf})
	}
	wanted := map[string]string{replaceAnnotation: r.oldCA}
	if r.Distrust {
		wanted[distrustAnnotation] = r.oldCA
	}
	return r.annotate(ctx, ca, wanted)
}

func (r *Rotation) read(ctx context.Context) (ca, leaf corev1.Secret, err error) {
	for _, secret := range []struct {
		name string
		into *corev1.Secret
	}{{CASecret, &ca}, {TLSSecret, &leaf}} {
		text, err := r.Client.Get(ctx, secretPath(r.Target.Namespace, secret.name))
		if apierrors.IsNotFound(err) {
			return ca, leaf, fmt.Errorf("there is no Secret %s in namespace %s: usher serves without --certs=managed, or elsewhere: "+
				"pass --service namespace/name", secret.name, r.Target.Namespace)
		}
		if err == nil {
			err = json.Unmarshal(text, secret.into)
		}
		if err != nil {
			return ca, leaf, fmt.Errorf("read the Secret %s/%s: %w", r.Target.Namespace, secret.name, err)
		}
	}
	return ca, leaf, nil
}

// annotate sets annotations at the version that was read.
func (r *Rotation) annotate(ctx context.Context, secret corev1.Secret, wanted map[string]string) error {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
		"name": secret.Name, "namespace": secret.Namespace, "resourceVersion": secret.ResourceVersion, "annotations": wanted}})
	if err != nil {
		return err
	}
	_, err = r.Client.Apply(ctx, secretPath(secret.Namespace, secret.Name), "usher-certs-rotate", true, text)
	if apierrors.IsConflict(err) {
		return errors.New("the Secret was changed at the same time: run the command again")
	}
	return err
}

// Follow says each stage as it is reached, and returns when the new certificate is in use.
func (r *Rotation) Follow(ctx context.Context, say func(string)) error {
	said := map[string]bool{}
	last := "nothing: no replica has acted yet; is usher running with --certs=managed?"
	var problem error
	for {
		stages, done, err := r.stages(ctx)
		for _, stage := range stages {
			if !said[stage] {
				said[stage], last = true, stage
				say(stage)
			}
		}
		if err == nil && done {
			return nil
		}
		if ctx.Err() == nil {
			problem = err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			if problem != nil {
				return fmt.Errorf("not finished in time: %w", problem)
			}
			return fmt.Errorf("not finished in time; the last stage was: %s; usher's log says what is missing, and the same command follows on", last)
		}
	}
}

// stages returns what was reached, in order, and whether that is all.
func (r *Rotation) stages(ctx context.Context) (reached []string, done bool, err error) {
	ca, leaf, err := r.read(ctx)
	if err != nil {
		return nil, false, err
	}
	state := decode(stored{secret: ca}, stored{secret: leaf})
	ended := func(cert []byte) string { return parse(cert).NotAfter.UTC().Format(time.RFC3339) }
	signing := Serial(state.Active.Cert)
	if r.CA {
		next := state.Next.Cert
		if signing != r.oldCA {
			next = state.Active.Cert
		}
		if parse(next) == nil {
			return nil, false, nil
		}
		reached = append(reached, fmt.Sprintf("new CA %s, valid until %s", Serial(next), ended(next)))
		trusted, all, err := r.trusting(ctx, next)
		if err != nil {
			return reached, false, err
		}
		reached = append(reached, fmt.Sprintf("trusted by %d of %d webhooks", trusted, all))
		if signing == r.oldCA {
			return reached, false, nil
		}
		reached = append(reached, "the new CA signs")
	}
	if serial := Serial(state.Leaf.Cert); serial == r.oldLeaf || serial == "" || r.CA && !signed(parse(state.Active.Cert), parse(state.Leaf.Cert)) {
		return reached, false, nil
	}
	reached = append(reached, fmt.Sprintf("new certificate %s, valid until %s: every replica serves it within %s", Serial(state.Leaf.Cert),
		ended(state.Leaf.Cert), PaceFor(time.Hour).Every))
	old, done := r.retired(state)
	return append(reached, old...), done, nil
}

// retired returns what is known of the CA that was replaced.
func (r *Rotation) retired(s State) (reached []string, done bool) {
	if !r.CA {
		return nil, true
	}
	for _, a := range s.Retired {
		if a.serial() == r.oldCA {
			return []string{fmt.Sprintf("the old CA %s stays trusted until %s", r.oldCA, a.until().UTC().Format(time.RFC3339))}, !r.Distrust
		}
	}
	return []string{fmt.Sprintf("the old CA %s is no longer trusted", r.oldCA)}, true
}

// trusting returns how many of the webhooks that call the Service trust a CA.
func (r *Rotation) trusting(ctx context.Context, ca []byte) (trusted, all int, err error) {
	configurations, err := readConfigurations(ctx, r.Client, r.Target)
	for _, c := range configurations {
		for _, bundle := range c.bundles() {
			all++
			for _, cert := range parseAll(bundle) {
				if cert.Equal(parse(ca)) {
					trusted++
				}
			}
		}
	}
	return trusted, all, err
}
