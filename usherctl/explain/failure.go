package explain

import (
	"encoding/json"
	"slices"
	"time"
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

// anyEvent is an Event of v1 or of events.k8s.io/v1, which have other names for the same.
type anyEvent struct {
	Reason string `json:"reason"`
	Type   string `json:"type"`

	InvolvedObject *eventObject `json:"involvedObject"` // v1
	Message        string       `json:"message"`
	Count          int          `json:"count"`
	FirstTimestamp *time.Time   `json:"firstTimestamp"`
	LastTimestamp  *time.Time   `json:"lastTimestamp"`

	Regarding       *eventObject `json:"regarding"` // events.k8s.io/v1
	Note            string       `json:"note"`
	DeprecatedCount int          `json:"deprecatedCount"`
	DeprecatedFirst *time.Time   `json:"deprecatedFirstTimestamp"`
	DeprecatedLast  *time.Time   `json:"deprecatedLastTimestamp"`

	EventTime *time.Time `json:"eventTime"` // both
	Series    *struct {
		Count            int        `json:"count"`
		LastObservedTime *time.Time `json:"lastObservedTime"`
	} `json:"series"`
	Metadata struct {
		CreationTimestamp *time.Time `json:"creationTimestamp"`
	} `json:"metadata"`
}

type eventObject struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// about reports whether the event is about an object. The UID decides: a deleted object may have had the same name.
func (e *anyEvent) about(o Owner) bool {
	object := e.InvolvedObject
	if object == nil {
		object = e.Regarding
	}
	return object != nil && object.Kind == o.Kind && object.Name == o.Name && (object.UID == "" || o.UID == "" || object.UID == o.UID)
}

// at returns when the event was seen last, and how often.
func (e *anyEvent) at() (last time.Time, count int) {
	times := []*time.Time{e.LastTimestamp, e.DeprecatedLast, e.EventTime, e.FirstTimestamp, e.DeprecatedFirst, e.Metadata.CreationTimestamp}
	count = max(e.Count, e.DeprecatedCount)
	if e.Series != nil {
		times, count = append(times, e.Series.LastObservedTime), max(count, e.Series.Count)
	}
	for _, t := range times {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last, count
}

// noReplicaSet is the reason of events and conditions of a Deployment whose ReplicaSet could not be created.
const noReplicaSet = "ReplicaSetCreateError"

// Failures returns the failed creations that events report about objects, the newest first. Events that cannot be read
// are counted.
func Failures(events []json.RawMessage, owners []Owner) (found []Failure, unreadable int) {
	return failures(events, owners, func(e *anyEvent) bool { return e.Reason == "FailedCreate" || e.Reason == noReplicaSet })
}

// warnings returns the warnings about an object, the newest first.
func warnings(events []json.RawMessage, of Owner) []Failure {
	found, _ := failures(events, []Owner{of}, func(e *anyEvent) bool { return e.Type == "Warning" })
	return found
}

func failures(events []json.RawMessage, owners []Owner, wanted func(*anyEvent) bool) (found []Failure, unreadable int) {
	for _, raw := range events {
		var e anyEvent
		if json.Unmarshal(raw, &e) != nil {
			unreadable++
			continue
		}
		i := slices.IndexFunc(owners, e.about)
		if i < 0 || !wanted(&e) {
			continue
		}
		f := Failure{Object: owners[i].String(), From: "event", Reason: e.Reason, Message: e.Message + e.Note}
		f.At, f.Count = e.at()
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
