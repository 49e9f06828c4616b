package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"usher.dev/usher/admit"
)

// Marker is the name of a mutating webhook configuration without webhooks, which says that usher's registration is to be kept,
// and how it was. It has the label of the others, so that a deletion of usher's configurations by their label deletes it, too:
// without it, nothing is restored. kubectl deletes the mutating ones first, in the order of their names. So this one comes first,
// and nothing is restored between the deletion of the one and the other.
const Marker = "keep-" + Name

// The annotations of the marker.
const (
	keptService  = "usher.dev/service"    // whose registration is kept, as namespace/name
	keptArmed    = "usher.dev/armed"      // "true" once it was seen beside the whole registration
	keptSaved    = "usher.dev/registered" // the configurations, as JSON
	keptRestored = "usher.dev/restored"   // how often it was restored of late, and when
)

// Keeper restores a registration. Several may work on one: they take turns by the resourceVersion of the marker.
type Keeper struct {
	Registrar
	Wait time.Duration // before a registration is restored; it doubles each time, up to longestWait

	beside string // the resourceVersion of a marker that is not armed, when it was last seen beside the whole registration
	broken bool   // whether the registration was not whole when it was last looked at
	whole  bool   // the opposite; neither is set at first
}

// longestWait bounds the time between two restorations, calm is how long a registration must hold until Wait counts again, and settled
// bounds the time of one restoration.
const (
	settled     = 5 * time.Second
	longestWait = 10 * time.Minute
	calm        = 10 * time.Minute
)

// MarkerState is the marker as it was read, with an empty name if there is none.
type MarkerState struct{ configuration }

func (m MarkerState) found() bool { return m.Name != "" }

func markerPath() string {
	return configuration{TypeMeta: configurationType("Mutating"), ObjectMeta: metav1.ObjectMeta{Name: Marker}}.path()
}

// Marker reads the marker. It is to be read before the registration that Keep judges: it is only written if it has not changed since.
func (r Registrar) Marker(ctx context.Context) (m MarkerState, err error) {
	raw, err := r.Client.Get(ctx, markerPath())
	if apierrors.IsNotFound(err) {
		return m, nil
	}
	if err != nil {
		return m, explained(err)
	}
	m.configuration, err = readConfiguration(raw)
	return m, err
}

// mayRestore reports whether the marker says that the registration of this Service is to be kept.
func (k *Keeper) mayRestore(m MarkerState) bool {
	return m.Annotations[keptArmed] == "true" && m.Annotations[keptService] == k.At.service()
}

// restored returns how often the registration was restored of late, and when.
func (m MarkerState) restored() (times int, last time.Time) {
	count, at, _ := strings.Cut(m.Annotations[keptRestored], " ")
	times, _ = strconv.Atoi(count)
	last, _ = time.Parse(time.RFC3339Nano, at)
	return times, last
}

// Keep restores the registration if it is not as needed and the marker allows it, and otherwise keeps the marker current. It
// returns what it has done, or "". The marker is written with the registration that was judged: what is read later may lack
// what somebody has deleted meanwhile.
func (k *Keeper) Keep(ctx context.Context, m MarkerState, states []State, read Registered, of func([]string) []admit.Route,
	trusts func([]byte) bool) (done string, err error) {
	whole := !slices.ContainsFunc(states, func(s State) bool { return s.Missing || len(s.Changes) > 0 })
	again := whole && k.whole || !whole && k.broken
	k.whole, k.broken = whole, !whole
	switch {
	case !again: // a single look may fall between two writes of somebody who is at it
	case whole:
		return "", k.refresh(ctx, m, read)
	case k.mayRestore(m):
		return k.restore(ctx, m, of, trusts)
	case k.left(m, states):
		if err := k.Client.Delete(ctx, markerPath()); !apierrors.IsNotFound(err) {
			return "", explained(err)
		}
	}
	return "", nil
}

// left reports whether a marker that is not armed stands beside no registration at all: a replica has made it at the very moment when
// usher was disabled. It restores nothing, but whoever disabled usher would find it.
func (k *Keeper) left(m MarkerState, states []State) bool {
	return m.Annotations[keptService] == k.At.service() && m.Annotations[keptArmed] != "true" &&
		!slices.ContainsFunc(states, func(s State) bool { return !s.Missing })
}

// refresh writes the marker beside a registration that is whole. A new one is armed by a later look, which sees that the
// registration was not taken away while it was made.
func (k *Keeper) refresh(ctx context.Context, m MarkerState, read Registered) error {
	saved, err := read.save()
	if err != nil {
		return err
	}
	times, last := m.restored()
	next := map[string]string{keptService: k.At.service(), keptSaved: saved, keptArmed: m.Annotations[keptArmed],
		keptRestored: m.Annotations[keptRestored]}
	switch {
	case !m.found(), m.Annotations[keptService] != k.At.service():
		next[keptArmed] = "false"
	case m.Annotations[keptArmed] != "true" && k.beside == m.ResourceVersion:
		next[keptArmed] = "true"
	}
	if k.beside = m.ResourceVersion; times > 0 && k.Client.Now().Sub(last) > calm {
		next[keptRestored] = ""
	}
	return k.mark(ctx, m, next)
}

// save returns the registration as JSON: usher's entries alone.
func (all Registered) save() (string, error) {
	var saved []configuration
	for _, c := range all {
		saved = append(saved, configuration{c.TypeMeta, metav1.ObjectMeta{Name: c.Name, Annotations: c.Annotations}, c.ours()})
	}
	text, err := json.Marshal(saved)
	return string(text), err
}

// mark writes the annotations of the marker, if they differ. A marker that was deleted meanwhile is not created again.
func (k *Keeper) mark(ctx context.Context, m MarkerState, annotations map[string]string) error {
	differs := false
	for key, value := range annotations {
		differs = differs || m.Annotations[key] != value
	}
	if !differs {
		return nil
	}
	next := configuration{TypeMeta: configurationType("Mutating"), ObjectMeta: Meta()}
	next.Name, next.Annotations, next.ResourceVersion = Marker, annotations, m.ResourceVersion
	var err error
	if m.found() {
		_, err = k.Client.Update(ctx, markerPath(), manager, next.text(nil))
	} else {
		_, err = k.Client.Apply(ctx, markerPath(), manager, true, next.text(nil))
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // another replica was faster, or somebody has taken it away
	}
	return explained(err)
}

// restore restores the registration, once enough time has passed since the last time. If the marker is gone afterwards, or a new one,
// somebody has unregistered usher at the same time, and what was created is removed again.
func (k *Keeper) restore(ctx context.Context, m MarkerState, of func([]string) []admit.Route, trusts func([]byte) bool) (done string, err error) {
	times, last := m.restored()
	if wait := min(k.Wait<<min(times, 20), longestWait); times > 0 && k.Client.Now().Sub(last) < wait {
		return "", nil
	}
	r := k.Registrar
	if err := json.Unmarshal([]byte(m.Annotations[keptSaved]), &r.saved); err != nil || len(r.saved) != 2 {
		return "", errors.New("the marker does not say how usher was registered; run usher webhooks apply")
	}
	if r, err = r.AsInstalled(ctx, of); err != nil {
		return "", err
	}
	plan, err := r.Plan(ctx)
	if err != nil || len(plan.Changes) == 0 {
		return "", err
	}
	if !plan.trusted(trusts) {
		return "", errors.New("its caBundle would not verify what is served, so that requests would fail; run usher webhooks apply")
	}
	annotations := map[string]string{keptService: k.At.service(), keptArmed: "true", keptSaved: m.Annotations[keptSaved],
		keptRestored: fmt.Sprintf("%d %s", times+1, k.Client.Now().UTC().Format(time.RFC3339Nano))}
	if err := k.mark(ctx, m, annotations); err != nil {
		return "", err
	}
	if now, err := k.Marker(ctx); err != nil || now.UID != m.UID || now.Annotations[keptRestored] != annotations[keptRestored] {
		return "", err // it is another replica's turn, or nobody's
	}
	return r.reapply(ctx, plan, m)
}

// reapply carries out the plan of a restoration, and undoes it if the marker is gone afterwards. It ends what it has begun, also if a
// request fails or the replica is about to end: beside no marker, no other replica takes away what this one leaves.
func (r Registrar) reapply(ctx context.Context, plan Plan, m MarkerState) (done string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settled)
	defer cancel()
	failed := r.Apply(ctx, plan, 0, func(string) {})
	done = strings.Join(plan.Changes, "; ")
	_ = wait.PollUntilContextCancel(ctx, settled/50, true, func(ctx context.Context) (bool, error) {
		after, unread := r.Marker(ctx)
		if err = unread; err == nil && after.UID != m.UID {
			done, failed, err = "", nil, r.undo(ctx, plan)
		}
		return err == nil, nil
	})
	if err = errors.Join(failed, err); err != nil {
		return "", err
	}
	return done, nil
}

// undo deletes what a plan has created, and a marker that a replica has created beside it.
func (r Registrar) undo(ctx context.Context, plan Plan) (err error) {
	paths := []string{markerPath()}
	for _, p := range plan.parts {
		if p.registered.Name == "" {
			paths = append(paths, p.apply.path())
		}
	}
	for _, path := range paths {
		if failed := r.Client.Delete(ctx, path); !apierrors.IsNotFound(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// trusted reports whether what is to be registered for a Service has a caBundle that verifies what is served.
func (p Plan) trusted(trusts func([]byte) bool) bool {
	return !slices.ContainsFunc(p.parts, func(one part) bool {
		return slices.ContainsFunc(one.apply.Webhooks, func(w Hook) bool { return w.ClientConfig.Service != nil && !trusts(w.ClientConfig.CABundle) })
	})
}

// Claim tells the keepers of another installation, whose registration is about to be taken over, to leave it alone.
func (r Registrar) Claim(ctx context.Context) error {
	m, err := r.Marker(ctx)
	if apierrors.IsForbidden(err) || err == nil && (!m.found() || m.Annotations[keptService] == r.At.service()) {
		return nil
	}
	if err != nil {
		return err
	}
	k := Keeper{Registrar: r}
	return k.mark(ctx, m, map[string]string{keptService: k.At.service(), keptArmed: "false", keptSaved: "", keptRestored: ""})
}

// with returns a configuration with the entries and annotations of a saved one that it lacks.
func (c configuration) with(saved configuration) configuration {
	c.Annotations = labels.Merge(saved.Annotations, c.Annotations)
	c.Webhooks = slices.Clone(c.Webhooks)
	for _, w := range saved.Webhooks {
		if c.entry(w.Name) == nil {
			c.Webhooks = append(c.Webhooks, w)
		}
	}
	return c
}
