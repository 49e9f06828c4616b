package validators

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// qosPriority holds together what a pod says by its QoS class, its priority class and its resources: the scheduler and the node
// agent rely on it. An update, an in-place resize too, is only asked about what it changes, so that a pod which broke a rule
// while nobody looked can still be labelled, released by its finalizers, and deleted. skipPriority lets the sub-priority change.
func qosPriority(skipPriority bool) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "qos-priority",
		Doc:  "holds a pod's QoS class, priority class and resources together; an update is asked only about what it changes",
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			is, was := standingOf(pod), standingOf(storedPod(req))
			if was != nil {
				if was.pod.Deleting() {
					return nil, nil
				}
				problems = unchanging(is, was, skipPriority)
			}
			for _, check := range []func(*admit.Request, *standing, *standing) *field.Error{
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

// standing is how a pod stands to others. The checks compare it with the one before the update, which is nil for a new pod.
type standing struct {
	pod   *admit.Pod
	qos   api.QoSClass
	class api.PriorityClass
}

func standingOf(pod *admit.Pod) *standing {
	if pod == nil {
		return nil
	}
	return &standing{
		pod:   pod,
		qos:   api.RawQoS(oneLabel(pod, api.LabelQoSClass)),
		class: api.RawPriorityClass(oneLabel(pod, api.LabelPriorityClass), pod.Priority()),
	}
}

// oneLabel is a pod's labels without all but one.
func oneLabel(pod *admit.Pod, key string) map[string]string {
	if !pod.HasLabel(key) {
		return nil
	}
	return map[string]string{key: pod.Label(key)}
}

// classPath is the field that decides on the pod's priority class.
func (s *standing) classPath() *field.Path {
	if s.pod.HasLabel(api.LabelPriorityClass) {
		return admit.LabelPath(api.LabelPriorityClass)
	}
	return admit.PriorityPath
}

// unchanging refuses changes of what is settled when a pod is created. The label of the priority class may still put a pod into a
// class that is in none: that is what the label is for, pods that ran with priorities of their own before the classes came.
func unchanging(is, was *standing, skipPriority bool) (problems field.ErrorList) {
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

// knownClasses warns of labels whose value is no class: they count as if they said nothing.
func knownClasses(req *admit.Request, is, was *standing) *field.Error {
	news := func(key string) string { // the label's value if it is new
		if value := is.pod.Label(key); was == nil || was.pod.Label(key) != value {
			return value
		}
		return ""
	}
	if value := news(api.LabelQoSClass); value != "" && is.qos == api.QoSNone {
		req.Warnf("label koordinator.sh/qosClass: %.20q is no QoS class and counts for nothing; LSE, LSR, LS, BE, SYSTEM are", value)
	}
	if value := news(api.LabelPriorityClass); value != "" && is.class == api.PriorityNone {
		req.Warnf("label koordinator.sh/priority-class: %.20q is no class and hides spec.priority; koord-prod is one", value)
	}
	return nil
}

// classesOf are the priority classes that a QoS class goes with. Of the classes with advised set Koordinator lets all pass, so
// they are only warned about. A QoS class that is not here, and none, go with all.
var classesOf = map[api.QoSClass]struct {
	classes []api.PriorityClass
	advised bool
}{
	api.QoSBE:  {classes: []api.PriorityClass{api.PriorityMid, api.PriorityBatch, api.PriorityFree}},
	api.QoSLSR: {classes: []api.PriorityClass{api.PriorityProd}},
	api.QoSLSE: {classes: []api.PriorityClass{api.PriorityProd}, advised: true},
	// system-node-critical is in no class.
	api.QoSSystem: {classes: []api.PriorityClass{api.PriorityProd, api.PriorityNone}, advised: true},
}

// combination refuses QoS and priority classes that do not go together.
func combination(req *admit.Request, is, was *standing) *field.Error {
	rule, ruled := classesOf[is.qos]
	if !ruled || slices.Contains(rule.classes, is.class) || was != nil && was.qos == is.qos && was.class == is.class {
		return nil
	}
	if rule.advised {
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

// describeClass tells what is wrong with the priority class, and where it comes from.
func (s *standing) describeClass() string {
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

// ranges names priority classes with their values.
func ranges(classes []api.PriorityClass) string {
	var texts []string
	for _, class := range classes {
		lowest, highest, _ := class.Range()
		texts = append(texts, fmt.Sprintf("%s (%d to %d)", class, lowest, highest))
	}
	return strings.Join(texts, " or ")
}

// batchNeedsBE refuses batch resources in pods of any QoS class but BE: they are what others leave over, and only BE pods give it
// back.
func batchNeedsBE(_ *admit.Request, is, was *standing) *field.Error {
	if is.qos == api.QoSBE {
		return nil
	}
	batch, asks := firstClaim(is.pod, batchNames[:])
	if !asks || was != nil && was.qos == is.qos && sameSums(is.pod, was.pod, batchNames[:]) {
		return nil
	}
	detail := fmt.Sprintf("%s asks for %s %s, which only pods of QoS BE may have; set the label to BE, or ask for cpu and memory",
		batch.by, &batch.amount, batch.name)
	if is.qos == api.QoSNone {
		return field.Required(admit.LabelPath(api.LabelQoSClass), detail)
	}
	return field.Invalid(admit.LabelPath(api.LabelQoSClass), string(is.qos), detail)
}

// midNeedsQoS warns of mid resources in pods of a QoS class that does not go with them. Koordinator lets them pass.
func midNeedsQoS(req *admit.Request, is, was *standing) *field.Error {
	if was != nil || is.qos == api.QoSLS || is.qos == api.QoSBE {
		return nil // neither the resources nor the QoS class of a pod that exists can change
	}
	if mid, asks := firstClaim(is.pod, midNames[:]); asks {
		req.Warnf("%.40s asks for %s; set label koordinator.sh/qosClass to LS or BE", mid.by, mid.name)
	}
	return nil
}

var (
	batchNames = [...]corev1.ResourceName{api.ResourceBatchCPU, api.ResourceBatchMemory}
	midNames   = [...]corev1.ResourceName{api.ResourceMidCPU, api.ResourceMidMemory}
	cpuName    = [...]corev1.ResourceName{corev1.ResourceCPU}
)

// wholeCPUs refuses pods that own their CPUs but do not ask for a whole number of cores.
func wholeCPUs(_ *admit.Request, is, was *standing) *field.Error {
	if is.qos != api.QoSLSR && is.qos != api.QoSLSE {
		return nil
	}
	cpu := cpuRequest(is.pod)
	if was != nil && was.qos == is.qos && cpu.Cmp(cpuRequest(was.pod)) == 0 {
		return nil
	}
	rule := fmt.Sprintf("pods of QoS %s own their CPUs and must ask for a whole number of cores", is.qos)
	switch {
	case cpu.IsZero():
		return noCPU(is.pod, rule)
	case !api.WholeCores(cpu):
		return brokenCPU(is.pod, rule, cpu)
	}
	return nil
}

// noCPU names the containers, at the first of them.
func noCPU(pod *admit.Pod, rule string) *field.Error {
	at, names := admit.LabelPath(api.LabelQoSClass), []string{}
	for c := range pod.RegularContainers() {
		if len(names) == 0 {
			at = c.Resources().Requests().Path(corev1.ResourceCPU)
		}
		names = append(names, fmt.Sprintf("%q", c.Name()))
	}
	return field.Required(at, fmt.Sprintf(
		"%s, but nothing is asked for by container %s; set requests.cpu, or choose QoS LS", rule, strings.Join(names, ", ")))
}

// brokenCPU names what asks for a part of a core, at the first of it.
func brokenCPU(pod *admit.Pod, rule string, cpu resource.Quantity) *field.Error {
	first := claim{at: admit.LabelPath(api.LabelQoSClass), amount: cpu}
	var parts []string
	for c := range cpuClaims(pod) {
		if api.WholeCores(c.amount) {
			continue
		}
		if parts == nil {
			first = c
		}
		parts = append(parts, fmt.Sprintf("%s asks for %s", c.by, &c.amount))
	}
	return field.Invalid(first.at, first.amount.String(), fmt.Sprintf(
		"%s, but %s, which makes %s for the pod; ask for whole cores, or choose QoS LS", rule, strings.Join(parts, " and "), &cpu))
}
