package main

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// answerPlain implements a typical webhook: decode the review, decode the object, copy it, change the copy, encode
// both, and return the difference. It makes the changes of usher's default policy.
func answerPlain(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := plainAnswer(r.URL.Path, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func plainAnswer(path string, body []byte) ([]byte, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, err
	}
	var patch []jsonpatch.Operation
	var err error
	if raw := review.Request.Object.Raw; path == "/mutate-nodes" {
		patch, err = difference(raw, (*corev1.Node).DeepCopy, overcommit)
	} else {
		patch, err = difference(raw, (*corev1.Pod).DeepCopy, seat)
	}
	if err != nil {
		return nil, err
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if len(patch) > 0 {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType = &kind
		if response.Patch, err = json.Marshal(patch); err != nil {
			return nil, err
		}
	}
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
}

// difference returns the patch from the object to its changed copy.
func difference[T any](raw []byte, deepCopy func(*T) *T, change func(*T) error) ([]jsonpatch.Operation, error) {
	object := new(T)
	if err := json.Unmarshal(raw, object); err != nil {
		return nil, err
	}
	changed := deepCopy(object)
	if err := change(changed); err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(changed)
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreatePatch(before, after)
}

// seat sets the environment variable KUBE and the tolerations that the lifespan label requires.
func seat(pod *corev1.Pod) error {
	for i := range pod.Spec.InitContainers {
		setKube(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		setKube(&pod.Spec.Containers[i])
	}
	wanted, err := tolerations(pod.Labels["acme.com/lifespan-requested"])
	for _, t := range wanted {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(has corev1.Toleration) bool { return has.MatchToleration(&t) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
		}
	}
	return err
}

func setKube(c *corev1.Container) {
	if !slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool { return has.Name == "KUBE" }) {
		c.Env = slices.Insert(c.Env, 0, corev1.EnvVar{Name: "KUBE", Value: "true"})
	}
}

func tolerations(label string) (list []corev1.Toleration, err error) {
	const taint, longest = "acme.com/lifespan-remaining", 14
	if label == "" {
		return []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, nil
	}
	days, err := strconv.Atoi(label)
	for left := longest; err == nil && left >= days; left-- {
		list = append(list, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpEqual, Value: strconv.Itoa(left), Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return list, err
}

// amplified is the entry of a resource in the overcommit annotation.
type amplified struct {
	Raw    amounts `json:"raw"`
	Result amounts `json:"result"`
	Ratio  string  `json:"ratio"`
	By     string  `json:"by"`
}

type amounts struct {
	Allocatable string `json:"allocatable"`
	Capacity    string `json:"capacity"`
}

// overcommit doubles the CPU of a node, based on the kubelet's own numbers; numbers that are already doubled are
// unchanged. It implements only part of usher's rules; for the measured reviews the result is the same.
func overcommit(node *corev1.Node) error {
	const key = "usher.dev/amplified"
	memory := map[corev1.ResourceName]amplified{}
	if text, ok := node.Annotations[key]; ok {
		if err := json.Unmarshal([]byte(text), &memory); err != nil {
			return err
		}
	}
	allocatable, capacity := node.Status.Allocatable[corev1.ResourceCPU], node.Status.Capacity[corev1.ResourceCPU]
	if seen, ok := memory[corev1.ResourceCPU]; ok && seen.Result.Allocatable == allocatable.String() {
		return nil
	}
	doubled := *resource.NewMilliQuantity(2*allocatable.MilliValue(), allocatable.Format)
	raised := *resource.NewMilliQuantity(allocatable.MilliValue()+capacity.MilliValue(), capacity.Format) // the system reservation does not change
	memory[corev1.ResourceCPU] = amplified{
		Raw:    amounts{allocatable.String(), capacity.String()},
		Result: amounts{doubled.String(), raised.String()}, Ratio: "2", By: "pool default",
	}
	text, err := json.Marshal(memory)
	if err != nil {
		return err
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[key] = string(text)
	node.Status.Allocatable[corev1.ResourceCPU], node.Status.Capacity[corev1.ResourceCPU] = doubled, raised
	return nil
}
