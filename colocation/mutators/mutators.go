// Package mutators has the suite's steps that change objects, one a file. This file is their lists, each with the reason for its order.
package mutators

import (
	"context"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/config"
)

// NodeStatuses are the colocation suite's steps on node status updates. There is one, for the same reason.
func NodeStatuses(policy *config.Policy, ask AmplificationQuestions) []admit.Mutator[admit.Node] {
	return []admit.Mutator[admit.Node]{
		nodeAmplification(config.SectionOf[sections.NodeAmplification](policy), ask),
	}
}

// ColocatedPods are the colocation suite's steps on pods that are created. Profiles come first, for they give the batch resources that
// the next step repeats in an annotation; a profile's labels may name a quota, and its patch may bring GPUs too.
func ColocatedPods(ask ProfileQuestions, skipResources bool) []admit.Mutator[admit.Pod] {
	return []admit.Mutator[admit.Pod]{
		colocationProfile(ask, skipResources),
		extendedResourceSpec(),
		multiQuotaTree(ask.Trees),
		deviceResourceSpec(),
	}
}

// Reservations are the steps on reservations that are created.
func Reservations(ask ProfileQuestions, skipResources bool) []admit.Mutator[views.Reservation] {
	return []admit.Mutator[views.Reservation]{
		reservationProfile(ask, skipResources),
	}
}

// ElasticQuotas are the steps on elastic quotas that are created or updated. They touch different labels and annotations, in any order.
// tree gives the quotas that are stored, with those that were admitted a moment ago, quota.Pending.Over; and waits a moment for the one
// that is named.
func ElasticQuotas(tree func(ctx context.Context, awaited string) (*quota.Tree, error)) []admit.Mutator[views.ElasticQuota] {
	return []admit.Mutator[views.ElasticQuota]{
		quotaDefaults(tree),
		quotaReservations(),
	}
}
