package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/review"
)

// policyKinds are the kinds of admission policies of the API server itself. Each has a kind of bindings.
var policyKinds = []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}

// admissionPolicy is an admission policy, or a binding, as far as they are examined.
type admissionPolicy struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta           `json:"metadata"`
	Spec     struct{ PolicyName string } `json:"spec"`
}

// readPolicies reads the admission policies of a kind and their bindings. A version of Kubernetes that has none is fine.
func (f *snapshot) readPolicies(ctx context.Context, kind string) (policies, bindings []admissionPolicy, err error) {
	read := func(kind, resource string) (all []admissionPolicy, err error) {
		if all, err = reader.All[admissionPolicy](f.source.List(ctx, reader.NewKind(registrationGroup, "v1", kind, resource), "")); errors.Is(err, reader.ErrNotFound) {
			err = nil
		}
		return all, err
	}
	resource := strings.TrimSuffix(strings.ToLower(kind), "y")
	policies, err = read(kind, resource+"ies")
	if err == nil {
		bindings, err = read(kind+"Binding", resource+"ybindings")
	}
	return policies, bindings, err
}

// policyProblems returns the findings for admission policies that have no effect: without a binding, or a binding to none.
func policyProblems(kind string, policies, bindings []admissionPolicy) (found []review.Finding) {
	add := func(id, kind, name, format string, args ...any) {
		about := subject{entry: entry{kind: kind, configuration: metav1.ObjectMeta{Name: name}}}
		one := problem(id, about, format, args...)
		one.Object = kind + " " + name
		found = append(found, one)
	}
	for _, b := range bindings {
		if !slices.ContainsFunc(policies, func(p admissionPolicy) bool { return p.Metadata.Name == b.Spec.PolicyName }) {
			add("policy-missing", kind+"Binding", b.Metadata.Name, "it binds the %s %s, which does not exist: nothing is checked or changed by it. Apply the policy, or remove "+
				"the binding.", kind, b.Spec.PolicyName)
		}
	}
	for _, p := range policies {
		if !slices.ContainsFunc(bindings, func(b admissionPolicy) bool { return p.Metadata.Name == b.Spec.PolicyName }) {
			add("policy-not-bound", kind, p.Metadata.Name, "no %sBinding names it: it is without effect.", kind)
		}
	}
	return found
}
