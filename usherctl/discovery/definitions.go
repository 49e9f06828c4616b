package discovery

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/reader"
)

// definition is a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Plural, Kind string }
		Scope    string
		Versions []struct {
			Name         string
			Subresources struct {
				Status *struct{}
				Scale  *struct{}
			}
		}
		Conversion struct{ Strategy string }
	}
}

// equivalents returns the versions, but for the given one: the API server converts to those that it does not serve, too.
func (d definition) equivalents(of schema.GroupVersionResource, subresource string) (all []Equivalent) {
	for _, v := range d.Spec.Versions {
		kind := schema.GroupVersionKind{Group: of.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
		has := subresource == "" || subresource == "status" && v.Subresources.Status != nil
		if subresource == "scale" && v.Subresources.Scale != nil {
			has, kind = true, schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		}
		if has && v.Name != of.Version {
			all = append(all, Equivalent{Resource: of.GroupResource().WithVersion(v.Name), Kind: kind,
				SameFields: d.Spec.Conversion.Strategy != "Webhook"})
		}
	}
	return all
}

var definitionKind = reader.NewKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")

// definitionOf returns the CustomResourceDefinition of a resource.
func definitionOf(ctx context.Context, s reader.Source, r schema.GroupResource) (definition, error) {
	return reader.One[definition](s.Get(ctx, definitionKind, "", r.String()))
}

// definitionAmong returns the CustomResourceDefinition of a kind among files.
func definitionAmong(ctx context.Context, s reader.Source, kind schema.GroupKind) (definition, bool) {
	files, _ := s.List(ctx, definitionKind, "") // which fails for an API server only
	for _, raw := range files {
		if d, err := reader.One[definition](raw, nil); err == nil && d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind {
			return d, true
		}
	}
	return definition{}, false
}
