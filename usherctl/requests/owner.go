package requests

import (
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owners knows the controllers of the objects of files.
type Owners map[owned]metav1.OwnerReference

type owned struct{ kind, namespace, name string }

// NewOwners returns the controllers of documents.
func NewOwners(documents []Document) Owners {
	all := Owners{}
	for _, d := range documents {
		is, has := metadataOf(d)
		if controller := metav1.GetControllerOf(&is); has && controller != nil && is.Kind != "Pod" {
			all[owned{is.Kind, is.Namespace, is.Name}] = *controller
		}
	}
	return all
}

func metadataOf(d Document) (is metav1.PartialObjectMetadata, has bool) {
	return is, d.Err == nil && json.Unmarshal(d.JSON, &is) == nil
}

// Of returns the workload of a pod that a cluster has, such as "Deployment shop/web"; "" if it has none. The Deployment of a ReplicaSet
// that is in no file is known from the pod's label.
func (o Owners) Of(d Document) string {
	is, has := metadataOf(d)
	controller := metav1.GetControllerOf(&is)
	if !has || is.Kind != "Pod" || controller == nil {
		return ""
	}
	kind, name := controller.Kind, controller.Name
	for range 5 { // no chain is longer
		next, known := o[owned{kind, is.Namespace, name}]
		if !known {
			break
		}
		kind, name = next.Kind, next.Name
	}
	hash := is.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if of, cut := strings.CutSuffix(name, "-"+hash); kind == "ReplicaSet" && hash != "" && cut {
		kind, name = "Deployment", of
	}
	return kind + " " + is.Namespace + "/" + name
}
