package validators

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// deviceResource refuses GPU resources that no card can provide, in the short form (koordinator.sh/gpu) and in the long
// form that mutation turns it into (gpu-core, gpu-memory or gpu-memory-ratio, gpu.shared). On update only containers
// whose devices change are checked.
func deviceResource() admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name: "device-resource",
		Doc:  "refuses GPU resources that contradict each other or that no card can give, in containers and init containers",
		Gate: api.GateValidatePodDeviceResource,
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) (problems field.ErrorList, _ error) {
			old := storedPod(req)
			if old != nil && old.Deleting() {
				return pass(req, "the pod is being deleted")
			}
			before, found := containersOf(old), false
			for c := range pod.Containers() {
				if d := devicesOf(c); d != nil && !d.sameAs(before[c.Name()]) {
					found = true
					problems = append(problems, d.problems()...)
				}
			}
			explainDevices(req, found, problems)
			return problems, nil
		},
	}
}

// explainDevices explains that there are no problems; found reports whether there was anything to check.
func explainDevices(req *admit.Request, found bool, problems field.ErrorList) {
	switch {
	case !found:
		req.Explain("no container newly requests %s or %s", string(api.ResourceGPU), string(api.ResourceGPUShared))
	case len(problems) == 0:
		req.Explain("the GPU resources of the containers agree, and cards can provide them")
	}
}

// deviceNames are the resources that the check reads.
var deviceNames = [...]corev1.ResourceName{
	api.ResourceGPU, api.ResourceGPUShared, api.ResourceGPUCore, api.ResourceGPUMemory, api.ResourceGPUMemoryRatio,
	api.ResourceHuaweiNPUCore,
}

// devices are the devices of one container.
type devices struct {
	container string
	amounts   map[corev1.ResourceName]resource.Quantity
	// path returns the field of an amount: in the requests, unless only the limits have it.
	path func(name corev1.ResourceName) *field.Path
}

// devicesOf returns the devices that a container requests; nil if it requests no GPU, whole or shared.
func devicesOf(c *admit.Container) *devices {
	_, gpu := c.Request(api.ResourceGPU)
	_, shared := c.Request(api.ResourceGPUShared)
	if !gpu && !shared {
		return nil
	}
	d := &devices{c.Name(), map[corev1.ResourceName]resource.Quantity{}, func(name corev1.ResourceName) *field.Path {
		if r := c.Resources(); !r.Requests().Has(name) && r.Limits().Has(name) {
			return r.Limits().Path(name)
		}
		return c.Resources().Requests().Path(name)
	}}
	for _, name := range deviceNames {
		if q, ok := c.Request(name); ok {
			d.amounts[name] = q
		}
	}
	return d
}

// devicesOfTemplate returns the devices of a container that no API server completes and no step translates; nil if it has no
// GPU. The number of cards is the one that a pod would get.
func devicesOfTemplate(c *corev1.Container, resources *field.Path) *devices {
	d := &devices{c.Name, map[corev1.ResourceName]resource.Quantity{}, func(name corev1.ResourceName) *field.Path {
		_, requested := c.Resources.Requests[name]
		if _, limited := c.Resources.Limits[name]; limited && !requested {
			return resources.Child("limits").Key(string(name))
		}
		return resources.Child("requests").Key(string(name))
	}}
	gpu := false
	for _, name := range deviceNames {
		q, ok := c.Resources.Requests[name]
		if !ok {
			q, ok = c.Resources.Limits[name]
		}
		if ok {
			d.amounts[name] = q
			gpu = gpu || name != api.ResourceHuaweiNPUCore
		}
	}
	if !gpu {
		return nil
	}
	if !d.has(api.ResourceGPU) && !d.has(api.ResourceGPUShared) {
		d.amounts[api.ResourceGPUShared] = *resource.NewQuantity(api.GPUCards(d.amounts), resource.DecimalSI)
	}
	return d
}

// containersOf returns a pod's containers by name, or nil without a pod. It avoids repeated searches: a stored pod may
// have thousands of containers.
func containersOf(pod *admit.Pod) map[string]*admit.Container {
	if pod == nil {
		return nil
	}
	byName := map[string]*admit.Container{}
	for c := range pod.Containers() {
		if name := c.Name(); byName[name] == nil {
			byName[name] = c
		}
	}
	return byName
}

// sameAs reports whether a stored container exists and requests the same devices.
func (d *devices) sameAs(stored *admit.Container) bool {
	if stored == nil {
		return false
	}
	for _, name := range deviceNames {
		is, has := d.amounts[name]
		if was, had := stored.Request(name); had != has || was.Cmp(is) != 0 {
			return false
		}
	}
	return true
}

func (d *devices) has(name corev1.ResourceName) bool {
	_, ok := d.amounts[name]
	return ok
}

// value returns an amount as an integer, rounded up; 0 if it is missing.
func (d *devices) value(name corev1.ResourceName) int64 {
	q := d.amounts[name]
	return q.Value()
}

// describe prefixes a message with the container's name.
func (d *devices) describe(format string, args ...any) string {
	return fmt.Sprintf("container %q: ", d.container) + fmt.Sprintf(format, args...)
}

func (d *devices) invalid(name corev1.ResourceName, format string, args ...any) *field.Error {
	q := d.amounts[name]
	return field.Invalid(d.path(name), q.String(), d.describe(format, args...))
}

func (d *devices) problems() field.ErrorList {
	if problems := d.fractions(); len(problems) > 0 {
		return problems
	}
	return d.contradictions()
}

// fractions returns the problems of the amounts that API servers refuse.
func (d *devices) fractions() (problems field.ErrorList) {
	for _, name := range deviceNames {
		if problem := api.FractionOfDevice(d.amounts[name]); problem != "" {
			problems = append(problems, d.invalid(name, "%s", problem))
		}
	}
	return problems
}

// contradictions returns the problems of whole amounts.
func (d *devices) contradictions() field.ErrorList {
	switch {
	case d.has(api.ResourceGPU) && d.has(api.ResourceGPUShared):
		return field.ErrorList{field.Forbidden(d.path(api.ResourceGPUShared),
			d.describe("koordinator.sh/gpu and koordinator.sh/gpu.shared are two ways to say it; keep one of them"))}
	case d.has(api.ResourceGPU):
		return d.wholeProblems()
	}
	return d.sharedProblems()
}

// wholeProblems returns the problems of the short form.
func (d *devices) wholeProblems() field.ErrorList {
	switch gpu := d.value(api.ResourceGPU); {
	case gpu <= 0:
		return field.ErrorList{d.invalid(api.ResourceGPU, "must be greater than zero, in percent of a card; 100 is one card")}
	case gpu > api.WholeCard && gpu%api.WholeCard != 0:
		return field.ErrorList{d.invalid(api.ResourceGPU, "above 100, one card, must be a multiple of 100; ask for whole cards")}
	}
	return nil
}

// sharedProblems returns the problems of the long form.
func (d *devices) sharedProblems() (problems field.ErrorList) {
	cards := d.value(api.ResourceGPUShared)
	if cards <= 0 {
		problems = append(problems, d.invalid(api.ResourceGPUShared, "must be greater than zero; it is a number of cards"))
	}
	if d.value(api.ResourceHuaweiNPUCore) != 0 {
		return problems // these have no memory amounts
	}
	switch memory, ratio := d.value(api.ResourceGPUMemory), d.value(api.ResourceGPUMemoryRatio); {
	case memory == 0 && ratio == 0:
		problems = append(problems, field.Forbidden(d.path(api.ResourceGPUMemoryRatio),
			d.describe("gpu.shared needs an amount of memory too; set koordinator.sh/gpu-memory-ratio or koordinator.sh/gpu-memory")))
	case memory != 0 && ratio != 0:
		problems = append(problems, field.Forbidden(d.path(api.ResourceGPUMemory),
			d.describe("koordinator.sh/gpu-memory and koordinator.sh/gpu-memory-ratio are two ways to say it; keep one of them")))
	}
	for _, name := range [...]corev1.ResourceName{api.ResourceGPUCore, api.ResourceGPUMemoryRatio} {
		if problem := d.perCard(name, cards); problem != nil {
			problems = append(problems, problem)
		}
	}
	return problems
}

// perCard refuses a percentage that cannot be divided evenly among the cards, or is more than they have.
func (d *devices) perCard(name corev1.ResourceName, cards int64) *field.Error {
	percent := d.value(name)
	switch {
	case cards <= 0:
		return nil
	case percent%cards != 0:
		return d.invalid(name, "must be a multiple of koordinator.sh/gpu.shared, %d; ask for the same part of each card", cards)
	case percent/cards > api.WholeCard:
		return d.invalid(name, "must be at most 100 a card, and koordinator.sh/gpu.shared is %d; ask for less, or more cards", cards)
	}
	return nil
}
