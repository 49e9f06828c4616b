package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"usher.dev/usher/usherctl/report"
)

// workload is a workload with what is known of its pods.
type workload struct {
	object
	creators []object // the newest first
	events   []json.RawMessage
}

// failures returns the failed creations that keep pods away, and those that are over, the newest first. Events that cannot be
// read are counted.
func (w workload) failures() (live, over []Failure, unreadable int) {
	active := []object{w.object}
	for _, c := range w.creators {
		if c.Spec.Replicas == nil || *c.Spec.Replicas > 0 { // not a ReplicaSet that a rollout has left behind
			active = append(active, c)
		}
	}
	var owners []Owner
	for _, o := range active {
		owners = append(owners, o.owner())
	}
	found, unreadable := Failures(w.events, owners)
	for _, f := range found {
		i := slices.IndexFunc(owners, func(o Owner) bool { return o.String() == f.Object })
		if w.isLive(f, active[i]) {
			live = append(live, f)
		} else {
			over = append(over, f)
		}
	}
	for _, o := range append(active[1:len(active):len(active)], w.object) {
		if f, has := o.failure(); has {
			live = append(live, f)
		}
	}
	return live, over, unreadable
}

// isLive reports whether an event of an object may still keep pods away: the object lacks pods, and has created no ReplicaSet since.
func (w workload) isLive(f Failure, o object) bool {
	if f.Reason == noReplicaSet && len(w.creators) > 0 {
		created, err := time.Parse(time.RFC3339, w.creators[0].Metadata.CreationTimestamp)
		if err == nil && created.After(f.At) {
			return false
		}
	}
	return o.stale() || o.missing() > 0 || o.outdated() > 0
}

// missing returns how many pods the objects lack that create them, and how many a Deployment has not asked them for.
func (w workload) missing() (n int) {
	if len(w.creators) == 0 {
		return w.object.missing()
	}
	asked := 0
	for _, c := range w.creators {
		n += c.missing()
		asked += ptr.Deref(c.Spec.Replicas, 1)
	}
	if w.kind.Kind == "Deployment" {
		n += max(0, ptr.Deref(w.Spec.Replicas, 1)-asked)
	}
	return n
}

// isPaused reports whether pods are missing because the workload is paused. A paused Deployment still scales its ReplicaSets.
func (w workload) isPaused() bool {
	return w.Spec.Suspend && w.missing() > 0 || w.Spec.Paused && (len(w.creators) == 0 || w.missing() == 0 && w.outdated() > 0)
}

// lacks returns findings on the pods that are not there, for a workload of which no failed creation is known. complete reports
// whether all pods run that exist.
func (w workload) lacks(complete bool) []report.Finding {
	unknown := func(format string, args ...any) []report.Finding {
		f := finding("no-failure-found", report.Unknown, w.String(), fmt.Sprintf(format, args...))
		f.Look = w.look()
		return []report.Finding{f}
	}
	missing, outdated := w.missing(), w.outdated()
	switch {
	case w.stale():
		return unknown("the status is of an earlier spec: the controller has not looked at it since, or could not write the status")
	case w.isPaused():
		return []report.Finding{w.paused()}
	case missing > 0 && !complete && w.kind.Kind == "StatefulSet" && w.Spec.PodManagementPolicy != "Parallel":
		return []report.Finding{finding("pods-wait", report.Info, w.String(), fmt.Sprintf("%d pods are not created yet: the StatefulSet creates a pod "+
			"when the one before it is ready", missing))}
	case missing > 0:
		return unknown("%d pods are missing, and no event or condition says that their creation was refused: events are kept for an hour by default, "+
			"and a controller may not have tried yet", missing)
	case outdated > 0 && complete:
		return unknown("%d pods of the current template are missing, and no event or condition says why the rollout does not go on", outdated)
	}
	return nil
}

// alsoPaused adds to a report that the workload is paused, if something else is wrong with it.
func (w workload) alsoPaused(r report.Report) report.Report {
	f := w.paused()
	known := slices.ContainsFunc(r.Findings, func(other report.Finding) bool { return other.ID == f.ID })
	if known || r.Exit() == report.Fine || !w.Spec.Paused && !w.Spec.Suspend {
		return r
	}
	f.Message += ". Resuming it does not correct what else is wrong"
	return adding(r, f)
}

// paused returns the finding on a workload that creates no pods because it is paused.
func (w workload) paused() report.Finding {
	if w.Spec.Suspend {
		f := finding("workload-paused", report.Warning, w.String(),
			"spec.suspend is true: it creates no pods until somebody, or the queue that it is in, sets it to false")
		f.Look = w.look()
		return f
	}
	f := finding("workload-paused", report.Warning, w.String(), "spec.paused is true: it creates no ReplicaSet for its template until it is resumed")
	f.Fix = fmt.Sprintf("kubectl rollout resume deployment/%s -n %s", report.Word(w.Metadata.Name), report.Word(w.Metadata.Namespace))
	return f
}
