package mutators

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/colocation/api"
)

// deviceResourceSpec translates a container's GPU resources for the scheduler: koordinator.sh/gpu, in percent of a
// card, becomes the same amount of gpu-core and gpu-memory-ratio, and gpu.shared is the number of cards, unless the
// container sets it. The API server requires the same request and limit of a device, so each completes the other.
// Pod-level spec.resources take no devices (KEP-2837), and the devices of an existing pod cannot change.
func deviceResourceSpec() admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name: "device-resource-spec",
		Doc:  "completes the GPU resources of every container and init container; a gpu.shared that the container sets itself wins",
		Gate: gate.Not(api.GateDisableDeviceResourceSpec),
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			if req.Operation == admissionv1.Update {
				req.Explain("the devices of an existing pod cannot change")
				return nil
			}
			for c := range pod.Containers() {
				amounts, err := readGPU(c)
				if err != nil {
					return err
				}
				if amounts != nil {
					completeGPU(req, c, amounts)
				}
			}
			return nil
		},
	}
}

// gpuNames are the resources that describe GPUs, in the order in which they are written.
var gpuNames = [...]corev1.ResourceName{
	api.ResourceGPU, api.ResourceGPUCore, api.ResourceGPUMemory, api.ResourceGPUMemoryRatio, api.ResourceGPUShared,
}

type gpuAmounts map[corev1.ResourceName]resource.Quantity

// readGPU returns the GPU resources of a container, from requests or limits; nil if there are none.
func readGPU(c *admit.Container) (amounts gpuAmounts, _ error) {
	requests, limits := c.Resources().Requests(), c.Resources().Limits()
	if !requests.Exists() && !limits.Exists() {
		return nil, nil
	}
	for _, name := range gpuNames {
		request, requested := requests.Get(name)
		limit, limited := limits.Get(name)
		if !requested && !limited {
			continue
		}
		if requested && limited && request.Cmp(limit) != 0 {
			return nil, differing(c, name, request, limit)
		}
		if amounts == nil {
			amounts = gpuAmounts{}
		}
		amount := limit
		if requested {
			amount = request
		}
		if problem := api.FractionOfDevice(amount); problem != "" {
			return nil, wrong(c, name, amount, problem)
		}
		amounts[name] = amount
	}
	return amounts, wholeCards(c, amounts)
}

// differing refuses different requests and limits of a device.
func differing(c *admit.Container, name corev1.ResourceName, request, limit resource.Quantity) error {
	return field.Invalid(c.Resources().Limits().Path(name), limit.String(), fmt.Sprintf(
		"container %q requests %s: request and limit of a device must be the same; set both to what is wanted", c.Name(), &request))
}

// wholeCards refuses an amount of koordinator.sh/gpu above one card that is not a multiple of whole cards.
func wholeCards(c *admit.Container, amounts gpuAmounts) error {
	gpu, ok := amounts[api.ResourceGPU]
	if !ok || gpu.Value() <= api.WholeCard || gpu.Value()%api.WholeCard == 0 {
		return nil
	}
	return wrong(c, api.ResourceGPU, gpu, "above 100, one card, it must be a multiple of 100; ask for whole cards, or for at most 100")
}

// wrong refuses an amount where it is written: in the requests, unless only the limits have it.
func wrong(c *admit.Container, name corev1.ResourceName, amount resource.Quantity, why string) error {
	list := c.Resources().Requests()
	if !list.Has(name) {
		list = c.Resources().Limits()
	}
	return field.Invalid(list.Path(name), amount.String(), fmt.Sprintf("container %q: %s", c.Name(), why))
}

// completeGPU writes the derived amounts into both requests and limits.
func completeGPU(req *admit.Request, c *admit.Container, amounts gpuAmounts) {
	if gpu, ok := amounts[api.ResourceGPU]; ok {
		percent := gpu
		if own := amounts[api.ResourceGPUCore]; completed(amounts) && own.Cmp(gpu) != 0 {
			percent = own
			req.Warnf("container %q: koordinator.sh/gpu=%s is dropped, because the amounts that it stands for are set", c.Name(), &gpu)
		}
		for _, name := range []corev1.ResourceName{api.ResourceGPUCore, api.ResourceGPUMemoryRatio} {
			if own, ok := amounts[name]; ok && own.Cmp(percent) != 0 {
				req.Warnf("container %q: %s=%s is replaced by the %s of koordinator.sh/gpu; set only one of them", c.Name(), name, &own, &gpu)
			}
			amounts[name] = percent
		}
		delete(amounts, api.ResourceGPU)
	}
	if _, ok := amounts[api.ResourceGPUShared]; !ok {
		amounts[api.ResourceGPUShared] = *resource.NewQuantity(api.GPUCards(amounts), resource.DecimalSI)
	}
	for _, list := range []admit.Resources{c.Resources().Requests(), c.Resources().Limits()} {
		for _, name := range gpuNames {
			if q, ok := amounts[name]; ok {
				list.Set(name, q)
			} else {
				list.Remove(name)
			}
		}
	}
}

// completed reports whether an earlier run has completed the amounts: then a LimitRange, or another webhook, has filled in
// what it removed.
func completed(amounts gpuAmounts) bool {
	core, cored := amounts[api.ResourceGPUCore]
	ratio, rated := amounts[api.ResourceGPUMemoryRatio]
	_, shared := amounts[api.ResourceGPUShared]
	return cored && rated && shared && core.Cmp(ratio) == 0
}
