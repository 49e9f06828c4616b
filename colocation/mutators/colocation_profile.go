package mutators

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
)

// ProfileQuestions are what the steps that apply ClusterColocationProfiles ask. An error is not the user's fault; it wraps
// admit.ErrNotReady when the answer has not arrived yet.
type ProfileQuestions struct {
	// Profiles gives the profiles as they are now.
	Profiles func() (*profile.Set, error)
	// Namespace gives the labels of a namespace. It is asked only if a profile that might match has a namespaceSelector. A
	// namespace that is not known matches no namespaceSelector.
	Namespace NamespaceLabels
	// OwnersNamespace is Namespace for one that a reservation's author names: nobody has said that it exists, so that it is not known
	// where Namespace would wait for it.
	OwnersNamespace NamespaceLabels
	// PriorityClass gives the value and the preemption policy of a PriorityClass.
	PriorityClass func(name string) (value int32, preemption *corev1.PreemptionPolicy, known bool, err error)
	// Trees are what the step on quota trees asks, which follows on the profiles.
	Trees TreeQuestions
}

// NamespaceLabels gives the labels of a namespace.
type NamespaceLabels func(name string) (labels map[string]string, known bool, err error)

// colocationProfile gives pods what the ClusterColocationProfiles that match them say. All are matched with the pod as
// it was submitted, and applied in the order of their names, so that the last one wins. Afterwards cpu and memory become
// the resources of the pod's class if a profile asked for a class, unless skipResources.
func colocationProfile(ask ProfileQuestions, skipResources bool) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name:  "colocation-profile",
		Doc:   "applies the colocation profiles that match a pod, by name, the last wins; then translates cpu and memory for its class",
		Needs: []string{api.CollectionColocationProfiles, admit.CollectionNamespaces, api.CollectionPriorityClasses},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			return ask.colocate(req, colocated{pod.Meta, pod}, skipResources, PodSubject(req.Namespace, pod, ask))
		},
	}
}

// PodSubject is what profiles see of a pod, which is in the given namespace whatever its metadata says.
func PodSubject(namespace string, pod *admit.Pod, ask ProfileQuestions) profile.Subject {
	return profile.Subject{
		Labels:     pod.Labels(),
		Workload:   func() profile.Workload { return workloadOf("Pod", namespace, pod.Meta) },
		Namespaces: func() ([]labels.Set, error) { return ask.labelsOf(ask.Namespace, namespace) },
	}
}

// colocate applies the profiles that match a subject to it.
func (q ProfileQuestions) colocate(req *admit.Request, to colocated, skipResources bool, subject profile.Subject) error {
	profiles, err := q.profilesFor(req, subject)
	if err != nil || len(profiles) == 0 {
		return err
	}
	if err := q.apply(profiles, to); err != nil {
		return err
	}
	if !skipResources && to.pod != nil && slices.ContainsFunc(profiles, func(p *profile.Profile) bool { return p.AsksForClass }) {
		translate(req, to.pod, classOf(to.Meta, to.pod))
	}
	return nil
}

// profilesFor finds the profiles to apply, and tells of broken ones that might have been for the subject.
func (q ProfileQuestions) profilesFor(req *admit.Request, subject profile.Subject) ([]*profile.Profile, error) {
	set, err := q.Profiles()
	if err != nil {
		return nil, err
	}
	matches, err := set.Match(subject)
	if err != nil {
		return nil, err
	}
	for _, broken := range matches.Broken {
		req.Warnf("colocation profile %s is broken, not applied: %s", broken.Name, broken.Problems()[0].Err)
	}
	return matches.Applied, nil
}

// labelsOf gives the labels of namespaces; of none at all if one is not known.
func (q ProfileQuestions) labelsOf(ask NamespaceLabels, namespaces ...string) (all []labels.Set, _ error) {
	for _, name := range namespaces {
		found, known, err := ask(name)
		if err != nil || !known {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// workloadOf names what an object is a replica of: its controlling owner, else what it shares its generateName with.
func workloadOf(kind, namespace string, object admit.Meta) profile.Workload {
	owner, ok := object.Controller()
	switch {
	case ok && owner.Kind == "ReplicaSet":
		return profile.ReplicaSetWorkload(namespace, owner.Name, object.Label("pod-template-hash"))
	case ok:
		return profile.Workload{Namespace: namespace, Kind: owner.Kind, Name: owner.Name}
	case object.GenerateName() != "":
		return profile.Workload{Namespace: namespace, Kind: kind, Name: object.GenerateName()}
	}
	return profile.Workload{Namespace: namespace, Kind: kind, Name: object.Name()}
}
