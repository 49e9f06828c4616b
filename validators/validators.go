// Package validators holds the checks of objects, one check a file, and the lists of them.
package validators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/profile"
)

// Pods are the tutorial's checks of pods that are created. All run; their order is that of the messages.
func Pods(policy *config.Policy) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		deniedNames(policy.Names),
	}
}

// PodQuestions are what the colocation suite's checks of pods ask.
type PodQuestions struct {
	LabelRules   LabelRules
	RulesFrom    string // where the label rules stand, as namespace/name of a ConfigMap
	Reservations Reservations
	Nodes        NodeLabels
}

// ColocatedPods are the colocation suite's checks of pods that are created or updated, in the reference's order.
func ColocatedPods(ask PodQuestions, skipPriority bool) []admit.Validator[admit.Pod] {
	return []admit.Validator[admit.Pod]{
		reservePod(),
		qosPriority(skipPriority),
		deviceResource(),
		requiredLabels(ask.RulesFrom, ask.LabelRules),
		topology(),
		reservationFit(ask.Reservations, ask.Nodes),
	}
}

// Bindings are the checks of who binds a pod to a node.
func Bindings(policy *config.Policy, pods PodMeta) []admit.Validator[admit.Binding] {
	return []admit.Validator[admit.Binding]{
		binding(policy.Binding, pods),
	}
}

// Profiles are the checks of colocation profiles that are created or updated.
func Profiles(profiles func() (*profile.Set, error), classes priorityClasses) []admit.Validator[admit.ColocationProfile] {
	return []admit.Validator[admit.ColocationProfile]{
		colocationProfile(profiles, classes),
	}
}

// ReservationChecks are the checks of reservations that are created or updated.
func ReservationChecks() []admit.Validator[admit.Reservation] {
	return []admit.Validator[admit.Reservation]{
		reservation(),
	}
}
