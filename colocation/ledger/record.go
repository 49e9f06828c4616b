package ledger

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// record is what the annotation of a top quota holds: the pods of its whole tree that were admitted and that not everybody has seen.
type record struct {
	// Seen is the newest resourceVersion of a pod whose reservation was dropped because the pod was seen. Who has not seen the pods up
	// to there would count neither the pod nor its reservation, and must not decide.
	Seen string        `json:"seen,omitempty"`
	Pods []reservation `json:"pods,omitempty"`
}

// reservation is the room that is held for one pod.
type reservation struct {
	UID types.UID `json:"uid,omitempty"`
	Pod string    `json:"pod"` // namespace/name
	// Quota is the pod's own quota; the room is held there and in all above it.
	Quota   string           `json:"quota"`
	Request api.ResourceList `json:"request"`
	// Update marks the room for a pod that is there already, and will be moved or resized.
	Update bool `json:"update,omitempty"`
	// Revived marks an update of a pod that counted for nothing before, such as one that had ended: that it counts for nothing now does not
	// tell that it came to nothing.
	Revived bool `json:"revived,omitempty"`
	// Again marks room that was given more than once, so that it is not taken back for one answer that nobody heard; Tries, that this was for
	// several pods of one name, of which any may still come, also after another.
	Again bool `json:"again,omitempty"`
	Tries bool `json:"tries,omitempty"`
	// At is when the room was given, in milliseconds since 1970. At and By, a replica, tell one answer from another.
	At int64  `json:"at"`
	By string `json:"by"`

	json string // as it stands in a record, so that a record of a thousand is not encoded anew for one more
}

// parseRecord reads the text of a record. Nobody but the ledger writes it, so that one which does not parse was damaged.
func parseRecord(text string) (record, error) {
	if text == "" {
		return record{}, nil
	}
	return api.ParseJSONText[record](text)
}

// UnmarshalJSON keeps the text beside what it says.
func (r *reservation) UnmarshalJSON(data []byte) error {
	type plain reservation
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, (*plain)(r)); err != nil {
		return err
	}
	r.json = string(data)
	return nil
}

// encode makes the reservation's own text.
func (r *reservation) encode() error {
	text, err := json.Marshal(r)
	r.json = string(text)
	return err
}

// text is the record as it is written. Its reservations must be encoded.
func (r record) text() string {
	if r.Seen == "" && len(r.Pods) == 0 {
		return ""
	}
	parts := make([]string, len(r.Pods))
	for i := range r.Pods {
		parts[i] = r.Pods[i].json
	}
	seen, _ := json.Marshal(r.Seen) // a string always encodes
	return `{"seen":` + string(seen) + `,"pods":[` + strings.Join(parts, ",") + `]}`
}

// size is how long the reservations of a record are, in bytes, all together and by the pods' namespaces.
func (r record) size() (all int, of map[string]int) {
	of = map[string]int{}
	for i := range r.Pods {
		n := len(r.Pods[i].json) + 1
		all += n
		namespace, _, _ := strings.Cut(r.Pods[i].Pod, "/")
		of[namespace] += n
	}
	return all, of
}

// expired reports whether the pod would have come by now, if it came at all. A time to come is that of a clock that went wrong.
func (r *reservation) expired(now time.Time, expiry time.Duration) bool {
	age := now.Sub(time.UnixMilli(r.At))
	return age > expiry || age < -expiry
}

// reservationID tells a reservation from all others.
type reservationID struct {
	uid            types.UID
	pod, quota, by string
	at             int64
}

func (r *reservation) id() reservationID { return reservationID{r.UID, r.Pod, r.Quota, r.By, r.At} }

// alike reports whether two reservations hold room for pods of one name in one quota. At any moment at most one of these pods is there, so that
// the larger room does for both.
func (r *reservation) alike(other *reservation) bool {
	return r.Pod == other.Pod && r.Quota == other.Quota && r.Update == other.Update
}

// join makes one of two that are alike.
func (r *reservation) join(before *reservation) {
	room := sum{}
	room.raise(r.request())
	room.raise(before.request())
	r.Request = api.ResourceList(room)
	r.Again, r.Tries = true, before.Tries || before.UID != r.UID
	r.Revived = r.Revived || before.Revived
}

func (r *reservation) request() corev1.ResourceList { return corev1.ResourceList(r.Request) }

// podKey is how pods are known: at any moment, at most one pod has it.
func podKey(p *quota.Pod) string {
	name := p.Name
	if name == "" {
		name = string(p.UID) // it has only a generateName, as in a review that was written by hand
	}
	return p.Namespace + "/" + name
}

// older reports whether resourceVersion a is before b. An empty one is before all; what is no number (of a store that is no etcd) is
// before nothing: then nobody is ever told that he is late.
func older(a, b string) bool {
	switch {
	case b == "" || a == b:
		return false
	case a == "":
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// newest is the later of two resourceVersions.
func newest(a, b string) string {
	if older(a, b) {
		return b
	}
	return a
}
