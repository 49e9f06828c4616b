package handlers

import (
	"encoding/json"
	"reflect"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPatchOf: what the steps do arrives, and nothing else changes: unknown fields stay, also where an element comes before them, and
// no empty field is needed that was not sent.
func TestPatchOf(t *testing.T) {
	for name, test := range map[string]struct {
		sent, want string
		change     func(*corev1.Pod)
	}{
		"nothing": {`{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, func(*corev1.Pod) {}},
		"a label where labels are null": {`{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"a":"b"}}}`,
			func(pod *corev1.Pod) { pod.Labels = map[string]string{"a": "b"} }},
		"a label without metadata": {`{"x":1}`, `{"x":1,"metadata":{"labels":{"a/b~c":"d"}}}`,
			func(pod *corev1.Pod) { pod.Labels = map[string]string{"a/b~c": "d"} }},
		"a removed label": {`{"metadata":{"labels":{"a":"b"},"x":1}}`, `{"metadata":{"x":1}}`,
			func(pod *corev1.Pod) { pod.Labels = nil }},
		"limits where there are no resources": {`{"spec":{"containers":[{"name":"a","x":1}]}}`,
			`{"spec":{"containers":[{"name":"a","x":1,"resources":{"limits":{"cpu":"1"}}}]}}`, func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			}},
		"a variable before others": {`{"spec":{"containers":[{"name":"a","env":[{"name":"A","x":1},{"name":"B","x":2}]}]}}`,
			`{"spec":{"containers":[{"name":"a","env":[{"name":"N"},{"name":"A","x":1},{"name":"B","x":2}]}]}}`, func(pod *corev1.Pod) {
				c := &pod.Spec.Containers[0]
				c.Env = append([]corev1.EnvVar{{Name: "N"}}, c.Env...)
			}},
		"a container before one that changes": {`{"spec":{"containers":[{"name":"a","x":1,"image":"i"}]}}`,
			`{"spec":{"containers":[{"name":"s","resources":{}},{"name":"a","x":1,"image":"j"}]}}`, func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Image = "j"
				pod.Spec.Containers = append([]corev1.Container{{Name: "s"}}, pod.Spec.Containers...)
			}},
		"equal elements": {`{"spec":{"tolerations":[{"x":1},{"x":2}]}}`, `{"spec":{"tolerations":[{"x":1},{"x":2},{"key":"k"}]}}`,
			func(pod *corev1.Pod) {
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "k"})
			}},
		"a removed element": {`{"spec":{"tolerations":[{"key":"a","x":1},{"key":"b","x":2}]}}`, `{"spec":{"tolerations":[{"key":"b","x":2}]}}`,
			func(pod *corev1.Pod) { pod.Spec.Tolerations = pod.Spec.Tolerations[1:] }},
		"a large number": {`{"spec":{"x":9007199254740993,"y":1.0}}`, `{"spec":{"x":9007199254740993,"y":1.0,"nodeName":"n"}}`,
			func(pod *corev1.Pod) { pod.Spec.NodeName = "n" }},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after corev1.Pod
			for _, pod := range []*corev1.Pod{&before, &after} {
				if err := json.Unmarshal([]byte(test.sent), pod); err != nil {
					t.Fatal(err)
				}
			}
			test.change(&after)
			patch, err := patchOf([]byte(test.sent), &before, &after)
			if err != nil {
				t.Fatal(err)
			}
			got := []byte(test.sent)
			if patch != nil {
				decoded, err := jsonpatch.DecodePatch(patch)
				if err != nil {
					t.Fatal(err)
				}
				if got, err = decoded.Apply(got); err != nil {
					t.Fatalf("%s does not apply: %v", patch, err)
				}
			}
			var is, want any
			if err := json.Unmarshal(got, &is); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(is, want) {
				t.Errorf("got  %s\nwant %s\nby %s", got, test.want, patch)
			}
		})
	}
}
