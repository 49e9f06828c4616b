// Package discovery tells the resources of kinds: as an API server has them, or files that stand for a cluster.
package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"usher.dev/usher/cluster/reader"
)

// Resource is the resource of a kind.
type Resource struct {
	Name       string
	Namespaced bool
	Err        error // why it is not known; ErrNotFound if the API server does not serve it
}

// ResourceOf returns the resource of a kind: by discovery or, for files, by a CustomResourceDefinition among them.
func ResourceOf(ctx context.Context, s reader.Source, kind schema.GroupVersionKind) Resource {
	if !s.Live() {
		if crd, is := definitionAmong(ctx, s, kind.GroupKind()); is {
			return Resource{Name: crd.Spec.Names.Plural, Namespaced: crd.Spec.Scope == "Namespaced"}
		}
		return Resource{Err: errors.New("not known")}
	}
	list, err := resources(ctx, s, kind.GroupVersion())
	if err != nil {
		return Resource{Err: err}
	}
	i := slices.IndexFunc(list, func(r metav1.APIResource) bool { return r.Kind == kind.Kind && !strings.Contains(r.Name, "/") })
	if i < 0 {
		return Resource{Err: fmt.Errorf("%s of %s %w", kind.Kind, kind.GroupVersion(), reader.ErrNotFound)}
	}
	return Resource{Name: list[i].Name, Namespaced: list[i].Namespaced}
}

// MinorVersion returns the minor version that the API server has or emulates, or 0 if it is unknown.
func MinorVersion(ctx context.Context, s reader.Source) (minor int) {
	is, err := reader.One[version.Info](s.Read(ctx, "/version"))
	if err == nil && is.Major == "1" {
		_, _ = fmt.Sscanf(cmp.Or(is.EmulationMinor, is.Minor), "%d", &minor)
	}
	return minor
}

// resources returns what an API server serves of a version.
func resources(ctx context.Context, s reader.Source, of schema.GroupVersion) ([]metav1.APIResource, error) {
	list, err := reader.One[metav1.APIResourceList](s.Read(ctx, reader.GroupPath(of.Group)+"/"+of.Version))
	return list.APIResources, err
}

// versions returns the versions of a group that an API server serves.
func versions(ctx context.Context, s reader.Source, group string) (served []string, err error) {
	raw, err := s.Read(ctx, reader.GroupPath(group))
	if errors.Is(err, reader.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Versions json.RawMessage
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var named []metav1.GroupVersionForDiscovery
	if group == "" {
		return served, json.Unmarshal(list.Versions, &served)
	}
	err = json.Unmarshal(list.Versions, &named)
	for _, v := range named {
		served = append(served, v.Version)
	}
	return served, err
}

// sharing lists the groups of Kubernetes that serve the same objects: for one resource they are equivalent.
var sharing = map[string][]string{
	"events":                 {"", "events.k8s.io"},
	"deployments":            {"apps", "extensions"},
	"daemonsets":             {"apps", "extensions"},
	"replicasets":            {"apps", "extensions"},
	"ingresses":              {"networking.k8s.io", "extensions"},
	"networkpolicies":        {"networking.k8s.io", "extensions"},
	"podsecuritypolicies":    {"policy", "extensions"},
	"replicationcontrollers": {"", "extensions"},
}

// Equivalent is another resource for the same objects.
type Equivalent struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// SameFields reports that only apiVersion differs, as in a custom resource without a conversion webhook.
	SameFields bool
}

// Equivalents returns the resources under which the same objects are served, but for the given one.
func Equivalents(ctx context.Context, s reader.Source, of schema.GroupVersionResource, subresource string) (all []Equivalent, err error) {
	if !s.Live() {
		return equivalentsInFiles(ctx, s, of, subresource)
	}
	groups := []string{of.Group}
	if shared := sharing[of.Resource]; slices.Contains(shared, of.Group) {
		groups = shared
	}
	for _, group := range groups {
		versions, err := versions(ctx, s, group)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			other := schema.GroupVersionResource{Group: group, Version: v, Resource: of.Resource}
			if other == of {
				continue
			}
			found, err := equivalent(ctx, s, other, subresource)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// equivalent returns a resource if it is served.
func equivalent(ctx context.Context, s reader.Source, of schema.GroupVersionResource, subresource string) ([]Equivalent, error) {
	list, err := resources(ctx, s, of.GroupVersion())
	if err != nil {
		return nil, err
	}
	name := of.Resource
	if subresource != "" {
		name += "/" + subresource
	}
	i := slices.IndexFunc(list, func(r metav1.APIResource) bool { return r.Name == name })
	if i < 0 {
		return nil, nil
	}
	kind := of.GroupVersion().WithKind(list[i].Kind)
	if list[i].Version != "" {
		kind.Group, kind.Version = list[i].Group, list[i].Version
	}
	crd, err := definitionOf(ctx, s, of.GroupResource())
	sameFields := err == nil && crd.Spec.Conversion.Strategy != "Webhook"
	return []Equivalent{{Resource: of, Kind: kind, SameFields: sameFields}}, nil
}

// equivalentsInFiles knows the stable versions of Kubernetes' own kinds, which every cluster serves, and those of
// CustomResourceDefinitions.
func equivalentsInFiles(ctx context.Context, s reader.Source, of schema.GroupVersionResource, subresource string) (all []Equivalent, err error) {
	if crd, err := definitionOf(ctx, s, of.GroupResource()); err == nil {
		return crd.equivalents(of, subresource), nil
	}
	if strings.Contains(of.Group, ".") && !strings.HasSuffix(of.Group, ".k8s.io") {
		return nil, fmt.Errorf("there is no CustomResourceDefinition %s", of.GroupResource())
	}
	switch of.GroupResource() {
	case schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:
		for _, v := range []string{"v1", "v2"} {
			all = append(all, builtIn("autoscaling", v, of.Resource, "HorizontalPodAutoscaler"))
		}
	case schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		all = append(all, builtIn("", "v1", "events", "Event"), builtIn("events.k8s.io", "v1", "events", "Event"))
	}
	return all, nil
}

func builtIn(group, version, resource, kind string) Equivalent {
	of := schema.GroupVersion{Group: group, Version: version}
	return Equivalent{Resource: of.WithResource(resource), Kind: of.WithKind(kind)}
}
