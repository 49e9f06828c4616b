package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/command/webhookmatch"
)

// resource is under which name an API server has the objects of a kind.
type resource struct {
	name       string
	namespaced bool
	err        error // why that is not known
}

// resourceOf returns the resource of a kind: by discovery or, for files, by a CustomResourceDefinition among them.
func (e *Examiner) resourceOf(ctx context.Context, kind schema.GroupVersionKind) resource {
	if known, found := e.served[kind]; found {
		return known
	}
	found := resource{err: errors.New("not known")}
	if !e.source.Live() {
		if crd, is := e.definitionAmong(kind.GroupKind()); is {
			found = resource{name: crd.Spec.Names.Plural, namespaced: crd.Spec.Scope == "Namespaced"}
		}
	} else if list, err := e.resources(ctx, kind.GroupVersion()); err != nil {
		found.err = err
	} else if i := slices.IndexFunc(list, func(r metav1.APIResource) bool {
		return r.Kind == kind.Kind && !strings.Contains(r.Name, "/")
	}); i >= 0 {
		found = resource{name: list[i].Name, namespaced: list[i].Namespaced}
	}
	e.served[kind] = found
	return found
}

// resources returns what an API server serves of a version.
func (e *Examiner) resources(ctx context.Context, of schema.GroupVersion) ([]metav1.APIResource, error) {
	raw, err := e.source.Read(ctx, groupPath(of.Group)+"/"+of.Version)
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	return list.APIResources, json.Unmarshal(raw, &list)
}

func groupPath(group string) string {
	if group == "" {
		return "/api"
	}
	return "/apis/" + group
}

// versions returns the versions of a group that an API server serves.
func (e *Examiner) versions(ctx context.Context, group string) (served []string, err error) {
	raw, err := e.source.Read(ctx, groupPath(group))
	if errors.Is(err, ErrNotFound) {
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

// sharing are the groups of Kubernetes that serve the same objects: those of the same resource are equivalent.
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

// equivalents returns the resources under which the same objects are served, but for the given one.
func (e *Examiner) equivalents(ctx context.Context, of schema.GroupVersionResource, subresource string) (all []webhookmatch.Equivalent, err error) {
	if !e.source.Live() {
		return e.equivalentsInFiles(ctx, of, subresource)
	}
	groups := []string{of.Group}
	if shared := sharing[of.Resource]; slices.Contains(shared, of.Group) {
		groups = shared
	}
	for _, group := range groups {
		versions, err := e.versions(ctx, group)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			other := schema.GroupVersionResource{Group: group, Version: v, Resource: of.Resource}
			if other == of {
				continue
			}
			found, err := e.equivalent(ctx, other, subresource)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// equivalent returns a resource if it is served.
func (e *Examiner) equivalent(ctx context.Context, of schema.GroupVersionResource, subresource string) ([]webhookmatch.Equivalent, error) {
	list, err := e.resources(ctx, of.GroupVersion())
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
	crd, err := e.definitionOf(ctx, of.GroupResource())
	sameFields := err == nil && crd.Spec.Conversion.Strategy != "Webhook"
	return []webhookmatch.Equivalent{{Resource: of, Kind: kind, SameFields: sameFields}}, nil
}

// equivalentsInFiles knows the stable versions of Kubernetes' own kinds, which every cluster serves, and those of
// CustomResourceDefinitions.
func (e *Examiner) equivalentsInFiles(ctx context.Context, of schema.GroupVersionResource, subresource string) (all []webhookmatch.Equivalent, err error) {
	if crd, err := e.definitionOf(ctx, of.GroupResource()); err == nil {
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

func builtIn(group, version, resource, kind string) webhookmatch.Equivalent {
	of := schema.GroupVersion{Group: group, Version: version}
	return webhookmatch.Equivalent{Resource: of.WithResource(resource), Kind: of.WithKind(kind)}
}
