package ledger

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// record is the content of the annotation on a top quota: the reservations of its tree, for pods that were admitted and
// that some replica may not have observed yet.
type record struct {
	// Seen is the newest resourceVersion of a pod whose reservation was dropped because the pod was observed. A replica
	// that has not observed the pods up to it would count neither the pod nor its reservation, and must not decide.
	Seen string `json:"seen,omitempty"`
	// Tree is the newest resourceVersion of a change of the tree that a decision took into account. A replica that has not
	// observed the quotas up to it must not decide.
	Tree string `json:"tree,omitempty"`
	// By is the replica of the last write.
	By string `json:"by,omitempty"`
	// Recall is the replica that needs the room of grants of others. They give them back, and nobody takes new ones.
	Recall string `json:"recall,omitempty"`
	// Changes are the changes of quotas that were admitted and that some replica may not have observed yet.
	Changes []change      `json:"changes,omitempty"`
	Pods    []reservation `json:"pods,omitempty"`
}

// change is a change of a quota that was admitted.
type change struct {
	Quota string `json:"quota"` // namespace/name
	// From is the resourceVersion of the quota that the change replaces; empty for a new quota.
	From string `json:"from,omitempty"`
	// UID is that of a new quota: there may have been another one of its name.
	UID types.UID `json:"uid,omitempty"`
	In  []string  `json:"in"` // the quotas whose pods the change concerns
	At  int64     `json:"at"` // the time in milliseconds since 1970
	By  string    `json:"by"` // the replica
}

// reservation is the capacity that is held for one pod.
type reservation struct {
	UID types.UID `json:"uid,omitempty"`
	Pod string    `json:"pod"` // namespace/name
	// Quota is the pod's own quota. The reservation counts there and in all quotas above it.
	Quota string `json:"quota"`
	// Own marks a pod without a label: it counts where the pods of its namespace do, and not in Quota, when the namespace has moved.
	Own     bool             `json:"own,omitempty"`
	Request api.ResourceList `json:"request"`
	// Update marks the reservation for an existing pod that will be moved or resized.
	Update bool `json:"update,omitempty"`
	// From is the resourceVersion of the pod that the update was judged on: the update is stored as the next version of
	// the pod, or never.
	From string `json:"from,omitempty"`
	// Grant marks room for pods that the replica By admits without a write; see grants.go. Pod is no pod's name.
	Grant bool `json:"grant,omitempty"`
	// Revived marks an update of a pod that was charged for nothing before, for example because it had ended. That it
	// is charged for nothing now does not prove that the update failed.
	Revived bool `json:"revived,omitempty"`
	// Again marks a reservation that was granted more than once: it is not revoked when one of the answers was not
	// received. Tries marks that the attempts were for several pods of one name, any of which may still appear, even
	// after another.
	Again bool `json:"again,omitempty"`
	Tries bool `json:"tries,omitempty"`
	// At is the time of the reservation in milliseconds since 1970. At and By, the replica, distinguish reservations.
	At int64  `json:"at"`
	By string `json:"by"`

	json string // its encoding in the record, so that a record of a thousand is not encoded again for one more
}

// parseRecord parses the text of a record. Only the ledger writes it, so a record that does not parse was damaged.
func parseRecord(text string) (record, error) {
	if text == "" {
		return record{}, nil
	}
	return api.ParseJSONText[record](text)
}

// UnmarshalJSON decodes the reservation and keeps its text.
func (r *reservation) UnmarshalJSON(data []byte) error {
	type plain reservation
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, (*plain)(r)); err != nil {
		return err
	}
	r.json = string(data)
	return nil
}

// encode sets the text of the reservation.
func (r *reservation) encode() error {
	text, err := json.Marshal(r)
	r.json = string(text)
	return err
}

// text returns the record as it is written. Its reservations must be encoded. The writer alone is no record.
func (r record) text() string {
	if r.Seen == "" && r.Tree == "" && r.Recall == "" && len(r.Changes) == 0 && len(r.Pods) == 0 {
		return ""
	}
	parts := make([]string, len(r.Pods))
	for i := range r.Pods {
		parts[i] = r.Pods[i].json
	}
	r.Pods = nil
	head, _ := json.Marshal(r) // strings and numbers always encode
	text := strings.TrimSuffix(string(head), "}")
	if text != "{" {
		text += ","
	}
	return text + `"pods":[` + strings.Join(parts, ",") + `]}`
}

// without returns the record without what is newer than the object that it was found on: that comes from the manifest of
// another cluster. Within one cluster, what was observed is older than the record.
func (r record) without(version string) record {
	if older(version, r.Seen) {
		r.Seen = ""
	}
	if older(version, r.Tree) {
		r.Tree = ""
	}
	r.Changes = slices.DeleteFunc(slices.Clone(r.Changes), func(c change) bool { return older(version, c.From) })
	return r
}

// size returns the length of the reservations in bytes, in total and by the namespaces of the pods.
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

// expired reports whether the pod would have appeared by now. A time in the future comes from a wrong clock.
func (r *reservation) expired(now time.Time, expiry time.Duration) bool {
	age := now.Sub(time.UnixMilli(r.At))
	return age > expiry || age < -expiry
}

// reservationID identifies a reservation.
type reservationID struct {
	uid            types.UID
	pod, quota, by string
	at             int64
}

func (r *reservation) id() reservationID { return reservationID{r.UID, r.Pod, r.Quota, r.By, r.At} }

// quotaIn returns the quota that the pod of a reservation belongs to in a tree.
func (r *reservation) quotaIn(tree *quota.Tree) string {
	if !r.Own {
		return r.Quota
	}
	namespace, _, _ := strings.Cut(r.Pod, "/")
	return tree.Bind(quota.BindingKey{Namespace: namespace}, false).Name
}

// alike reports whether two reservations are for pods of one name in one quota, also when a namespace moves. At most one of these pods
// exists at any time, so the larger reservation suffices for both.
func (r *reservation) alike(other *reservation) bool {
	return r.Pod == other.Pod && r.Quota == other.Quota && r.Own == other.Own && r.Update == other.Update
}

// merge merges a previous reservation that is alike into r.
func (r *reservation) merge(before *reservation) {
	room := sum{}
	room.raise(r.request())
	room.raise(before.request())
	r.Request = api.ResourceList(room)
	r.Again, r.Tries = true, before.Tries || before.UID != r.UID
	r.Revived = r.Revived || before.Revived
	if r.From = newest(r.From, before.From); before.From == "" {
		r.From = "" // an update whose version is not known may have been stored at any
	}
}

func (r *reservation) request() corev1.ResourceList { return corev1.ResourceList(r.Request) }

// podKey returns the key of a pod. At any time at most one pod has it.
func podKey(p *quota.Pod) string {
	name := p.Name
	if name == "" {
		name = string(p.UID) // it has only a generateName, as in a hand-written review
	}
	return p.Namespace + "/" + name
}

// older reports whether resourceVersion a is before b. The empty version is before all others. A version that is not a
// number (from another store than etcd) is before none, so that no replica is ever considered behind.
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

// newest returns the later of two resourceVersions.
func newest(a, b string) string {
	if older(a, b) {
		return b
	}
	return a
}

// Moving returns the record of a quota whose parent or namespaces a change replaces, with a mark: a replica may decide by it only after it
// has observed the quota at version from, on which the change was judged. Announce does not write to the quota under review, so the change
// itself has to carry this. Otherwise a replica whose watch has shown neither that a top got a parent, nor that it became a top again,
// would find the object as it knows it, and would not count what was admitted in between and is in the record of the other tree.
// A damaged record is returned as it is.
func Moving(text, from string) string {
	found, err := parseRecord(text)
	if err != nil {
		return text
	}
	found.Tree = newest(found.Tree, from)
	return found.text()
}
