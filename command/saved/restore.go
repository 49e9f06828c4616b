package saved

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"usher.dev/usher/internal/apiserver"
)

// Plan says what restoring changes.
type Plan struct {
	Changes []string // one a line; none: there is nothing to do
	Left    []string // what is not restored, and why
	create  []Object
	replace []Object
}

// Compare returns what restoring objects changes: those that are missing are created. Those that differ are replaced only with
// force; so are webhooks created that would refuse requests because nothing answers them.
func Compare(ctx context.Context, client apiserver.Client, all []Object, force bool) (p Plan, err error) {
	for _, o := range all {
		raw, err := client.Get(ctx, o.collection()+"/"+o.GetName())
		switch {
		case apierrors.IsNotFound(err):
			err = p.missing(ctx, client, o, force)
		case err == nil:
			err = p.present(o, raw, force)
		}
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", o, err)
		}
	}
	return p, nil
}

// missing plans the creation of an object.
func (p *Plan) missing(ctx context.Context, client apiserver.Client, o Object, force bool) error {
	silent, err := silentService(ctx, client, o)
	if err != nil {
		return err
	}
	if silent != "" && !force {
		p.Left = append(p.Left, fmt.Sprintf("%s: is not restored: it has failurePolicy Fail, and no endpoint of the Service %s is ready, so that requests would be refused", o, silent))
		return nil
	}
	p.create = append(p.create, o)
	p.Changes = append(p.Changes, fmt.Sprintf("+ %s: is missing", o))
	return nil
}

// present plans the replacement of an object that differs.
func (p *Plan) present(o Object, raw []byte, force bool) error {
	var is unstructured.Unstructured
	if err := is.UnmarshalJSON(raw); err != nil {
		return fmt.Errorf("it cannot be decoded")
	}
	version := is.GetResourceVersion()
	keepBundles(o, is)
	if reflect.DeepEqual(o.Object, stripped(is).Object) {
		return nil
	}
	if !force {
		p.Left = append(p.Left, fmt.Sprintf("%s: differs, and stays", o))
		return nil
	}
	o.SetResourceVersion(version)
	p.replace = append(p.replace, o)
	p.Changes = append(p.Changes, fmt.Sprintf("~ %s: differs, and is replaced", o))
	return nil
}

// Restore carries out a plan.
func (p Plan) Restore(ctx context.Context, client apiserver.Client) error {
	for _, o := range p.create {
		text, err := o.MarshalJSON()
		if err == nil {
			_, err = client.Create(ctx, o.collection(), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	for _, o := range p.replace {
		text, err := o.MarshalJSON()
		if err == nil {
			_, err = client.Update(ctx, o.collection()+"/"+o.GetName(), "usher-restore", text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return nil
}

// keepBundles puts the caBundles of what is registered into what is restored: they may have been renewed since it was saved.
func keepBundles(o Object, is unstructured.Unstructured) {
	now := map[string]any{}
	for _, w := range entries(is) {
		client, _ := w["clientConfig"].(map[string]any)
		name, _ := w["name"].(string)
		now[name] = client["caBundle"]
	}
	for _, w := range entries(o.Unstructured) {
		client, _ := w["clientConfig"].(map[string]any)
		name, _ := w["name"].(string)
		if bundle := now[name]; bundle != nil && client != nil {
			client["caBundle"] = bundle
		}
	}
}

// entries returns the webhooks of a configuration.
func entries(o unstructured.Unstructured) (all []map[string]any) {
	list, _ := o.Object["webhooks"].([]any)
	for _, e := range list {
		if entry, is := e.(map[string]any); is {
			all = append(all, entry)
		}
	}
	return all
}

// silentService returns the Service of a webhook with failurePolicy Fail that has no ready endpoint, or "".
func silentService(ctx context.Context, client apiserver.Client, o Object) (string, error) {
	asked := map[string]bool{}
	for _, w := range entries(o.Unstructured) {
		namespace, _, _ := unstructured.NestedString(w, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(w, "clientConfig", "service", "name")
		service := namespace + "/" + name
		if name == "" || w["failurePolicy"] == "Ignore" || asked[service] {
			continue
		}
		asked[service] = true
		if ready, err := answers(ctx, client, namespace, name); err != nil || !ready {
			return service, err
		}
	}
	return "", nil
}

// answers reports whether a Service has a ready endpoint.
func answers(ctx context.Context, client apiserver.Client, namespace, name string) (bool, error) {
	raw, err := client.Query(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices",
		map[string]string{"labelSelector": discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return false, err
	}
	var list discoveryv1.EndpointSliceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return false, fmt.Errorf("the EndpointSlices of %s cannot be decoded", namespace)
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true, nil
			}
		}
	}
	return false, nil
}
