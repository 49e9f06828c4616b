package amplify

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
	"usher.dev/usher/internal/selector"
)

// Overcommit is the policy on amplifying nodes.
type Overcommit struct {
	Pools []Pool `json:"pools" doc:"sets of nodes; the first whose selector matches the labels of a node applies"`
}

// Pool is a set of nodes and how they are amplified.
type Pool struct {
	Name     string                         `json:"name" doc:"shown where the ratios are used" schema:"required,is=not-empty"`
	Selector metav1.LabelSelector           `json:"selector" doc:"selects nodes by their labels; {} selects all" default:"all nodes"`
	Ratios   map[corev1.ResourceName]string `json:"ratios" doc:"how much larger the nodes look, as decimal numbers in quotes" schema:"required,items=1,keys=cpu|memory,is=ratio"`
	MaxRatio string                         `json:"maxRatio,omitempty" doc:"the upper bound of all ratios of the pool" schema:"is=ratio" default:"no bound"`
	Capacity Capacity                       `json:"capacity,omitempty" doc:"keep leaves status.capacity as the size of the hardware; raise raises it together with allocatable, which keeps the system's reservation the same" schema:"enum=keep|raise" default:"keep"`
}

// Capacity says what amplification does to status.capacity.
type Capacity string

const (
	// Keep leaves capacity unchanged, as the size of the hardware.
	Keep Capacity = "keep"
	// Raise raises capacity together with allocatable, so that the amount reserved for the system stays the same.
	Raise Capacity = "raise"
)

// Section is the section overcommit. Its default amplifies the cpu of all nodes.
var Section = config.Section[*Overcommit]{Name: "overcommit", Check: (*Overcommit).check, Warnings: (*Overcommit).warnings,
	Tag: `doc:"how much larger nodes look to the scheduler"`, Default: `overcommit:
  pools:    [{name: default, selector: {}, ratios: {cpu: "2"}, maxRatio: "4", capacity: raise}]   # raise | keep
`}

// check returns all problems of the section.
func (o *Overcommit) check(at *field.Path) field.ErrorList {
	return check.Named(o.Pools, at.Child("pools"), func(e *Pool) string { return e.Name }, (*Pool).check)
}

// warnings returns the pools that no node can be in, because one before them selects every node.
func (o *Overcommit) warnings(_ *config.Policy, at *field.Path) (all []string) {
	for i, pool := range o.Pools {
		if len(pool.Selector.MatchLabels)+len(pool.Selector.MatchExpressions) > 0 {
			continue
		}
		for j, after := range o.Pools[i+1:] {
			all = append(all, fmt.Sprintf("%s: pool %s is never used: pool %s before it selects every node; move it up",
				at.Child("pools").Index(i+1+j), after.Name, pool.Name))
		}
		break
	}
	return all
}

func (p *Pool) check(at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if p.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "the name is shown where the pool's ratios are used"))
	}
	problems = append(problems, selector.Check(&p.Selector, at.Child("selector"))...)
	if len(p.Ratios) == 0 {
		problems = append(problems, field.Required(at.Child("ratios"), `such as {cpu: "2"}`))
	}
	problems = append(problems, p.checkRatios(at)...)
	if !slices.Contains([]Capacity{"", Keep, Raise}, p.Capacity) {
		problems = append(problems, field.NotSupported(at.Child("capacity"), p.Capacity, []Capacity{Keep, Raise}))
	}
	return problems
}

func (p *Pool) checkRatios(at *field.Path) (problems field.ErrorList) {
	resources := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	bound, err := quantity.ParseRatio(p.MaxRatio)
	if err != nil && p.MaxRatio != "" {
		problems = append(problems, field.Invalid(at.Child("maxRatio"), p.MaxRatio, err.Error()))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Ratios)) {
		ratio, err := quantity.ParseRatio(p.Ratios[name])
		switch {
		case !slices.Contains(resources, name):
			problems = append(problems, field.NotSupported(at.Child("ratios"), name, resources))
		case err != nil:
			problems = append(problems, field.Invalid(at.Child("ratios").Key(string(name)), p.Ratios[name], err.Error()))
		case p.MaxRatio != "" && ratio.Above(bound):
			problems = append(problems, field.Invalid(at.Child("ratios").Key(string(name)), ratio.String(), "is above maxRatio "+p.MaxRatio))
		}
	}
	return problems
}
