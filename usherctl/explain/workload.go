package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"usher.dev/usher/cluster/reader"
)

// kindOf is a kind whose objects are found, and what users call it.
type kindOf struct {
	reader.Kind
	names []string
}

var podKind = reader.NewKind("", "v1", "Pod", "pods")

// workloadKinds returns the kinds that create pods, in the order in which a plain name is looked for.
func workloadKinds() []kindOf {
	return []kindOf{
		{reader.NewKind("apps", "v1", "Deployment", "deployments"), []string{"deploy"}},
		{reader.NewKind("apps", "v1", "StatefulSet", "statefulsets"), []string{"sts"}},
		{reader.NewKind("apps", "v1", "DaemonSet", "daemonsets"), []string{"ds"}},
		{reader.NewKind("batch", "v1", "Job", "jobs"), nil},
		{reader.NewKind("apps", "v1", "ReplicaSet", "replicasets"), []string{"rs"}},
		{reader.NewKind("", "v1", "ReplicationController", "replicationcontrollers"), []string{"rc"}},
	}
}

// isNamed reports whether users call the kind by a word, such as deployment, deployments, deployments.apps or deploy.
func (k kindOf) isNamed(word string) bool {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	return word == k.Resource || word == strings.ToLower(k.Kind.Kind) || slices.Contains(k.names, word)
}

// object is an object that was found.
type object struct {
	kind reader.Kind
	raw  json.RawMessage
	objectHead
}

// objectHead holds the fields that are read of any object.
type objectHead struct {
	Metadata struct {
		Name, Namespace, UID string
		Generation           int64
		OwnerReferences      []struct {
			Kind, Name, UID string
			Controller      bool
		}
		CreationTimestamp string
	}
	Spec struct {
		Replicas, Completions, Parallelism *int
		Paused, Suspend                    bool
		PodManagementPolicy                string
		UpdateStrategy                     struct {
			Type          string
			RollingUpdate struct{ Partition int }
		}
	}
	Status struct {
		ObservedGeneration                                                     int64
		Replicas, UpdatedReplicas, Active, Succeeded                           int
		DesiredNumberScheduled, CurrentNumberScheduled, UpdatedNumberScheduled int
		Conditions                                                             []condition
	}
}

func newObject(kind reader.Kind, raw json.RawMessage) (o object, err error) {
	o.kind, o.raw = kind, raw
	if err := json.Unmarshal(raw, &o.objectHead); err != nil {
		return o, fmt.Errorf("%s: the API server's answer cannot be read", kind.Resource)
	}
	return o, nil
}

// pods names the pods of a workload.
func (o object) pods() string { return o.String() + ", its pods" }

func (o object) owner() Owner {
	return Owner{Kind: o.kind.Kind, Name: o.Metadata.Name, UID: o.Metadata.UID}
}

// String names the object, such as Deployment apps/web.
func (o object) String() string {
	return o.kind.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// finder finds objects of one namespace.
type finder struct {
	reader.Source
	namespace string
}

func (f finder) get(ctx context.Context, kind reader.Kind, name string) (object, error) {
	raw, err := f.Get(ctx, kind, f.namespace, name)
	if err != nil {
		return object{}, err
	}
	return newObject(kind, raw)
}

// find returns what the arguments name: a pod, or the workload that would create it.
func (f finder) find(ctx context.Context, args []string) (object, error) {
	word, name := "", args[0]
	if len(args) == 2 {
		word, name = args[0], args[1]
	} else if before, after, found := strings.Cut(args[0], "/"); found {
		word, name = before, after
	}
	if word == "" || slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(word)) {
		return f.podOrWorkload(ctx, name)
	}
	for _, k := range workloadKinds() {
		if k.isNamed(word) {
			return f.get(ctx, k.Kind, name)
		}
	}
	return object{}, fmt.Errorf("%s: no kind whose pods are explained: name a pod, deployment, statefulset, daemonset, job, replicaset or "+
		"replicationcontroller; --namespace names the namespace", word)
}

// podOrWorkload returns a pod or, if there is none, a workload that has that name or would create a pod with it.
func (f finder) podOrWorkload(ctx context.Context, name string) (object, error) {
	found, err := f.get(ctx, podKind, name)
	if !errors.Is(err, reader.ErrNotFound) {
		return found, err
	}
	for _, of := range []string{name, withoutSuffix(name), withoutSuffix(withoutSuffix(name))} {
		for _, k := range workloadKinds() {
			found, err = f.get(ctx, k.Kind, of)
			if of != "" && !errors.Is(err, reader.ErrNotFound) {
				return found, err
			}
		}
	}
	return object{}, fmt.Errorf("%s/%s: there is no such pod, and no workload that would create it; --namespace names the namespace", f.namespace, name)
}

// withoutSuffix returns a name without what follows the last hyphen; "" if it has none.
func withoutSuffix(name string) string { return name[:max(strings.LastIndex(name, "-"), 0)] }

// creators returns the objects that create the pods of a workload, the newest first: itself, or the ReplicaSets of a
// Deployment.
func (f finder) creators(ctx context.Context, o object) (all []object, err error) {
	if o.kind.Kind != "Deployment" {
		return []object{o}, nil
	}
	sets := workloadKinds()[4].Kind
	items, err := f.List(ctx, sets, f.namespace)
	if err != nil {
		return nil, err
	}
	for _, raw := range items {
		set, err := newObject(sets, raw)
		if err != nil {
			return nil, err
		}
		for _, owner := range set.Metadata.OwnerReferences {
			if owner.UID == o.Metadata.UID {
				all = append(all, set)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b object) int {
		return strings.Compare(b.Metadata.CreationTimestamp, a.Metadata.CreationTimestamp)
	})
	return all, nil
}

// events returns the events of the namespace.
func (f finder) events(ctx context.Context) (events []json.RawMessage, err error) {
	for _, version := range []reader.Kind{reader.NewKind("", "v1", "Event", "events"), reader.NewKind("events.k8s.io", "v1", "Event", "events")} {
		if events, err = f.List(ctx, version, f.namespace); err == nil { // both have the same events
			return events, nil
		}
	}
	return nil, err
}

// missing returns how many pods a workload lacks, as far as its status says.
func (o object) missing() int {
	want, is := ptr.Deref(o.Spec.Replicas, 1), o.Status.Replicas
	switch o.kind.Kind {
	case "DaemonSet":
		want, is = o.Status.DesiredNumberScheduled, o.Status.CurrentNumberScheduled
	case "Job":
		want, is = o.parallel(), o.Status.Active
	}
	return max(0, want-is)
}

// parallel returns how many pods a Job should have at a time.
func (o object) parallel() int {
	most := ptr.Deref(o.Spec.Parallelism, 1)
	ended := slices.ContainsFunc(o.Status.Conditions, func(c condition) bool {
		return c.Status == "True" && slices.Contains([]string{"Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"}, c.Type)
	})
	switch {
	case ended || o.Spec.Completions == nil && o.Status.Succeeded > 0:
		return 0
	case o.Spec.Completions == nil:
		return most
	}
	return min(most, *o.Spec.Completions-o.Status.Succeeded)
}

// outdated returns how many pods of the current template a workload lacks.
func (o object) outdated() int {
	is := o.Status.UpdatedReplicas
	want := ptr.Deref(o.Spec.Replicas, 1)
	switch o.kind.Kind {
	case "Deployment":
	case "StatefulSet":
		want -= o.Spec.UpdateStrategy.RollingUpdate.Partition
	case "DaemonSet":
		want, is = o.Status.DesiredNumberScheduled, o.Status.UpdatedNumberScheduled
	default:
		return 0
	}
	if o.Spec.UpdateStrategy.Type == "OnDelete" {
		return 0
	}
	return max(0, want-is)
}

// stale reports whether the status is of an earlier spec. Jobs do not say.
func (o object) stale() bool {
	return o.kind.Kind != "Job" && o.Status.ObservedGeneration < o.Metadata.Generation
}
