package certificates

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestTwoWriters: another client rewrites the configuration 1,000 times, as AKS's enforcer and GitOps do, while two
// replicas put the caBundles back. Nothing that the other has written is lost, entries that it adds and removes stay
// so, and usher writes no more often than there is something to put back. Who comes first is not drawn: a seed makes the
// same changes, but not at the same moments.
func TestTwoWriters(t *testing.T) {
	ctx := cluster.Within(t, 5*time.Minute)
	w := &writer{t: t, rnd: kubetest.Random(t), admin: cluster.Admin()}
	original := w.get(ctx)
	began := writes(ctx, t)
	for round := range 1000 {
		w.round(ctx, round)
		time.Sleep(time.Duration(w.rnd.IntN(16)) * time.Millisecond)
	}
	eventually(ctx, t, func() error { return w.complete(ctx) })
	made := writes(ctx, t) - began
	t.Logf("%d damages, %d writes of usher, %d conflicts of the other", w.damages, made, w.conflicts)
	if made > w.damages || made == 0 {
		t.Errorf("%d damages, but usher wrote %d times", w.damages, made)
	}
	for trusted := ""; trusted != trustedCAs(ctx, t); { // a CA that comes or goes is written, too
		trusted = trustedCAs(ctx, t)
		time.Sleep(time.Second)
		made = writes(ctx, t)
		time.Sleep(2 * time.Second)
		if now := writes(ctx, t); now != made && trusted == trustedCAs(ctx, t) {
			t.Errorf("usher wrote %d times when nobody else did", now-made)
		}
	}
	w.put(ctx, original)
	healthy(ctx, t)
}

// trustedCAs returns the CAs that the caBundles should have.
func trustedCAs(ctx context.Context, t *testing.T) string {
	t.Helper()
	secret, err := cluster.Admin().Get(ctx, secrets+"usher-tls")
	if err != nil {
		t.Fatal(err)
	}
	return secret.String("data", "ca.crt")
}

// writer is the other client.
type writer struct {
	t                  *testing.T
	rnd                *rand.Rand
	admin              *kubetest.Client
	damages, conflicts int
}

func (w *writer) get(ctx context.Context) kubetest.Object {
	c, err := w.admin.Get(ctx, validating)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// round changes something, and checks that it is stored as it was written, and that nothing else has changed since.
func (w *writer) round(ctx context.Context, round int) {
	for {
		c := w.get(ctx)
		before := known(c)
		damaged := w.change(c, round)
		want := known(c)
		_, err := w.admin.Update(ctx, validating+"?fieldManager=enforcer", c)
		if err != nil && strings.Contains(err.Error(), "409") {
			w.conflicts++
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if damaged {
			w.damages++
		}
		if is := known(w.get(ctx)); is != want {
			w.t.Fatalf("round %d: written\n%s\nstored\n%s\nbefore\n%s", round, want, is, before)
		}
		return
	}
}

// change edits a configuration, and reports whether a caBundle is then missing.
func (w *writer) change(c kubetest.Object, round int) (damaged bool) {
	all := c["webhooks"].([]any)
	some := all[w.rnd.IntN(len(all))].(map[string]any)
	switch w.rnd.IntN(6) {
	case 0: // as AKS
		some["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "control-plane", "operator": "DoesNotExist"}},
			"matchLabels": map[string]any{"round": fmt.Sprint(round)}}
	case 1:
		some["timeoutSeconds"] = 1 + w.rnd.IntN(9)
	case 2: // a new entry, as in a manifest
		added := clone(some)
		added["name"] = fmt.Sprintf("r%d.usher.dev", round)
		delete(added["clientConfig"].(map[string]any), "caBundle")
		if damaged = len(all) < 6; damaged {
			c["webhooks"] = append(all, added)
		}
	case 3:
		if len(all) > 2 {
			c["webhooks"] = all[1:]
		}
	case 4: // the whole object, as GitOps writes it
		for _, entry := range all {
			delete(entry.(map[string]any)["clientConfig"].(map[string]any), "caBundle")
		}
		damaged = true
	case 5:
		some["clientConfig"].(map[string]any)["caBundle"] = "ZGFtYWdlZA=="
		damaged = true
	}
	return damaged
}

// put restores a configuration.
func (w *writer) put(ctx context.Context, c kubetest.Object) {
	c["metadata"].(map[string]any)["resourceVersion"] = w.get(ctx).String("metadata", "resourceVersion")
	if _, err := w.admin.Update(ctx, validating, c); err != nil {
		w.t.Fatal(err)
	}
}

// complete returns an error if an entry lacks the caBundle that the others have.
func (w *writer) complete(ctx context.Context) error {
	c := w.get(ctx)
	for _, entry := range c.List("webhooks") {
		if got := serials(entry.String("clientConfig", "caBundle")); len(got) == 0 {
			return fmt.Errorf("%s has no caBundle", entry.String("name"))
		}
	}
	return nil
}

// known returns what is not usher's: everything but the caBundles, and what the API server sets.
func known(c kubetest.Object) string {
	c = clone(c)
	meta := c["metadata"].(map[string]any)
	for _, name := range []string{"resourceVersion", "generation", "managedFields"} {
		delete(meta, name)
	}
	for _, entry := range c["webhooks"].([]any) {
		delete(entry.(map[string]any)["clientConfig"].(map[string]any), "caBundle")
	}
	text, _ := json.Marshal(c)
	return string(text)
}

func clone(o map[string]any) (copied map[string]any) {
	text, _ := json.Marshal(o)
	_ = json.Unmarshal(text, &copied)
	return copied
}

// writes returns how often both replicas have written caBundles.
func writes(ctx context.Context, t *testing.T) (n int) {
	t.Helper()
	for _, r := range usher.Replicas {
		_, text, err := r.Get(ctx, "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if value, found := strings.CutPrefix(line, "usher_ca_bundle_writes_total "); found {
				one, _ := strconv.Atoi(strings.TrimSpace(value))
				n += one
			}
		}
	}
	return n
}

// TestApplierRemovesAnEntry: an entry that another client applied, and leaves out later, is removed: usher's caBundle
// does not keep it.
func TestApplierRemovesAnEntry(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	entry := func(name string) string {
		return fmt.Sprintf(`{"name": "%s.usher.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
			"clientConfig": {"service": {"namespace": "usher", "name": "usher", "path": "/validate-pods"}},
			"rules": [{"apiGroups": ["none"], "apiVersions": ["v1"], "resources": ["none"], "operations": ["CREATE"]}]}`, name)
	}
	apply := func(entries ...string) {
		t.Helper()
		_, err := cluster.Admin().Patch(ctx, validating+"?fieldManager=gitops", kubetest.ApplyPatch,
			`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "usher"}, "webhooks": [`+strings.Join(entries, ",")+`]}`)
		if err != nil {
			t.Fatal(err)
		}
	}
	w := &writer{t: t, admin: cluster.Admin()}
	before := len(w.get(ctx).List("webhooks"))
	apply(entry("one"), entry("two"))
	eventually(ctx, t, func() error { return w.complete(ctx) })
	apply(entry("one"))
	if now := len(w.get(ctx).List("webhooks")); now != before+1 {
		t.Errorf("%d entries, %d before", now, before)
	}
	eventually(ctx, t, func() error { return w.complete(ctx) })
	apply()
	if now := len(w.get(ctx).List("webhooks")); now != before {
		t.Errorf("%d entries in the end, %d before", now, before)
	}
}
