package mutators

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// RequestsFromLimits says how the requests of containers follow from their limits. The first entry that selects a pod
// applies.
type RequestsFromLimits []RequestsClass

// RequestsClass computes requests from limits, for the pods that it selects. A percentage that is left out changes
// nothing.
type RequestsClass struct {
	_ struct{} `schema:"either=cpuRequestToLimitPercent|memoryRequestToLimitPercent|limitCPUToMemoryPercent"`

	Name string `json:"name" doc:"shown in explanations" schema:"required,is=not-empty"`
	config.Selection
	CPURequestToLimitPercent    int                            `json:"cpuRequestToLimitPercent,omitempty" doc:"the cpu request in percent of the cpu limit" schema:"min=0,max=100" default:"unchanged"`
	MemoryRequestToLimitPercent int                            `json:"memoryRequestToLimitPercent,omitempty" doc:"the memory request in percent of the memory limit" schema:"min=0,max=100" default:"unchanged"`
	LimitCPUToMemoryPercent     int                            `json:"limitCPUToMemoryPercent,omitempty" doc:"the cpu limit in percent of the memory limit, where 100 is 1 core for 1Gi; it is set before the requests" schema:"min=0,max=10000" default:"unchanged"`
	Floors                      map[corev1.ResourceName]string `json:"floors,omitempty" doc:"the smallest requests that are set" schema:"keys=cpu|memory,is=quantity" default:"1m and 1Mi"`
}

// maxCPUToMemory is the largest LimitCPUToMemoryPercent: 100 cores for 1Gi.
const maxCPUToMemory = 10000

// check returns all problems of the section.
func (r RequestsFromLimits) check(at *field.Path) field.ErrorList {
	return check.Named(r, at, func(e *RequestsClass) string { return e.Name }, (*RequestsClass).check)
}

func (c RequestsClass) check(at *field.Path) (problems field.ErrorList) {
	if c.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "explanations name it"))
	}
	problems = append(problems, c.Selection.Check(at)...)
	for _, p := range []struct {
		name       string
		value, max int
		means      string
	}{
		{"cpuRequestToLimitPercent", c.CPURequestToLimitPercent, 100, "percent of the cpu limit"},
		{"memoryRequestToLimitPercent", c.MemoryRequestToLimitPercent, 100, "percent of the memory limit"},
		{"limitCPUToMemoryPercent", c.LimitCPUToMemoryPercent, maxCPUToMemory, "percent, where 100 means 1 core for 1Gi"},
	} {
		if p.value < 0 || p.value > p.max {
			problems = append(problems, field.Invalid(at.Child(p.name), p.value, "must be from 0 to "+strconv.Itoa(p.max)+": "+p.means+"; 0 changes nothing"))
		}
	}
	if c.CPURequestToLimitPercent+c.MemoryRequestToLimitPercent+c.LimitCPUToMemoryPercent == 0 && len(problems) == 0 {
		problems = append(problems, field.Required(at, "cpuRequestToLimitPercent, memoryRequestToLimitPercent or limitCPUToMemoryPercent"))
	}
	return append(problems, checkAmounts(c.Floors, at.Child("floors"))...)
}

// checkAmounts returns the problems of amounts of cpu and memory.
func checkAmounts(amounts map[corev1.ResourceName]string, at *field.Path) (problems field.ErrorList) {
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		text := amounts[name]
		q, err := quantity.ParseQuantity(text)
		switch {
		case !slices.Contains(known, name):
			problems = append(problems, field.NotSupported(at, name, known))
		case err != nil:
			problems = append(problems, field.Invalid(at.Key(string(name)), text, err.Error()))
		case q.Sign() <= 0:
			problems = append(problems, field.Invalid(at.Key(string(name)), text, "must be more than 0"))
		}
	}
	return problems
}
