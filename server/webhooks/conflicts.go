package webhooks

import (
	"errors"
	"fmt"
	"regexp"

	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/certs/rotation"
)

// kubectlApply is the field manager from the time before `usher webhooks apply`: `usher webhooks | kubectl apply -f -`.
const kubectlApply = "kubectl-client-side-apply"

// conflict is a field of an entry that another manager has set to another value.
type conflict struct {
	entry, field, condition, manager string
	bundle                           bool // the field is the caBundle
}

var (
	ownedBy     = regexp.MustCompile(`conflict with "([^"]*)"`)
	fieldOf     = regexp.MustCompile(`^\.webhooks\[name="([^"]*)"\]\.([A-Za-z]+)(.*)`)
	conditionOf = regexp.MustCompile(`^\[name="([^"]*)"\]`)
)

// conflictsOf returns the fields that are in the way of a server-side apply without force. It reports false for any
// other error.
func conflictsOf(err error) (all []conflict, ok bool) {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || status.ErrStatus.Details == nil {
		return nil, false
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		c := conflict{field: cause.Field}
		if m := ownedBy.FindStringSubmatch(cause.Message); m != nil {
			c.manager = m[1]
		}
		if m := fieldOf.FindStringSubmatch(cause.Field); m != nil {
			c.entry, c.field, c.bundle = m[1], m[2], m[3] == ".caBundle"
			if n := conditionOf.FindStringSubmatch(m[3]); n != nil {
				c.condition = n[1]
			}
		}
		all = append(all, c)
	}
	return all, len(all) > 0
}

// yield gives the fields in conflict the values that others have set, and returns, one a line, what stays as it is.
// Selectors already have what others added; and what kubectl applied for usher is usher's.
func (c configuration) yield(registered configuration, all []conflict) (left []string) {
	for _, one := range all {
		ours, theirs := c.entry(one.entry), registered.entry(one.entry)
		if one.manager == kubectlApply || ours == nil || theirs == nil {
			continue
		}
		was := *ours
		if !one.take(ours, theirs) || one.manager == rotation.BundleManager {
			continue
		}
		for _, part := range differing(was, *ours) {
			left = append(left, fmt.Sprintf("%s: %s stays %s, as %q has set it; usher needs %s",
				one.entry, part.field, part.is, one.manager, part.want))
		}
	}
	return left
}

// take sets a field to their value. It reports false for a field that usher sets all the same.
func (one conflict) take(ours, theirs *Hook) bool {
	switch one.field {
	case "rules":
		ours.Rules = theirs.Rules
	case "failurePolicy":
		ours.FailurePolicy = theirs.FailurePolicy
	case "matchPolicy":
		ours.MatchPolicy = theirs.MatchPolicy
	case "sideEffects":
		ours.SideEffects = theirs.SideEffects
	case "timeoutSeconds":
		ours.TimeoutSeconds = theirs.TimeoutSeconds
	case "admissionReviewVersions":
		ours.AdmissionReviewVersions = theirs.AdmissionReviewVersions
	case "reinvocationPolicy":
		ours.ReinvocationPolicy = theirs.ReinvocationPolicy
	case "clientConfig":
		if one.bundle {
			ours.ClientConfig.CABundle = theirs.ClientConfig.CABundle
		}
		return one.bundle
	case "matchConditions":
		ours.MatchConditions = replaced(ours.MatchConditions, theirs.MatchConditions, one.condition)
	default: // selectors
		return false
	}
	return true
}

// replaced returns conditions with the one of that name from others.
func replaced(conditions, others []registration.MatchCondition, name string) (all []registration.MatchCondition) {
	for _, c := range conditions {
		for _, other := range others {
			if c.Name == name && other.Name == name {
				c = other
			}
		}
		all = append(all, c)
	}
	return all
}
