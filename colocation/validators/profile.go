package validators

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/views"
)

// colocationProfile refuses to store a ClusterColocationProfile that cannot be evaluated, or whose pods
// the API server would refuse. It warns of what may be intended: a PriorityClass that does not exist yet, fields of the
// patch that pods do not have, and profiles that read what another writes, whose result depends on repetition. A stored
// profile may stay as it is: an update that does not change the spec is not checked.
func colocationProfile(profiles storedSet, classes priorityClasses) admit.Validator[views.ColocationProfile] {
	return admit.Validator[views.ColocationProfile]{
		Name: "profile",
		Doc: "refuses colocation profiles that cannot be evaluated; warns of those that disturb each other, " +
			"and of classes that are unknown or do not go together",
		Needs: []string{api.CollectionColocationProfiles, api.CollectionPriorityClasses},
		Run: func(_ context.Context, req *admit.Request, view *views.ColocationProfile) (field.ErrorList, error) {
			switch {
			case view.Deleting():
				return pass(req, "the profile is being deleted")
			case !view.SpecChanged(req.OldObject):
				return pass(req, "the update does not change spec")
			}
			object := view.Object()
			if req.Object.Err() != nil {
				return nil, nil // reported by the chain
			}
			if problems := profile.Check(&object); len(problems) > 0 {
				return problems, nil
			}
			req.Explain("the profile can be evaluated")
			return nil, warnOfProfile(req, &object, profiles, classes)
		},
	}
}

type (
	// storedSet returns the stored profiles.
	storedSet = func() (*profile.Set, error)
	// priorityClasses returns the value and the preemption policy of a PriorityClass.
	priorityClasses = func(name string) (value int32, preemption *corev1.PreemptionPolicy, known bool, err error)
)

func warnOfProfile(req *admit.Request, object *api.ClusterColocationProfile, profiles storedSet, classes priorityClasses) error {
	if err := warnOfClass(req, object, classes); err != nil {
		return err
	}
	others, err := profiles()
	if err != nil {
		return err
	}
	set, _ := profile.Compile([]api.ClusterColocationProfile{*object})
	compiled := set.Profiles()[0]
	if compiled.Patch != nil {
		for _, unknown := range compiled.Patch.UnknownFields(corev1.Pod{}) {
			req.Warnf("spec.patch: %s", unknown)
		}
	}
	for _, hazard := range compiled.Hazards(others) {
		req.Warnf("%s", hazard)
	}
	return nil
}

// warnOfClass warns of a PriorityClass that does not exist, and of one that qos-priority refuses with the profile's QoS class.
func warnOfClass(req *admit.Request, object *api.ClusterColocationProfile, classes priorityClasses) error {
	name := object.Spec.PriorityClassName
	label, labelled := object.Spec.Labels[api.LabelPriorityClass]
	var priority *int32
	if name != "" {
		value, _, known, err := classes(name)
		if err != nil {
			return err
		}
		if !known {
			req.Warnf("spec.priorityClassName: PriorityClass %s does not exist; until it does, the pods that match are refused", name)
			return nil
		}
		priority = &value
	} else if !labelled {
		return nil // the pods have their own
	}
	qos := api.RawQoS(cmp.Or(string(object.Spec.QoSClass), object.Spec.Labels[api.LabelQoSClass]))
	class := api.RawPriorityClass(label, labelled, priority)
	rule, ruled := compatibleClasses[qos]
	_, keeps := object.Annotations[api.AnnotationSkipUpdateResources]
	switch {
	case ruled && !rule.advised && !slices.Contains(rule.classes, class):
		req.Warnf("QoS class %s does not go with priority class %s: the pods that match are refused; set priorityClassName to one in %s",
			qos, orNone(class), ranges(rule.classes))
	case class == api.PriorityBatch && qos != api.QoSBE && qos != api.QoSNone && !keeps:
		req.Warnf("QoS class %s does not go with batch resources, which cpu and memory become: the pods that match are refused; set qosClass BE", qos)
	}
	return nil
}
