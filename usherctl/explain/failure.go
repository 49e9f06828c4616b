package explain

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// Failure describes why a controller could not create pods.
type Failure struct {
	Object  string // such as ReplicaSet web-5d8c7
	From    string // event, condition or status
	Reason  string // the word for it, such as FailedCreate
	Message string
	// Namespace is that of a pod whose creation has failed, else "".
	Namespace string
	At        time.Time // when it was seen last
	Count     int       // of an event; zero: not known
}

// Owner is an object that creates pods, or one above it.
type Owner struct {
	Kind, Name, UID string
}

// String names the object, such as ReplicaSet web-5d8c7.
func (o Owner) String() string { return o.Kind + " " + o.Name }

// readEvent reads an Event of events.k8s.io/v1 or of v1, which has other names for the same.
func readEvent(raw []byte) (e eventsv1.Event, err error) {
	var core corev1.Event
	if err := cmp.Or(json.Unmarshal(raw, &e), json.Unmarshal(raw, &core)); err != nil {
		return e, err
	}
	if core.InvolvedObject.Name != "" {
		e.Regarding, e.Note, e.DeprecatedCount = core.InvolvedObject, core.Message, core.Count
		e.DeprecatedFirstTimestamp, e.DeprecatedLastTimestamp = core.FirstTimestamp, core.LastTimestamp
	}
	return e, nil
}

// lastSeen returns when an event was seen last, and how often.
func lastSeen(e *eventsv1.Event) (last time.Time, count int) {
	times := []time.Time{e.DeprecatedLastTimestamp.Time, e.EventTime.Time, e.DeprecatedFirstTimestamp.Time, e.CreationTimestamp.Time}
	count = int(e.DeprecatedCount)
	if e.Series != nil {
		times, count = append(times, e.Series.LastObservedTime.Time), max(count, int(e.Series.Count))
	}
	return slices.MaxFunc(times, time.Time.Compare), count
}

// noReplicaSet is the reason of events and conditions of a Deployment whose ReplicaSet could not be created.
const noReplicaSet = "ReplicaSetCreateError"

// Failures returns the failed creations that events report about objects, the newest first. Events that cannot be read
// are counted.
func Failures(events []json.RawMessage, owners []Owner) (found []Failure, unreadable int) {
	return failures(events, owners, func(e *eventsv1.Event) bool { return e.Reason == "FailedCreate" || e.Reason == noReplicaSet })
}

// warnings returns the warnings about an object, the newest first.
func warnings(events []json.RawMessage, of Owner) []Failure {
	found, _ := failures(events, []Owner{of}, func(e *eventsv1.Event) bool { return e.Type == "Warning" })
	return found
}

func failures(events []json.RawMessage, owners []Owner, wanted func(*eventsv1.Event) bool) (found []Failure, unreadable int) {
	for _, raw := range events {
		e, err := readEvent(raw)
		if err != nil {
			unreadable++
			continue
		}
		i := slices.IndexFunc(owners, func(o Owner) bool { // the UID decides: a deleted object may have had the same name
			of := e.Regarding
			return of.Kind == o.Kind && of.Name == o.Name && (of.UID == "" || o.UID == "" || string(of.UID) == o.UID)
		})
		if i < 0 || !wanted(&e) {
			continue
		}
		f := Failure{Object: owners[i].String(), From: "event", Reason: e.Reason, Message: e.Note}
		f.At, f.Count = lastSeen(&e)
		found = append(found, f)
	}
	return newestFirst(found), unreadable
}

// failure returns the failed creation that a condition of an object reports: ReplicaFailure, or that a Deployment's
// ReplicaSet could not be created.
func (o object) failure() (f Failure, found bool) {
	for _, c := range o.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == "True" || c.Type == "Progressing" && c.Status == "False" && c.Reason == noReplicaSet {
			return c.failure(o.owner()), true
		}
	}
	return f, false
}

// newestFirst sorts failures. Of two at the same time the first stays first.
func newestFirst(all []Failure) []Failure {
	slices.SortStableFunc(all, func(a, b Failure) int { return b.At.Compare(a.At) })
	return all
}

// Newest returns the newest of the failures.
func Newest(all []Failure) (f Failure, found bool) {
	if len(all) == 0 {
		return f, false
	}
	return newestFirst(slices.Clone(all))[0], true
}
