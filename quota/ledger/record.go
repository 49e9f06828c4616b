package ledger

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/api"
	"usher.dev/usher/quota"
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
	// At is when the room was given, in milliseconds since 1970. At and By, a replica, tell one answer from another.
	At int64  `json:"at"`
	By string `json:"by"`
}

// parseRecord reads the text of a record. Nobody but the ledger writes it, so that one which does not parse was damaged.
func parseRecord(text string) (record, error) {
	if text == "" {
		return record{}, nil
	}
	return api.ParseJSONText[record](text)
}

// text is the record as it is written.
func (r record) text() (string, error) {
	if r.Seen == "" && len(r.Pods) == 0 {
		return "", nil
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// expired tells whether the pod would have come by now, if it came at all.
func (r *reservation) expired(now time.Time, expiry time.Duration) bool {
	return now.Sub(time.UnixMilli(r.At)) > expiry
}

// answer is what tells a reservation from all others.
type answer struct {
	uid            types.UID
	pod, quota, by string
	at             int64
}

func (r *reservation) answer() answer { return answer{r.UID, r.Pod, r.Quota, r.By, r.At} }

func (r *reservation) request() corev1.ResourceList { return corev1.ResourceList(r.Request) }

// podKey is how pods are known: at any moment, at most one pod has it.
func podKey(p *quota.Pod) string {
	name := p.Name
	if name == "" {
		name = string(p.UID) // it has only a generateName, as in a review that was written by hand
	}
	return p.Namespace + "/" + name
}
