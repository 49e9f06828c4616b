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

// ProfileQuestions holds the questions of the steps that apply ClusterColocationProfiles. An error is never the user's
// fault; it wraps admit.ErrNotReady if the data is not available yet.
type ProfileQuestions struct {
	// Profiles returns the current profiles.
	Profiles func() (*profile.Set, error)
	// Namespace returns the labels of a namespace. It is called only if a profile that might match has a
	// namespaceSelector. An unknown namespace matches no namespaceSelector.
	Namespace NamespaceLabels
	// OwnersNamespace is Namespace for a namespace that the author of a reservation names. It need not exist, so it
	// counts as unknown where Namespace would wait for it.
	OwnersNamespace NamespaceLabels
	// PriorityClass returns the value and the preemption policy of a PriorityClass.
	PriorityClass func(name string) (value int32, preemption *corev1.PreemptionPolicy, known bool, err error)
	// LimitRanges returns the LimitRanges of a namespace, for the step on pods.
	LimitRanges func(namespace string) ([]*corev1.LimitRange, error)
	// Trees is for the step on quota trees, which runs after the profiles.
	Trees TreeQuestions
}

// NamespaceLabels returns the labels of a namespace.
type NamespaceLabels func(name string) (labels map[string]string, known bool, err error)

// colocationProfile applies the ClusterColocationProfiles that match a pod. All are matched with the pod as submitted,
// and applied in the order of their names, so the last one wins. Then cpu and memory are translated to the resources of
// the pod's class if a profile requested a class, unless skipResources.
func colocationProfile(ask ProfileQuestions, skipResources bool) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name:  "colocation-profile",
		Doc:   "applies the colocation profiles that match a pod, by name, the last wins; then translates cpu and memory for its class",
		Needs: []string{api.CollectionColocationProfiles, admit.CollectionNamespaces, api.CollectionPriorityClasses, admit.CollectionLimitRanges},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			return ask.colocate(req, colocated{pod.Meta, pod, req.Namespace}, skipResources, PodSubject(req.Namespace, pod, ask))
		},
	}
}

// PodSubject returns what profiles match of a pod in the given namespace, whatever its metadata says.
func PodSubject(namespace string, pod *admit.Pod, ask ProfileQuestions) profile.Subject {
	return profile.Subject{
		Labels:     pod.Labels(),
		Workload:   func() admit.Origin { return admit.OriginOf("Pod", namespace, pod.Meta) },
		Namespaces: func() ([]labels.Set, error) { return ask.labelsOf(ask.Namespace, namespace) },
	}
}

// colocate applies the profiles that match a subject to it.
func (q ProfileQuestions) colocate(req *admit.Request, to colocated, skipResources bool, subject profile.Subject) error {
	profiles, err := q.profilesFor(req, subject)
	if err != nil {
		return err
	}
	if len(profiles) == 0 {
		req.Explain("no colocation profile matches")
		return nil
	}
	if err := q.apply(req, profiles, to); err != nil {
		return err
	}
	switch {
	case skipResources:
		req.Explain("cpu and memory keep their names: gate %s is on", string(api.GateColocationProfileSkipMutatingResources))
	case to.pod == nil:
		req.Explain("there is no pod template whose cpu and memory could be renamed")
	case !slices.ContainsFunc(profiles, func(p *profile.Profile) bool { return p.RequestsClass }):
		req.Explain("cpu and memory keep their names: no matching profile requests a class")
	default:
		return q.translate(req, to, profiles)
	}
	return nil
}

// profilesFor returns the profiles to apply, and warns of broken profiles that might match the subject.
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

// labelsOf returns the labels of namespaces; none at all if one is unknown.
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
