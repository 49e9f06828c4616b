package config

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Trial is a pod that has all that a section adds to pods. An API server validates it in a dry run.
type Trial struct {
	Section string
	Pod     *corev1.Pod
	// Parts are the paths of the parts of the pod that are the section's, with their paths in the policy. All others are nobody's.
	Parts map[string]*field.Path
}

// Trials returns the pods of the sections that add something to pods.
func (p *Policy) Trials() (all []Trial) {
	for _, part := range p.parts {
		if part.trial == nil {
			continue
		}
		if t := part.trial(); t != nil {
			t.Section = part.name
			all = append(all, *t)
		}
	}
	return all
}

// Problems returns the problems of the section, with their paths in the policy, for which an API server refuses the pod as invalid. It
// returns none for any other refusal, such as that of a webhook, a quota, or a ValidatingAdmissionPolicy, whose reason is Invalid, too.
func (t *Trial) Problems(refusal metav1.Status) (problems []error) {
	if refusal.Reason != metav1.StatusReasonInvalid || refusal.Details == nil ||
		!strings.HasPrefix(refusal.Message, fmt.Sprintf("Pod %q is invalid: ", t.Pod.Name)) {
		return nil
	}
	for _, cause := range refusal.Details.Causes {
		if at, ok := t.at(cause.Field); ok {
			problems = append(problems, errors.New(at+": "+cause.Message))
		}
	}
	return problems
}

// at returns the path in the policy of a field of the pod, and whether it has one.
func (t *Trial) at(path string) (string, bool) {
	for end := len(path); end > 0; end = strings.LastIndexAny(path[:end], ".[") {
		if at, ok := t.Parts[path[:end]]; ok {
			return at.String() + path[end:], true
		}
	}
	return "", false
}
