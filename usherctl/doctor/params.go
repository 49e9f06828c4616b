package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/internal/resources"
	"usher.dev/usher/usherctl/discovery"
	"usher.dev/usher/usherctl/report"
)

// paramKindProblem returns the finding for a policy whose parameters are of a kind that the API server does not serve.
func (p admissionPolicy) paramKindProblem(ctx context.Context, f *snapshot, bound bool) []report.Finding {
	if p.Spec.ParamKind == nil {
		return nil
	}
	_, err := f.paramResource(ctx, *p.Spec.ParamKind)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, reader.ErrNotFound):
		return []report.Finding{unreadFinding(err, "the parameters of the "+p.object())}
	}
	missing := p.problem("policy-param-kind", "spec.paramKind is %s %s, which the API server does not serve. %s Install its "+
		"CustomResourceDefinition, or correct "+
		"the kind.", p.Spec.ParamKind.APIVersion, p.Spec.ParamKind.Kind, p.cannotJudge())
	if !bound || !p.fails() {
		missing = milder(missing, report.Warning)
	}
	return []report.Finding{missing}
}

// paramResource returns the resource of a kind of parameters, or ErrNotFound for one that is not served. That of files is known only if
// Kubernetes has it, or a file.
func (f *snapshot) paramResource(ctx context.Context, of registration.ParamKind) (discovery.Resource, error) {
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	r := discovery.ResourceOf(ctx, f.source, kind)
	unreadable := errors.As(r.Err, new(*reader.UnreadableError)) && !errors.Is(r.Err, reader.ErrNotFound)
	switch {
	case r.Err == nil:
		return r, nil
	case unreadable:
		return r, r.Err
	case !f.source.Live() && (strings.Contains(kind.Group, ".") ||
		slices.ContainsFunc(resources.Kinds(), func(k resources.Kind) bool { return k.GroupKind == kind.GroupKind() })):
		return r, nil
	}
	return r, reader.ErrNotFound
}

// paramProblems returns the finding for a binding whose parameters do not exist: those in the namespace of the request, if no namespace has
// any. Files without any of the kind say nothing.
func (b admissionPolicy) paramProblems(ctx context.Context, f *snapshot, policy admissionPolicy) []report.Finding {
	ref, of := b.Spec.ParamRef, policy.Spec.ParamKind
	if ref == nil || of == nil {
		return nil
	}
	r, err := f.paramResource(ctx, *of)
	if err != nil {
		return nil // an unknown kind is reported for the policy
	}
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind)
	anywhere := ref.Namespace == "" && (r.Namespaced || !f.source.Live())
	if f.source.Live() && anywhere && kind.Group == "" {
		return nil // all ConfigMaps of a cluster are too many: leftOut says so
	}
	exists, err := f.hasParam(ctx, *ref, reader.NewKind(kind.Group, kind.Version, kind.Kind, r.Name), anywhere)
	if err != nil {
		return []report.Finding{unreadFinding(err, "the parameters of the "+b.object())}
	}
	if exists {
		return nil
	}
	which := strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
	if ref.Name == "" {
		which = "with the labels " + metav1.FormatLabelSelector(ref.Selector)
	}
	then := "parameterNotFoundAction is Allow, so it is without effect."
	deny := ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == registration.DenyAction
	if deny {
		then = "parameterNotFoundAction is Deny. " + policy.cannotJudge()
	}
	missing := b.problem("policy-param-missing", "spec.paramRef names the %s %s, which does not exist. %s Create it, or correct the name.", of.Kind,
		which, then)
	if !deny || !policy.fails() {
		missing = milder(missing, report.Warning)
	}
	return []report.Finding{missing}
}

// hasParam reports whether there is a parameter that a reference names, in any namespace or in its own, or whether files do not say.
func (f *snapshot) hasParam(ctx context.Context, ref registration.ParamRef, kind reader.Kind, anywhere bool) (bool, error) {
	if ref.Name != "" && !anywhere && f.source.Live() { // which needs no right to list
		_, err := f.source.Get(ctx, kind, ref.Namespace, ref.Name)
		return err == nil, missingIsFine(err)
	}
	selects, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return false, fmt.Errorf("spec.paramRef.selector: %w", err)
	}
	objects, err := reader.All[metav1.PartialObjectMetadata](f.source.List(ctx, kind, ref.Namespace))
	is := func(o metav1.PartialObjectMetadata) bool {
		return ref.Name == o.Name || ref.Name == "" && selects.Matches(labels.Set(o.Labels))
	}
	return len(objects) == 0 && !f.source.Live() || slices.ContainsFunc(objects, is), err
}
