package mutators

import (
	"encoding/json"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	overcommitRatio = 2
	overcommitNote  = "usher.dev/amplified" // the annotation that remembers what the kubelet measured, and what we made of it
)

type note struct {
	Raw    map[string]resource.Quantity `json:"raw"` // allocatable, capacity
	Result map[string]resource.Quantity `json:"result"`
	Ratio  string                       `json:"ratio"`
	By     string                       `json:"by"`
}

// overcommit makes a node look larger to the scheduler: its allocatable cpu. Capacity stays the size of the machine.
//
// The kubelet, controllers and people write the status of a node, and most of them send back the amount that we made: to multiply
// what arrives would double it with every write. So what was measured is remembered, and only two amounts count as measured: that
// one, and a new one from the kubelet itself. A heartbeat is never refused: a node that cannot report is lost.
func overcommit(req *admissionv1.AdmissionRequest, node *corev1.Node) field.ErrorList {
	var notes map[corev1.ResourceName]note
	_ = json.Unmarshal([]byte(node.Annotations[overcommitNote]), &notes) // what cannot be read is not remembered
	last := notes[corev1.ResourceCPU]
	was, made, size := last.Raw["allocatable"], last.Result["allocatable"], last.Raw["capacity"]
	now, capacity := node.Status.Allocatable[corev1.ResourceCPU], node.Status.Capacity[corev1.ResourceCPU]
	fits := now.Cmp(capacity) <= 0 // a measured amount does
	raw := now
	switch {
	case now.Equal(made) && !(fits && !size.Equal(capacity)): // an echo; not a machine that has grown to just that size
		raw = was
	case now.Equal(was):
	case req.UserInfo.Username != "system:node:"+node.Name || !fits:
		return nil // unknown: the kubelet's next heartbeat repairs it
	}
	result := raw.DeepCopy()
	if raw.Sign() <= 0 || !result.Mul(overcommitRatio) { // not there, or more than a quantity holds
		return nil
	}
	text, _ := json.Marshal(map[corev1.ResourceName]note{corev1.ResourceCPU: {
		Raw:    map[string]resource.Quantity{"allocatable": raw, "capacity": capacity},
		Result: map[string]resource.Quantity{"allocatable": result}, Ratio: strconv.Itoa(overcommitRatio), By: "pool default",
	}})
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, overcommitNote, string(text))
	node.Status.Allocatable[corev1.ResourceCPU] = result
	return nil
}
