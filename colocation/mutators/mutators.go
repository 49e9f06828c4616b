// Package mutators has the suite's steps that change objects, one per file. This file has the lists of steps for each
// route, with the reason for their order.
package mutators

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
)

// NodeStatuses returns the steps on updates of a node's status. There is a single one.
func NodeStatuses(policy *config.Policy, slo sections.SLORatios, metrics NodeMetrics) []admit.Mutator[admit.Node] {
	return []admit.Mutator[admit.Node]{
		nodeAmplification(config.SectionOf[*sections.NodeAmplification](policy), slo, metrics),
	}
}

// ColocatedPods returns the steps on pods that are created. Profiles come first: they determine the batch resources
// that the next step repeats in an annotation, their labels may name a quota, and their patch may add GPUs and claims.
func ColocatedPods(ask ProfileQuestions, skipResources bool, devices quota.Devices) []admit.Mutator[admit.Pod] {
	return []admit.Mutator[admit.Pod]{
		colocationProfile(ask, skipResources),
		extendedResourceSpec(),
		multiQuotaTree(ask.Trees),
		deviceResourceSpec(),
		deviceClaims(devices),
	}
}

// Reservations returns the steps on reservations that are created.
func Reservations(ask ProfileQuestions, skipResources bool) []admit.Mutator[views.Reservation] {
	return []admit.Mutator[views.Reservation]{
		reservationProfile(ask, skipResources),
	}
}

// ElasticQuotas returns the steps on elastic quotas that are created or updated. They change different labels and
// annotations, so their order does not matter. tree returns the stored quotas with those that were just admitted
// (rules.Pending.Over); it waits briefly for the quota that is named. moving is ledger.Moving, or nil.
func ElasticQuotas(tree quotaTree, moving func(record, version string) string) []admit.Mutator[views.ElasticQuota] {
	return []admit.Mutator[views.ElasticQuota]{
		quotaDefaults(tree),
		quotaReservations(moving),
	}
}
