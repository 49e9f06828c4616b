package collections

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/slo"
)

// DefaultSLOConfig is the ConfigMap where Koordinator keeps its SLO configuration.
var DefaultSLOConfig = types.NamespacedName{Namespace: "koordinator-system", Name: "slo-controller-config"}

// SLOConfig is the ConfigMap with the SLO configuration, compiled.
var SLOConfig = &cluster.Compiled[map[string]string, *slo.Config]{
	Collection: cluster.Collection[map[string]string]{
		Name: api.CollectionSLOConfig, Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true,
		Only: DefaultSLOConfig, Keep: configMapData,
	},
	Compile: compileSLOConfig,
}

// compileSLOConfig compiles the configuration; without a ConfigMap it is nil, which sets nothing. A violation of a rule
// is reported as a problem, and the rest of the configuration applies, as in Koordinator's manager.
func compileSLOConfig(all cluster.Objects[map[string]string]) (_ *slo.Config, problems []error, _ error) {
	found := all.Sorted()
	if len(found) == 0 {
		return nil, nil, nil
	}
	config := slo.Compile(found[0])
	for _, problem := range config.Problems(nil) {
		problems = append(problems, problem)
	}
	return config, problems, nil
}

// SLOConfig returns the SLO configuration; nil, which sets nothing, if there is no ConfigMap.
func (q Questions) SLOConfig() (*slo.Config, error) { return SLOConfig.Get(q.Now()) }

// SLORatios returns the ratios that the SLO configuration sets for a node with the given labels. Node routes never
// wait: before the first list, known is false.
func (q Questions) SLORatios(labels map[string]string) (map[string]string, bool) {
	known, err := q.SLOConfig()
	if !answered(err) || known == nil {
		return nil, false
	}
	ratios := known.Amplification(labels)
	return ratios, len(ratios) > 0
}
