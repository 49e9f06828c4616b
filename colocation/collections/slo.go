package collections

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/slo"
)

// DefaultSLOConfig is where Koordinator keeps its SLO configuration.
var DefaultSLOConfig = types.NamespacedName{Namespace: "koordinator-system", Name: "slo-controller-config"}

// SLOConfig is the ConfigMap with the SLO configuration, and the configuration.
var SLOConfig = &cluster.Compiled[map[string]string, *slo.Config]{
	Collection: cluster.Collection[map[string]string]{
		Name: api.CollectionSLOConfig, Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true,
		Only: DefaultSLOConfig, Keep: configMapData,
	},
	Compile: compileSLOConfig,
}

// compileSLOConfig makes the configuration of the ConfigMap. No ConfigMap: nil, which says nothing. What breaks a rule is a problem
// to be mended, but the rest of the configuration is in force, as it is for Koordinator's manager.
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

// SLOConfig returns the SLO configuration; nil, which says nothing, if there is no ConfigMap.
func (q Questions) SLOConfig() (*slo.Config, error) { return SLOConfig.Get(q.Now()) }

// SLORatios returns the ratios that the SLO configuration gives a node with such labels. Node routes never wait: what is not there yet
// says nothing.
func (q Questions) SLORatios(labels map[string]string) (map[string]string, bool) {
	known, err := q.SLOConfig()
	if !answered(err) || known == nil {
		return nil, false
	}
	ratios := known.Amplification(labels)
	return ratios, len(ratios) > 0
}
