package validators

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// qosPriority requires that a pod's QoS class, priority class and resources are consistent: the scheduler and the node
// agent rely on it. On update, including in-place resize, only changes are checked, so that a pod that broke a rule
// earlier can still be labelled, released by its finalizers, and deleted. skipPriority allows changes of the
// sub-priority.
func qosPriority(skipPriority bool) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "qos-priority",
		Doc:  "holds a pod's QoS class, priority class and resources together; an update is asked only about what it changes",
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			is, was := readClasses(pod), readClasses(storedPod(req))
			if was != nil {
				if was.pod.Deleting() {
					return pass(req, "the pod is being deleted")
				}
				problems = immutable(is, was, skipPriority)
			}
			for _, check := range []func(*admit.Request, *podClasses, *podClasses) *field.Error{
				knownClasses, combination, batchNeedsBE, midNeedsQoS, wholeCPUs,
			} {
				if problem := check(req, is, was); problem != nil {
					problems = append(problems, problem)
				}
			}
			return problems, nil
		},
	}
}

// podClasses holds the classes of a pod. The checks compare it with the stored pod's, which is nil on create.
type podClasses struct {
	pod   *admit.Pod
	qos   api.QoSClass
	class api.PriorityClass
}

func readClasses(pod *admit.Pod) *podClasses {
	if pod == nil {
		return nil
	}
	return &podClasses{
		pod:   pod,
		qos:   api.RawQoS(pod.Label(api.LabelQoSClass)),
		class: api.RawPriorityClass(pod.Label(api.LabelPriorityClass), pod.HasLabel(api.LabelPriorityClass), pod.Priority()),
	}
}

// classPath returns the field that determines the pod's priority class.
func (s *podClasses) classPath() *field.Path {
	if s.pod.HasLabel(api.LabelPriorityClass) {
		return admit.LabelPath(api.LabelPriorityClass)
	}
	return admit.PriorityPath
}

// immutable refuses changes of classes that are settled when a pod is created. The label may still put a pod that has
// no priority class into one: it exists for pods that had priorities of their own before the classes were introduced.
func immutable(is, was *podClasses, skipPriority bool) (problems field.ErrorList) {
	const detail = "was %q and cannot change while the pod exists; create a new pod, or set it back"
	if is.qos != was.qos {
		problems = append(problems, field.Invalid(admit.LabelPath(api.LabelQoSClass), string(is.qos), fmt.Sprintf(detail, was.qos)))
	}
	at := is.classPath()
	if was.pod.HasLabel(api.LabelPriorityClass) {
		at = was.classPath()
	}
	if revised := was.class == api.PriorityNone && is.pod.HasLabel(api.LabelPriorityClass); is.class != was.class && !revised {
		problems = append(problems, field.Invalid(at, string(is.class), "the priority class "+fmt.Sprintf(detail, was.class)))
	}
	if now, before := is.pod.Label(api.LabelPriority), was.pod.Label(api.LabelPriority); now != before && !skipPriority {
		problems = append(problems, field.Invalid(admit.LabelPath(api.LabelPriority), now, fmt.Sprintf(detail, before)))
	}
	return problems
}

// knownClasses warns of labels whose value is not a class: they have no effect.
func knownClasses(req *admit.Request, is, was *podClasses) *field.Error {
	newValue := func(key string) string { // the value of the label if it is new
		if value := is.pod.Label(key); was == nil || was.pod.Label(key) != value {
			return value
		}
		return ""
	}
	if value := newValue(api.LabelQoSClass); value != "" && is.qos == api.QoSNone {
		req.Warnf("label koordinator.sh/qosClass: %.20q is no QoS class and counts for nothing; LSE, LSR, LS, BE, SYSTEM are", value)
	}
	if value := newValue(api.LabelPriorityClass); value != "" && is.class == api.PriorityNone {
		req.Warnf("label koordinator.sh/priority-class: %.20q is no class and hides spec.priority; koord-prod is one", value)
	}
	return nil
}

// compatibleClasses holds the priority classes that are compatible with a QoS class. Koordinator does not enforce those
// with advised set, so they only cause a warning. QoS classes that are not listed are compatible with all.
var compatibleClasses = map[api.QoSClass]struct {
	classes []api.PriorityClass
	advised bool
}{
	api.QoSBE:  {classes: []api.PriorityClass{api.PriorityMid, api.PriorityBatch, api.PriorityFree}},
	api.QoSLSR: {classes: []api.PriorityClass{api.PriorityProd}},
	api.QoSLSE: {classes: []api.PriorityClass{api.PriorityProd}, advised: true},
	// system-node-critical has no class.
	api.QoSSystem: {classes: []api.PriorityClass{api.PriorityProd, api.PriorityNone}, advised: true},
}

// combination refuses incompatible QoS and priority classes.
func combination(req *admit.Request, is, was *podClasses) *field.Error {
	rule, ruled := compatibleClasses[is.qos]
	if !ruled || slices.Contains(rule.classes, is.class) {
		req.Explain("QoS class %s goes with priority class %s", cmp.Or(string(is.qos), "none"), orNone(is.class))
		return nil
	}
	if was != nil && was.qos == is.qos && was.class == is.class {
		req.Explain("the update keeps QoS class %s and priority class %s", string(is.qos), orNone(is.class))
		return nil
	}
	if rule.advised {
		req.Explain("QoS class %s should have another priority class than %s, but need not", string(is.qos), orNone(is.class))
		req.Warnf("pods of QoS %s should have priority class koord-prod, not %s; set priorityClassName", is.qos, orNone(is.class))
		return nil
	}
	return field.Forbidden(is.classPath(), fmt.Sprintf(
		"koordinator.sh/qosClass=%s %s; set spec.priorityClassName to a PriorityClass in %s, or choose another QoS class",
		is.qos, is.describeClass(), ranges(rule.classes)))
}

func orNone(class api.PriorityClass) string {
	if class == api.PriorityNone {
		return "none"
	}
	return string(class)
}

// describeClass says what is wrong with the priority class, and where it comes from.
func (s *podClasses) describeClass() string {
	wrong := "does not go with priority class " + string(s.class)
	if s.class == api.PriorityNone {
		wrong = "needs a priority class, and the pod is in none"
	}
	if s.pod.HasLabel(api.LabelPriorityClass) {
		return fmt.Sprintf("%s (label koordinator.sh/priority-class=%s)", wrong, s.pod.Label(api.LabelPriorityClass))
	}
	if priority := s.pod.Priority(); priority != nil {
		return fmt.Sprintf("%s (spec.priority is %d)", wrong, *priority)
	}
	return wrong + " (spec.priority is not set)"
}

// ranges lists priority classes with their values.
func ranges(classes []api.PriorityClass) string {
	var texts []string
	for _, class := range classes {
		lowest, highest, _ := class.Range()
		texts = append(texts, fmt.Sprintf("%s (%d to %d)", class, lowest, highest))
	}
	return strings.Join(texts, " or ")
}

// batchNeedsBE refuses batch resources in pods of any QoS class but BE: they are reclaimed from other pods, and only BE
// pods can be made to return them.
func batchNeedsBE(_ *admit.Request, is, was *podClasses) *field.Error {
	if is.qos == api.QoSBE {
		return nil
	}
	batch, asks := firstRequest(is.pod, batchNames[:])
	if !asks || was != nil && was.qos == is.qos && equalTotals(is.pod, was.pod, batchNames[:]) {
		return nil
	}
	detail := fmt.Sprintf("%s asks for %s %s, which only pods of QoS BE may have; set the label to BE, or ask for cpu and memory",
		batch.by, &batch.amount, batch.name)
	if is.qos == api.QoSNone {
		return field.Required(admit.LabelPath(api.LabelQoSClass), detail)
	}
	return field.Invalid(admit.LabelPath(api.LabelQoSClass), string(is.qos), detail)
}

// midNeedsQoS warns of mid resources in pods of an incompatible QoS class. Koordinator allows them.
func midNeedsQoS(req *admit.Request, is, was *podClasses) *field.Error {
	if was != nil || is.qos == api.QoSLS || is.qos == api.QoSBE {
		return nil // the resources and the QoS class of an existing pod cannot change
	}
	if mid, asks := firstRequest(is.pod, midNames[:]); asks {
		req.Warnf("%.40s asks for %s; set label koordinator.sh/qosClass to LS or BE", mid.by, mid.name)
	}
	return nil
}

var (
	batchNames = [...]corev1.ResourceName{api.ResourceBatchCPU, api.ResourceBatchMemory}
	midNames   = [...]corev1.ResourceName{api.ResourceMidCPU, api.ResourceMidMemory}
	cpuName    = [...]corev1.ResourceName{corev1.ResourceCPU}
)
