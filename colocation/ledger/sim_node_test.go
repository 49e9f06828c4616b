package ledger

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/quota"
)

// counting says what pods are charged for, by the replicas and the model.
var counting = quota.Counting{Allocated: true, Devices: true}

// nodeState is the last report of the node of a pod. It holds the pod's requests at that very moment: nobody knows of a
// change that a node has taken up and not reported yet.
type nodeState struct {
	allocated, enacted   corev1.ResourceList // nil before the pod was bound
	silent               bool                // bound, and nothing of that is reported yet
	infeasible           bool                // the resize of generation observed
	generation, observed int64               // generation of the pod
}

// dress sets what the node holds for a pod, as its status says.
func (n nodeState) dress(p *quota.Pod) {
	spec := &corev1.PodSpec{NodeName: p.Node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: p.Requests}}}}
	status := &corev1.PodStatus{}
	if n.allocated != nil && !n.silent {
		status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: n.allocated,
			Resources: &corev1.ResourceRequirements{Requests: n.enacted}}}
	}
	if n.infeasible {
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible, ObservedGeneration: n.observed}}
	}
	seen := quota.PodOf(&metav1.ObjectMeta{Generation: n.generation}, spec, status)
	p.Held, p.Unreported = seen.Held, seen.Unreported
}

// speak is the first report of a node about a pod. Nobody but the node knows when it takes up a resize, so it has taken
// up what the pod requests now, unless it has called that infeasible.
func (n nodeState) speak(p *quota.Pod) nodeState {
	if n.silent = false; !n.infeasible || n.observed != n.generation {
		n.allocated, n.enacted, n.infeasible = p.Requests, p.Requests, false
	}
	return n
}

// speakAll lets all nodes report.
func (w *world) speakAll() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for key, one := range w.c.pods {
		if next := *one.pod; one.node.silent && !next.Ended {
			node := one.node.speak(&next)
			node.dress(&next)
			w.c.putPod(&next, nil)
			w.c.pods[key].node = node
		}
	}
}

// kubelet runs a pod on its node, step by step, for some time.
func (w *world) kubelet(pod *quota.Pod) {
	for step := range 8 {
		time.Sleep(w.c.upTo([]time.Duration{time.Second, simLag}[min(step, 1)]))
		if w.c.over() || !w.carryOut(pod, w.c.chance(0.25)) {
			return
		}
	}
}

// carryOut binds a pod, or does the next step of its resize: the node allocates what is requested, or calls it
// infeasible, and then gives the containers what is allocated. It returns false when the pod has gone.
func (w *world) carryOut(pod *quota.Pod, refuses bool) bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	one := w.c.pods[podKey(pod)]
	if one == nil || one.pod.UID != pod.UID || one.pod.Ended {
		return false
	}
	next, node := *one.pod, one.node
	switch {
	case node.allocated == nil:
		next.Node, node.allocated, node.enacted, node.silent = "node", next.Requests, next.Requests, w.c.chance(0.3)
	case node.silent && node.observed < node.generation && quantity.Covers(next.Requests, node.allocated):
		node.infeasible, node.observed = true, node.generation
		w.c.stats.Early++
		w.go_(w.restart) // a new replica knows only what is stored
	case node.silent && w.c.chance(0.7):
		return true // it pulls the image
	case node.silent:
		node = node.speak(&next)
	case node.infeasible && node.observed == node.generation:
		return true // it has answered
	case !quantity.EqualAmounts(node.allocated, next.Requests) && refuses:
		node.infeasible, node.observed = true, node.generation
		w.c.stats.Infeasible++
	case !quantity.EqualAmounts(node.allocated, next.Requests):
		node.allocated, node.infeasible = next.Requests, false
	case !quantity.EqualAmounts(node.allocated, node.enacted) || node.infeasible:
		node.enacted, node.infeasible = node.allocated, false
		w.c.stats.Enacted++
	default:
		return true
	}
	node.dress(&next)
	before := one.charge()
	w.c.note("node of %s (%s): allocated %s, given %s, infeasible %v", podKey(&next), next.UID, inShort(node.allocated), inShort(node.enacted), node.infeasible)
	w.c.putPod(&next, nil)
	now := w.c.pods[podKey(&next)]
	if now.node = node; !quantity.Covers(before, now.charge()) {
		w.c.fail("the node of %s makes it count for more", podKey(&next))
	}
	return true
}
