// Package reviews makes the AdmissionReviews that usher is measured with: as large as a cluster's, always the same bytes,
// grown or cut from the samples. A KB is 1024 bytes.
package reviews

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Review is one request to measure.
type Review struct {
	Name, Path string
	Body       []byte // as the API server sends it: no white space, fields in the order of the Go types
	Patched    bool   // usher changes the object
	Cluster    string // what the cluster has, as manifests in YAML; "" for the core suite's routes, which ask nothing
}

// All returns the reviews of both suites. It panics where the samples are not found, that is outside of the source tree.
func All() []Review { return append(Core(), Profiles()...) }

// Core returns reviews of the core suite, each within 5 % of the size in its name.
func Core() []Review {
	return []Review{
		{Name: "2KB-pod", Path: "/mutate-pods", Body: smallPod(2 << 10), Patched: true},
		{Name: "20KB-pod-changed", Path: "/mutate-pods", Body: productionPod("production-pod"), Patched: true},
		{Name: "20KB-pod-unchanged", Path: "/mutate-pods", Body: productionPod("production-pod-unchanged")},
		{Name: "51KB-node-amplified", Path: "/mutate-nodes", Body: heartbeat(51 << 10), Patched: true},
		{Name: "51KB-node-unchanged", Path: "/mutate-nodes", Body: echo(51 << 10)},
		{Name: "220KB-pod", Path: "/mutate-pods", Body: hugePod(220 << 10), Patched: true},
	}
}

// smallPod is the production pod without most of it: one container with the basics.
func smallPod(size int) []byte {
	review, pod := readPod("production-pod")
	pod.ManagedFields, pod.OwnerReferences, pod.Annotations = nil, nil, nil
	pod.Spec.Volumes, pod.Spec.InitContainers, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints = nil, nil, nil, nil
	full := pod.Spec.Containers[0]
	variables := full.Env
	pod.Spec.Containers = []corev1.Container{{Name: full.Name, Image: full.Image, Ports: full.Ports, Resources: full.Resources}}
	return grow(size, func(n int) []byte {
		pod.Spec.Containers[0].Env = variables[:n]
		return encode(review, pod, nil)
	})
}

// productionPod has three containers with all that a chart gives them, and the managedFields of it.
func productionPod(sample string) []byte {
	review, pod := readPod(sample)
	pod.Spec.InitContainers = nil
	return encode(review, pod, nil)
}

// hugePod has as many containers, with their managedFields, as it takes.
func hugePod(size int) []byte {
	review, pod := readPod("production-pod")
	list, owned := pod.Spec.Containers, pod.ManagedFields[0].FieldsV1
	fields := owned.GetRawBytes()
	return grow(size, func(n int) []byte {
		pod.Spec.Containers = slices.Clip(list)
		var names []string
		for i := range n {
			c := *list[1].DeepCopy()
			c.Name = fmt.Sprintf("%s-%d", list[1].Name, i)
			names = append(names, c.Name)
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		owned.SetRawBytes(withContainers(fields, list[1].Name, names))
		return encode(review, pod, nil)
	})
}

// withContainers owns of more containers what is owned of one.
func withContainers(raw []byte, one string, more []string) []byte {
	var fields map[string]any
	must(json.Unmarshal(raw, &fields))
	containers := fields["f:spec"].(map[string]any)["f:containers"].(map[string]any)
	key := func(name string) string { return fmt.Sprintf(`k:{"name":%q}`, name) }
	for _, name := range more {
		containers[key(name)] = containers[key(one)]
	}
	return marshal(fields)
}

// heartbeat is the kubelet posting what it measured over a node that was amplified before: the numbers need the patch.
func heartbeat(size int) []byte {
	review, node, old := readNode("overcommit-heartbeat")
	for i := range node.Status.Conditions {
		at := &node.Status.Conditions[i].LastHeartbeatTime
		*at = metav1.NewTime(at.Add(10 * time.Second))
	}
	return growImages(size, review, node, old)
}

// echo is another writer that sends the amplified numbers back as they are stored: nothing to change.
func echo(size int) []byte {
	review, node, old := readNode("overcommit-echo")
	return growImages(size, review, node, old)
}

// growImages fills a node, and the stored one, with the images that a node collects.
func growImages(size int, review *admissionv1.AdmissionReview, node, old *corev1.Node) []byte {
	_, full, _ := readNode("overcommit-heartbeat")
	return grow(size, func(n int) []byte {
		node.Status.Images = nil
		for i := range len(full.Status.Images) + n {
			node.Status.Images = append(node.Status.Images, image(full.Status.Images, i))
		}
		old.Status.Images = node.Status.Images
		return encode(review, node, old)
	})
}

// image is the nth image: one of the list, or, beyond its end, one that looks like it under another name.
func image(list []corev1.ContainerImage, n int) corev1.ContainerImage {
	made := *list[n%len(list)].DeepCopy()
	if again := n / len(list); again > 0 {
		for i := range made.Names {
			made.Names[i] = fmt.Sprintf("mirror-%d.%s", again, made.Names[i])
		}
	}
	return made
}

// grow takes the body with as many more parts as come nearest to size, in bytes; parts are about as large as the first.
func grow(size int, body func(parts int) []byte) []byte {
	none := len(body(0))
	part := len(body(1)) - none
	return body((size - none + part/2) / part)
}

func readPod(sample string) (*admissionv1.AdmissionReview, *corev1.Pod) {
	review, pod := read("mutate-pods", sample), &corev1.Pod{}
	must(json.Unmarshal(review.Request.Object.Raw, pod))
	return review, pod
}

func readNode(sample string) (review *admissionv1.AdmissionReview, node, old *corev1.Node) {
	review, node, old = read("mutate-nodes", sample), &corev1.Node{}, &corev1.Node{}
	must(json.Unmarshal(review.Request.Object.Raw, node))
	must(json.Unmarshal(review.Request.OldObject.Raw, old))
	return review, node, old
}

func read(route, sample string) *admissionv1.AdmissionReview {
	text, err := os.ReadFile(filepath.Join(root(), "samples", "reviews", route, sample+".json"))
	if os.IsNotExist(err) {
		text, err = os.ReadFile(filepath.Join(root(), "test", "testdata", "reviews", route, sample+".json"))
	}
	must(err)
	review := &admissionv1.AdmissionReview{}
	must(json.Unmarshal(text, review))
	return review
}

// root is the directory of go.mod: this one or the nearest above.
func root() string {
	dir, err := os.Getwd()
	must(err)
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "samples", "reviews")); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// encode puts the objects into the review; a nil old object stays null.
func encode(review *admissionv1.AdmissionReview, object, old any) []byte {
	review.Request.Object.Raw = marshal(object)
	if old != nil {
		review.Request.OldObject.Raw = marshal(old)
	}
	return marshal(review)
}

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	must(err)
	return raw
}

// must is for the samples, which are part of the source.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("reviews: %v", err))
	}
}
