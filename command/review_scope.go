package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/manifest"
	"usher.dev/usher/review"
	"usher.dev/usher/webhooks"
)

// unregistered knows what the shipped webhook configurations keep away from routes.
type unregistered struct {
	registered []handlers.Route
	labels     map[string]labels.Set // of the namespaces that are known
}

// why returns why an API server would not call a route for a request, or "".
func (u unregistered) why(r handlers.Route, req *admit.Request) string {
	if !slices.ContainsFunc(u.registered, func(other handlers.Route) bool { return other.Path == r.Path }) {
		return "only one route is registered for the status of nodes, see docs/overcommit.md"
	}
	var part webhooks.Entry
	for _, e := range webhooks.Entries([]handlers.Route{r}) {
		if e.Covers(req) {
			part = e
		}
	}
	if part.Scope == registration.ClusterScope {
		return mismatch("objectSelector", part.Objects(), labelsOf(req), "the object")
	}
	of, known := u.labels[req.Namespace]
	if !known {
		of = maps.Clone(labels.Set(r.OptIn.AsMap())) // nothing is known of the namespace: take it for one that opted in
	}
	of = labels.Merge(of, labels.Set{"kubernetes.io/metadata.name": req.Namespace})
	return mismatch("namespaceSelector", part.Namespaces(webhooks.Address{Namespace: "usher"}), of, "namespace "+req.Namespace)
}

// mismatch returns which part of a selector labels do not match, or "".
func mismatch(what string, selector *metav1.LabelSelector, of labels.Set, whose string) string {
	if selector == nil {
		return ""
	}
	for key, value := range selector.MatchLabels {
		if of[key] != value {
			return fmt.Sprintf("%s asks for the label %s: %s, which %s does not have", what, key, value, whose)
		}
	}
	for _, part := range selector.MatchExpressions {
		one, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{part}})
		if err == nil && !one.Matches(of) {
			return fmt.Sprintf("%s leaves out %s: %s", what, part.Key, of[part.Key])
		}
	}
	return ""
}

// labelsOf returns the labels of the object that a request is about.
func labelsOf(req *admit.Request) labels.Set {
	var object metav1.PartialObjectMetadata
	if subject := req.Subject(); subject == nil || json.Unmarshal(subject.Bytes(), &object) != nil {
		return nil
	}
	return object.Labels
}

// namespaceLabels returns the labels of the namespaces in a directory of manifests, and of those among the documents, which win.
func namespaceLabels(dir string, documents []review.Document) (map[string]labels.Set, error) {
	known := map[string]labels.Set{}
	if dir != "" {
		files, err := manifestFiles(dir, true)
		if err != nil {
			return nil, fmt.Errorf("--cluster-dir: %w", err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("--cluster-dir: %w", err)
			}
			objects, _ := manifest.Read(file, content) // opening the cluster has reported the problems
			for _, o := range objects {
				addNamespace(known, o.JSON)
			}
		}
	}
	for _, d := range documents {
		addNamespace(known, d.JSON)
	}
	return known, nil
}

func addNamespace(known map[string]labels.Set, raw []byte) {
	var object metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &object) == nil && object.Kind == "Namespace" && object.APIVersion == "v1" {
		known[object.Name] = object.Labels
	}
}
