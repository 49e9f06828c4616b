package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
)

// kindOf is a kind whose objects are found, and what users call it.
type kindOf struct {
	reader.Kind
	names []string
}

var podKind = kind("", "v1", "Pod", "pods")

func kind(group, version, name, resource string) reader.Kind {
	return reader.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: name}, Resource: resource}
}

// workloadKinds returns the kinds that create pods, in the order in which a plain name is looked for.
func workloadKinds() []kindOf {
	return []kindOf{
		{kind("apps", "v1", "Deployment", "deployments"), []string{"deploy"}},
		{kind("apps", "v1", "StatefulSet", "statefulsets"), []string{"sts"}},
		{kind("apps", "v1", "DaemonSet", "daemonsets"), []string{"ds"}},
		{kind("batch", "v1", "Job", "jobs"), nil},
		{kind("apps", "v1", "ReplicaSet", "replicasets"), []string{"rs"}},
		{kind("", "v1", "ReplicationController", "replicationcontrollers"), []string{"rc"}},
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
		OwnerReferences      []struct {
			Kind, Name, UID string
			Controller      bool
		}
		CreationTimestamp string
	}
	Spec struct {
		Replicas, Completions *int
	}
	Status struct {
		Replicas, DesiredNumberScheduled, CurrentNumberScheduled, Active, Succeeded int
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
	return object{}, fmt.Errorf("%s: no kind whose pods are explained: name a pod, deployment, statefulset, daemonset, job, replicaset or replicationcontroller; "+
		"--namespace names the namespace", word)
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
func withoutSuffix(name string) string {
	before, _, _ := cutLast(name, "-")
	if before == name {
		return ""
	}
	return before
}

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

// failures returns the failed creations of pods, the newest first.
func (f finder) failures(ctx context.Context, o object, creators []object) (found []Failure, err error) {
	owners := []Owner{o.owner()}
	for _, c := range creators {
		owners = append(owners, c.owner())
	}
	for _, version := range []reader.Kind{kind("", "v1", "Event", "events"), kind("events.k8s.io", "v1", "Event", "events")} {
		var events []json.RawMessage
		if events, err = f.List(ctx, version, f.namespace); err == nil {
			var unreadable int
			if found, unreadable = Failures(events, owners); unreadable > 0 {
				err = fmt.Errorf("%d events cannot be read", unreadable)
			}
			break // both have the same events
		}
	}
	for _, of := range append(creators[:len(creators):len(creators)], o) {
		if failure, has := ConditionOf(of.raw, of.owner()); has {
			found = append(found, failure)
		}
	}
	return found, err
}

// typed returns the object with the apiVersion and the kind that items of lists lack.
func (o object) typed() []byte {
	return WithType(o.raw, strings.TrimPrefix(o.kind.Group+"/"+o.kind.Version, "/"), o.kind.Kind)
}

// missing returns how many pods a workload lacks, as far as its status says.
func (o object) missing() int {
	want, is := 1, o.Status.Replicas
	if o.Spec.Replicas != nil {
		want = *o.Spec.Replicas
	}
	switch o.kind.Kind {
	case "DaemonSet":
		want, is = o.Status.DesiredNumberScheduled, o.Status.CurrentNumberScheduled
	case "Job":
		want, is = 1, o.Status.Active+o.Status.Succeeded
	}
	return max(0, want-is)
}
