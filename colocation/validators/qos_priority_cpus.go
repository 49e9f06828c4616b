package validators

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// wholeCPUs refuses pods with exclusive CPUs that do not request a whole number of cores.
func wholeCPUs(_ *admit.Request, is, was *podClasses) *field.Error {
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
		return missingCPU(is.pod, rule)
	case !api.WholeCores(cpu):
		return fractionalCPU(is.pod, rule, cpu)
	}
	return nil
}

// missingCPU returns a problem at the first container that lists all containers.
func missingCPU(pod *admit.Pod, rule string) *field.Error {
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

// fractionalCPU returns a problem at the first request of a fraction of a core that lists all of them.
func fractionalCPU(pod *admit.Pod, rule string, cpu resource.Quantity) *field.Error {
	first := partRequest{at: admit.LabelPath(api.LabelQoSClass), amount: cpu}
	var parts []string
	for c := range cpuRequests(pod) {
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
