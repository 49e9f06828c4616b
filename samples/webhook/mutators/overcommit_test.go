package mutators

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestOvercommitDoesNotCompound sends one write after the other to a node of 16 CPUs, of which pods may have 15900m.
func TestOvercommitDoesNotCompound(t *testing.T) {
	const kubelet, other = "system:node:n", "system:serviceaccount:kube-system:attachdetach-controller"
	type write struct {
		user string
		set  func(*corev1.Node) // what the write changes in the node that is stored
		want string
	}
	allocatable := func(cpu string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["cpu"] = resource.MustParse(cpu) }
	}
	annotation := func(text string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{overcommitNote: text} }
	}
	nothing := func(*corev1.Node) {}
	for name, writes := range map[string][]write{
		"heartbeats":              {{kubelet, nothing, "31800m"}, {kubelet, allocatable("15900m"), "31800m"}, {kubelet, nothing, "31800m"}},
		"other writers":           {{kubelet, nothing, "31800m"}, {other, nothing, "31800m"}, {other, nothing, "31800m"}, {other, allocatable("15900m"), "31800m"}},
		"another writer first":    {{other, nothing, "15900m"}, {kubelet, nothing, "31800m"}},
		"another writer's amount": {{kubelet, nothing, "31800m"}, {other, allocatable("1"), "1"}, {kubelet, allocatable("15900m"), "31800m"}},
		"the node shrinks":        {{kubelet, nothing, "31800m"}, {kubelet, allocatable("15"), "30"}, {other, nothing, "30"}},
		"the note is lost": {{kubelet, nothing, "31800m"}, {other, annotation(""), "31800m"}, {kubelet, nothing, "31800m"},
			{kubelet, allocatable("15900m"), "31800m"}},
		"the note is nonsense": {{kubelet, annotation("null"), "31800m"}, {kubelet, annotation(`{"cpu":7}`), "31800m"},
			{kubelet, annotation(`{"cpu":{"raw":null}}`), "31800m"}, {kubelet, allocatable("15900m"), "31800m"}},
		"the machine grows to our result": {{kubelet, nothing, "31800m"}, {kubelet, func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("32") }, "63600m"},
			{other, nothing, "63600m"}},
		"beyond a quantity": {{kubelet, func(n *corev1.Node) {
			n.Status.Capacity["cpu"], n.Status.Allocatable["cpu"] = resource.MustParse("9223372036854775807"), resource.MustParse("9223372036854775807")
		}, "9223372036854775807"}},
		"no amount": {{kubelet, func(n *corev1.Node) { n.Status = corev1.NodeStatus{} }, "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("16")},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("15900m")}}}
			node.Name = "n"
			for i, w := range writes {
				w.set(node)
				req := &admissionv1.AdmissionRequest{}
				req.UserInfo.Username = w.user
				for range 2 { // twice is once
					if problems := overcommit(req, node); len(problems) > 0 {
						t.Fatalf("a heartbeat is refused: %v", problems)
					}
				}
				if got := node.Status.Allocatable["cpu"]; !got.Equal(resource.MustParse(w.want)) {
					t.Fatalf("write %d: cpu %s, want %s; %s", i, got.String(), w.want, node.Annotations)
				}
			}
		})
	}
}
