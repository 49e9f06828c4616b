package cluster

import "usher.dev/usher/slo"

// compileSLOConfig makes a *slo.Config of the ConfigMap. No ConfigMap: nil, which says nothing. What breaks a rule is a problem
// to be mended, but the rest of the configuration is in force, as it is for Koordinator's manager.
func compileSLOConfig(s *Snapshot) (any, []error) {
	found, err := sorted[map[string]string](s, SLOConfig)
	if err != nil {
		return nil, []error{err}
	}
	if len(found) == 0 {
		return (*slo.Config)(nil), nil
	}
	config := slo.Compile(found[0])
	var problems []error
	for _, problem := range config.Problems(nil) {
		problems = append(problems, problem)
	}
	return config, problems
}
