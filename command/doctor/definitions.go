package doctor

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/command/webhookmatch"
)

// definition is a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Plural, Kind string }
		Scope    string
		Versions []struct {
			Name         string
			Served       bool
			Subresources struct {
				Status *struct{}
				Scale  *struct{}
			}
		}
		Conversion struct{ Strategy string }
	}
}

// equivalents returns the versions that are served, but for the given one.
func (d definition) equivalents(of schema.GroupVersionResource, subresource string) (all []webhookmatch.Equivalent) {
	for _, v := range d.Spec.Versions {
		kind := schema.GroupVersionKind{Group: of.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
		has := subresource == "" || subresource == "status" && v.Subresources.Status != nil
		if subresource == "scale" && v.Subresources.Scale != nil {
			has, kind = true, schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
		}
		if v.Served && has && v.Name != of.Version {
			all = append(all, webhookmatch.Equivalent{Resource: of.GroupResource().WithVersion(v.Name), Kind: kind,
				SameFields: d.Spec.Conversion.Strategy != "Webhook"})
		}
	}
	return all
}

var definitionKind = Kind{schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	"customresourcedefinitions"}

// definitionOf returns the CustomResourceDefinition of a resource.
func (e *Examiner) definitionOf(ctx context.Context, r schema.GroupResource) (d definition, err error) {
	raw, err := e.source.Get(ctx, definitionKind, "", r.String())
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(raw, &d)
}

// definitionAmong returns the CustomResourceDefinition of a kind among files.
func (e *Examiner) definitionAmong(kind schema.GroupKind) (definition, bool) {
	for _, raw := range e.source.listFiles(definitionKind, "") {
		var d definition
		if json.Unmarshal(raw, &d) == nil && d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind {
			return d, true
		}
	}
	return definition{}, false
}
