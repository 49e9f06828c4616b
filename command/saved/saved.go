// Package saved writes all webhook configurations and admission policies of a cluster to one file, and restores from it what is
// missing.
package saved

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/apiserver"
)

const group = "admissionregistration.k8s.io"

// resources are what is saved, in the order in which it is restored: nothing calls a policy before it is bound.
var resources = []struct{ name, kind string }{
	{"validatingadmissionpolicies", "ValidatingAdmissionPolicy"},
	{"mutatingadmissionpolicies", "MutatingAdmissionPolicy"},
	{"validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"},
	{"mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"},
	{"validatingwebhookconfigurations", "ValidatingWebhookConfiguration"},
	{"mutatingwebhookconfigurations", "MutatingWebhookConfiguration"},
}

// Object is a webhook configuration, a policy or a binding, without what the API server sets.
type Object struct{ unstructured.Unstructured }

// String returns the kind and the name.
func (o Object) String() string { return o.GetKind() + " " + o.GetName() }

// order returns the place of the object among resources, or -1.
func (o Object) order() int {
	if o.GroupVersionKind().Group != group {
		return -1
	}
	return slices.IndexFunc(resources, func(r struct{ name, kind string }) bool { return r.kind == o.GetKind() })
}

// collection returns the path of the object's collection.
func (o Object) collection() string {
	return "/apis/" + o.GetAPIVersion() + "/" + resources[o.order()].name
}

// Read returns all objects of a cluster, in the order of their restoration.
func Read(ctx context.Context, client apiserver.Client) (all []Object, err error) {
	served, err := versions(ctx, client)
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		version, known := served[r.name]
		if !known {
			continue // an older Kubernetes
		}
		raw, err := client.Get(ctx, "/apis/"+version+"/"+r.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		var list unstructured.UnstructuredList
		if err := list.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("%s: it cannot be decoded", r.name)
		}
		for _, item := range list.Items {
			item.SetAPIVersion(version)
			item.SetKind(r.kind)
			all = append(all, stripped(item))
		}
	}
	return all, nil
}

// versions returns the newest stable version of each resource, in the API server's order.
func versions(ctx context.Context, client apiserver.Client) (map[string]string, error) {
	var served metav1.APIGroup
	if err := get(ctx, client, "/apis/"+group, &served); err != nil {
		return nil, err
	}
	newest := map[string]string{}
	for _, v := range served.Versions {
		var list metav1.APIResourceList
		if err := get(ctx, client, "/apis/"+v.GroupVersion, &list); err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if newest[r.Name] == "" {
				newest[r.Name] = v.GroupVersion
			}
		}
	}
	return newest, nil
}

func get(ctx context.Context, client apiserver.Client, path string, into any) error {
	raw, err := client.Get(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// stripped returns an object without what the API server sets, and without owners: an owner that was created again has another
// uid, and the object would be deleted with the one that is gone.
func stripped(o unstructured.Unstructured) Object {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	delete(o.Object, "status")
	return Object{o}
}

// YAML returns objects as a file.
func YAML(all []Object) ([]byte, error) {
	var text bytes.Buffer
	for i, o := range all {
		one, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(one)
	}
	return text.Bytes(), nil
}

// Parse reads a file, in the order of restoration.
func Parse(file string, content []byte) (all []Object, err error) {
	found, problems := manifest.Read(file, content)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	for _, f := range found {
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON(f.JSON); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Place, err)
		}
		one := stripped(o)
		if one.order() < 0 || one.GetName() == "" || strings.ContainsAny(one.GetName(), "/%") {
			return nil, fmt.Errorf("%s: is no webhook configuration or admission policy with a name, and nothing else is restored", f.Place)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: has no webhook configuration or admission policy, so that nothing can be restored from it", file)
	}
	slices.SortStableFunc(all, func(a, b Object) int { return a.order() - b.order() })
	return all, nil
}
