package rotation

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/internal/apiserver"
)

// Pace says how often a replica looks, and how long a new CA has to be in every caBundle before it signs.
type Pace struct{ Every, Settle time.Duration }

// PaceFor returns the pace for a lifetime of leaves: 10 s and a minute, or less for leaves that live minutes.
func PaceFor(leafLife time.Duration) Pace {
	return Pace{
		Every:  min(10*time.Second, max(leafLife/60, 200*time.Millisecond)),
		Settle: min(time.Minute, max(leafLife/20, 500*time.Millisecond)),
	}
}

// Log receives what happens, in sentences.
type Log struct{ Info, Warn func(string) }

// Keeper keeps the certificates of one replica: it reads, renews and serves them. Its methods except Run are safe for
// concurrent use.
type Keeper struct {
	client apiserver.Client
	target Target
	plan   Plan
	pace   Pace
	log    Log
	random func(n time.Duration) time.Duration // at least 0, less than n

	current atomic.Pointer[current]
	writes  atomic.Uint64

	// Of Run alone.
	since   map[[sha256.Size]byte]time.Time // when every caBundle was first seen to contain a CA, by this machine's clock
	entries [][]byte                        // the caBundles, each once, when they were last read; nil before
	read    bool
	warned  map[string]time.Time // when another writer of a caBundle was last logged, by its name
	failing string               // the last error that was logged
}

// NewKeeper returns a keeper for the replicas of a Service. The lifetimes must be positive.
func NewKeeper(client apiserver.Client, target Target, names []string, caLife, leafLife time.Duration, log Log) *Keeper {
	pace := PaceFor(leafLife)
	target.Hosts = names
	k := &Keeper{client: client, target: target, pace: pace, log: log, random: rand.N[time.Duration], warned: map[string]time.Time{},
		since: map[[sha256.Size]byte]time.Time{},
		plan:  Plan{Names: names, CALife: caLife, LeafLife: leafLife, Distrust: 3*pace.Every + pace.Settle}}
	k.current.Store(&current{problem: errors.New("the API server was not asked yet")})
	return k
}

// Run looks repeatedly until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	failed := 0
	for ctx.Err() == nil {
		changed, err := k.look(ctx)
		wait := k.pace.Every
		switch {
		case apierrors.IsConflict(err) || changed && err == nil: // another replica is at it, or the result is to be seen
			wait = min(wait, time.Second) / 2
		case err != nil && k.current.Load().serving == nil:
			wait = min(wait, time.Second<<min(failed, 4))
			failed++
		}
		k.note(err)
		select {
		case <-ctx.Done():
		case <-time.After(wait*9/10 + k.random(wait/5)):
		}
	}
}

// note remembers and logs a problem. A conflict is none: another replica was faster.
func (k *Keeper) note(err error) {
	if apierrors.IsConflict(err) {
		return
	}
	next := *k.current.Load()
	if next.problem = err; err == nil {
		next.synced = time.Now()
	}
	k.current.Store(&next)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != k.failing {
		k.log.Warn("certificates: " + text)
	} else if text == "" && k.failing != "" {
		k.log.Info("certificates: the API server is read again")
	}
	k.failing = text
}

// look reads everything, writes what is due, and serves. The configurations are read first: what they contain comes
// from Secrets that are no newer than those read after them, so a caBundle never goes back to an older state.
func (k *Keeper) look(ctx context.Context) (changed bool, err error) {
	configurations, unread := readConfigurations(ctx, k.client, k.target)
	if unread != nil && !k.read {
		return false, explain(unread)
	}
	ca, err := readSecret(ctx, k.client, k.target.Namespace, CASecret)
	if err != nil {
		return false, explain(err)
	}
	leaf, err := readSecret(ctx, k.client, k.target.Namespace, TLSSecret)
	if err != nil {
		return false, explain(err)
	}
	if unread == nil {
		k.remember(configurations)
	}
	state := decode(ca, leaf)
	view := k.view(unread == nil)
	next, events, err := k.plan.Advance(state, view)
	if err != nil {
		return false, err
	}
	state, err = k.store(ctx, ca, leaf, state, next, events)
	bundle := Bundle(state)
	written, err2 := k.trust(ctx, configurations, bundle)
	k.serve(state, bundle, view)
	return written || len(events) > 0, explain(errors.Join(err, err2, unread))
}

func (k *Keeper) view(fresh bool) View {
	now := k.current.Load()
	return View{Now: k.client.Now(), Name: k.plan.Names[0], Entries: k.entries, Served: now.leaf, Known: now.known,
		Settled: func(ca *x509.Certificate) bool {
			since, ok := k.since[sha256.Sum256(ca.Raw)]
			return fresh && (len(k.entries) == 0 || ok && time.Since(since) >= k.pace.Settle)
		}}
}

// store writes the Secrets that differ, the CA Secret first: no leaf exists whose CA is not stored. It returns the
// state that is stored now, or the state to assume until it is.
func (k *Keeper) store(ctx context.Context, ca, leaf stored, is, next State, events []string) (State, error) {
	caNext, leafNext := caData(next), tlsData(next)
	if err := errors.Join(ca.fixed(caNext), leaf.fixed(leafNext)); err != nil {
		return unstored(is, next), err
	}
	if err := ca.write(ctx, k.client, caNext); err != nil {
		return unstored(is, next), err
	}
	if err := leaf.write(ctx, k.client, leafNext); err != nil {
		return unstored(is, next), err // others take the caBundle from this Secret, so it must not be older than a written one
	}
	for _, line := range events {
		k.log.Info("certificates: " + line)
	}
	return next, nil
}

// explain adds the way out to an error.
func explain(err error) error {
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return fmt.Errorf("%w; usher needs the Secrets %s and %s: raise the quota of its namespace by two secrets", err, CASecret, TLSSecret)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; `usher webhooks --rbac --certs=managed` prints the rights that usher needs", err)
	}
	return err
}
