package quota

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.dev/usher/e2e/kubetest"
)

// checker replays the stored objects in the order of their resourceVersions, and checks every new or resized pod
// against the limits. Of usher it uses only the tree of quotas and the name of the record's annotation.
type checker struct {
	namespace string
	quotas    map[string]*limited
	pods      map[string]counted    // by etcd's key
	decided   map[string]int64      // when a pod's reservation was first in a record, by UID, and by name if there were several attempts
	decidedBy map[string]bool       // the last records, to find the new entries of the next
	limits    map[string][]limitSet // of a quota, in order
	problems  []string

	added, grown, ended, deleted, records int
}

// limited is a quota.
type limited struct{ parent string }

type limitSet struct {
	from int64
	cpu  int64
}

// counted is what a pod counts for.
type counted struct {
	uid, quota string
	cpu        int64 // in thousandths
}

// replay returns the checker after the whole history of a namespace.
func replay(ctx context.Context, t *testing.T, namespace string) *checker {
	t.Helper()
	last, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/configmaps", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "end-of-history-"}}`)
	stored(t, err)
	var revision int64
	if _, err := fmt.Sscan(last.String("metadata", "resourceVersion"), &revision); err != nil {
		t.Fatal(err)
	}
	c := &checker{namespace: namespace, quotas: map[string]*limited{}, pods: map[string]counted{}, decided: map[string]int64{},
		decidedBy: map[string]bool{}, limits: map[string][]limitSet{}}
	if err := cluster.History(ctx, "/registry/", revision, c.take); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *checker) take(change kubetest.Change) error {
	switch {
	case strings.HasPrefix(change.Key, "/registry/pods/"+c.namespace+"/"):
		return c.pod(change)
	case strings.HasPrefix(change.Key, "/registry/scheduling.sigs.k8s.io/elasticquotas/"+c.namespace+"/") && !change.Deleted:
		return c.quota(change)
	}
	return nil
}

// quota updates a quota's place, its limit, and the new entries of its record.
func (c *checker) quota(change kubetest.Change) error {
	var q struct {
		Metadata struct {
			Name                string
			Labels, Annotations map[string]string
		}
		Spec struct{ Max map[string]resource.Quantity }
	}
	if err := json.Unmarshal(change.Value, &q); err != nil {
		return err
	}
	c.quotas[q.Metadata.Name] = &limited{q.Metadata.Labels[prefix+"parent"]}
	limit := q.Spec.Max["cpu"]
	if sets := c.limits[q.Metadata.Name]; len(sets) == 0 || sets[len(sets)-1].cpu != limit.MilliValue() {
		c.limits[q.Metadata.Name] = append(sets, limitSet{change.Revision, limit.MilliValue()})
	}
	text := q.Metadata.Annotations[recordOf]
	if text == "" {
		return nil
	}
	var record struct {
		Pods []struct {
			UID, Pod string
			At       int64
			Tries    bool
		}
	}
	c.records++
	stands := map[string]bool{}
	err := json.Unmarshal([]byte(text), &record)
	for _, r := range record.Pods {
		answer := fmt.Sprint(r.UID, r.At)
		stands[answer] = true
		if !c.decidedBy[answer] { // the last of several answers for one pod
			c.decided[r.UID] = change.Revision
			if r.Tries { // for several pods with the same name
				c.decided[r.Pod] = change.Revision
			}
		}
	}
	c.decidedBy = stands
	return err
}

// pod handles a created, changed or deleted pod.
func (c *checker) pod(change kubetest.Change) error {
	before, known := c.pods[change.Key]
	if change.Deleted {
		delete(c.pods, change.Key)
		c.deleted++
		return nil
	}
	pod, err := decodePod(change.Value)
	if err != nil {
		return err
	}
	now := c.count(pod)
	c.pods[change.Key] = now
	switch {
	case !known:
		c.added++
	case now.cpu == 0 && before.cpu > 0:
		c.ended++
	case now.quota != before.quota || now.cpu > before.cpu:
		c.grown++
	default:
		return nil
	}
	c.judge(change, pod, now, before)
	return nil
}

// count reads a pod with the API server's own types: one container has all requests. If an API server is killed between
// the two writes of a deletion, a pod with an expired grace period remains; it does not count.
func (c *checker) count(pod *corev1.Pod) counted {
	one := counted{uid: string(pod.UID), quota: pod.Labels[prefix+"name"]}
	over := pod.DeletionTimestamp != nil && (pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0)
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && !over {
		one.cpu = pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	return one
}

func decodePod(value []byte) (*corev1.Pod, error) {
	value, ok := bytes.CutPrefix(value, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("a pod is not stored as protobuf: %.40q", value)
	}
	var wrapper runtime.Unknown
	var pod corev1.Pod
	if err := wrapper.Unmarshal(value); err != nil {
		return nil, err
	}
	return &pod, pod.Unmarshal(wrapper.Raw)
}

// judge checks, for each quota where a pod counts for more than before, that all pods there are within the limit.
func (c *checker) judge(change kubetest.Change, pod *corev1.Pod, now, before counted) {
	decided, reserved := c.decided[now.uid]
	if tries, ok := c.decided[pod.Namespace+"/"+pod.Name]; ok {
		decided, reserved = max(decided, tries), true
	}
	if !reserved {
		c.problem("%s (revision %d) was stored without a reservation", change.Key, change.Revision)
		decided = change.Revision
	}
	for _, quota := range c.path(now.quota) {
		if slices.Contains(c.path(before.quota), quota) && now.cpu <= before.cpu {
			continue
		}
		if sum, limit := c.sum(quota), c.mostSince(quota, decided); sum > limit {
			c.problem("%s of quota %s, created %s, took quota %s to %d of %d at revision %d; its room was given at %d",
				change.Key, now.quota, pod.CreationTimestamp, quota, sum, limit, change.Revision, decided)
		}
	}
}

func (c *checker) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) path(name string) (path []string) {
	for q := c.quotas[name]; q != nil; name, q = q.parent, c.quotas[q.parent] {
		path = append(path, name)
	}
	return path
}

// sum returns what the pods of a quota and of all quotas below it count for.
func (c *checker) sum(quota string) (sum int64) {
	for _, pod := range c.pods {
		if pod.cpu > 0 && slices.Contains(c.path(pod.quota), quota) {
			sum += pod.cpu
		}
	}
	return sum
}

// mostSince returns the highest limit from a revision until now, because a lowered limit does not revoke earlier
// admissions.
func (c *checker) mostSince(quota string, revision int64) (most int64) {
	sets := c.limits[quota]
	for i := len(sets) - 1; i >= 0; i-- {
		most = max(most, sets[i].cpu)
		if sets[i].from <= revision {
			break
		}
	}
	return most
}

// room returns what still fits into a quota.
func (c *checker) room(quota string) int64 {
	var room int64 = 1 << 62
	for _, q := range c.path(quota) {
		sets := c.limits[q]
		room = min(room, sets[len(sets)-1].cpu-c.sum(q))
	}
	return room
}
