package sections

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/selector"
	"usher.dev/usher/mutators/amplify"
)

// NodeAmplification is the policy on amplifying nodes. If it is not set, a node's label or annotation alone decides,
// without a bound.
type NodeAmplification struct {
	Pools         []AmplificationPool `json:"pools,omitempty" doc:"sets of nodes; a node belongs to the first whose selector matches its labels"`
	FromSLOConfig bool                `json:"fromSLOConfig,omitempty" doc:"uses the ratios of the SLO configuration (resource-amplification-config) for nodes whose pool sets none" default:"false"`
}

// AmplificationPool is a set of nodes, their ratios, and the bounds for ratios from other sources.
type AmplificationPool struct {
	_ struct{} `schema:"either=ratios|maxRatios|maxUtilization"`

	Name           string                         `json:"name" doc:"shown where the ratios and bounds are used" schema:"required,is=not-empty"`
	Selector       metav1.LabelSelector           `json:"selector" doc:"selects nodes by their labels; {} selects all" default:"all nodes"`
	Ratios         map[corev1.ResourceName]string `json:"ratios,omitempty" doc:"ratios that take precedence over labels and annotations of nodes" schema:"keys=cpu|memory,is=ratio"`
	MaxRatios      map[corev1.ResourceName]string `json:"maxRatios,omitempty" doc:"bounds of the ratios, whatever their source" schema:"keys=cpu|memory,is=ratio" default:"no bound"`
	MaxUtilization map[corev1.ResourceName]int    `json:"maxUtilization,omitempty" doc:"lowers the ratios of nodes that use more than this percentage of capacity" schema:"keys=cpu|memory,min=1,max=100" default:"they are not lowered"`
}

// NodeAmplificationSection is the section nodeAmplification.
var NodeAmplificationSection = config.Section[*NodeAmplification]{Name: "nodeAmplification", Check: (*NodeAmplification).check,
	Tag: `doc:"how much larger nodes look; their labels and annotations may also ask for ratios"`,
	Default: `nodeAmplification:   # behind gate NodeMutatingWebhook
  pools:
  - {name: by-use, selector: {matchLabels: {amplify: by-use}}, ratios: {cpu: "2"}, maxUtilization: {cpu: 65}}
  - {name: default, selector: {}, maxRatios: {cpu: "4", memory: "1.5"}}
`}

// check returns all problems of the section.
func (n *NodeAmplification) check(at *field.Path) (problems field.ErrorList) {
	at = at.Child("pools")
	seen := map[string]bool{}
	for i, pool := range n.Pools {
		problems = append(problems, pool.check(at.Index(i))...)
		if seen[pool.Name] {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), pool.Name))
		}
		seen[pool.Name] = true
	}
	return problems
}

func (p *AmplificationPool) check(at *field.Path) (problems field.ErrorList) {
	if p.Name == "" {
		problems = append(problems, field.Required(at.Child("name"), "the name is shown where the pool's ratios and bounds are used"))
	}
	problems = append(problems, selector.Check(&p.Selector, at.Child("selector"))...)
	if len(p.Ratios)+len(p.MaxRatios)+len(p.MaxUtilization) == 0 {
		problems = append(problems, field.Required(at.Child("ratios"), `such as {cpu: "2"}; or maxRatios, or maxUtilization`))
	}
	ratios, wrong := checkRatios(p.Ratios, at.Child("ratios"))
	bounds, alsoWrong := checkRatios(p.MaxRatios, at.Child("maxRatios"))
	problems = append(append(problems, wrong...), alsoWrong...)
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		if bound, ok := bounds[name]; ok && ratios[name].Above(bound) {
			problems = append(problems, field.Invalid(at.Child("ratios").Key(string(name)), ratios[name].String(),
				"is above maxRatios "+bound.String()))
		}
	}
	return append(problems, checkPercents(p.MaxUtilization, at.Child("maxUtilization"))...)
}

type byResource = map[corev1.ResourceName]quantity.Ratio

// checkRatios returns the ratios that are valid.
func checkRatios(texts map[corev1.ResourceName]string, at *field.Path) (ratios byResource, problems field.ErrorList) {
	ratios = byResource{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		ratio, err := quantity.ParseRatio(texts[name])
		switch {
		case !slices.Contains(amplify.Amplifiable(), name):
			problems = append(problems, field.NotSupported(at, name, amplify.Amplifiable()))
		case err != nil:
			problems = append(problems, field.Invalid(at.Key(string(name)), texts[name], err.Error()))
		default:
			ratios[name] = ratio
		}
	}
	return ratios, problems
}

func checkPercents(percents map[corev1.ResourceName]int, at *field.Path) (problems field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(percents)) {
		switch percent := percents[name]; {
		case !slices.Contains(amplify.Amplifiable(), name):
			problems = append(problems, field.NotSupported(at, name, amplify.Amplifiable()))
		case percent < 1 || percent > 100:
			problems = append(problems, field.Invalid(at.Key(string(name)), percent, "must be from 1 to 100, in percent of capacity"))
		}
	}
	return problems
}
