package suite

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/server/ratelimit"
)

// Schema returns the sections of the policy file: those that the steps of all routes name, and those that are about steps
// and routes.
func (s List) Schema() config.Schema {
	var paths, order []string
	var steps []admit.Step
	var optIn []admit.Label
	for _, route := range s.Table(NoPolicy, gate.Defaults(s.Gates())) {
		paths, steps = append(paths, route.Path), append(steps, route.Chain.Steps()...)
		if !slices.Contains(optIn, route.OptIn) && route.OptIn.Key != "" {
			optIn = append(optIn, route.OptIn)
		}
	}
	modes := ""
	for _, suite := range s {
		order, modes = append(order, suite.Default...), modes+suite.DefaultModes
	}
	names, clusterScoped := s.Steps()
	schema := append(config.SchemaOf(steps...), ratelimit.Section(paths), overridesSection(names, clusterScoped, optIn), modesSection(names, modes))
	place := func(section config.Declared) int {
		if i := slices.Index(order, section.SectionName()); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(schema, func(a, b config.Declared) int { return place(a) - place(b) })
	return schema
}

// Steps returns the names of all steps in order, and of those that are about objects outside of namespaces only.
func (s List) Steps() (names, clusterScoped []string) {
	namespaced := map[string]bool{}
	for _, route := range s.Table(NoPolicy, gate.Defaults(s.Gates())) {
		for _, step := range route.Chain.Steps() {
			if !slices.Contains(names, step.Name) {
				names = append(names, step.Name)
			}
			namespaced[step.Name] = namespaced[step.Name] || mayHaveNamespace(route)
		}
	}
	return names, slices.DeleteFunc(slices.Clone(names), func(step string) bool { return namespaced[step] })
}

// modesSection returns the section modes, of the given steps. inDefault is the section in the default policy.
func modesSection(steps []string, inDefault string) config.Section[admit.Modes] {
	return config.Section[admit.Modes]{Name: "modes", Default: inDefault, Setting: true,
		Tag:   `doc:"what steps may do, by the name of the step: enforce, the default; warn changes objects, but only warns where it would refuse; dryrun does nothing, but logs, counts and audits what it would do; off" schema:"keys=step"`,
		Check: func(modes admit.Modes, at *field.Path) field.ErrorList { return modes.CheckSteps(steps, at) }}
}

// overridesSection returns the section overrides, of the given steps. optIn are the labels by which namespaces opt in.
func overridesSection(steps, clusterScoped []string, optIn []admit.Label) config.Section[override.List] {
	return config.Section[override.List]{Name: "overrides", Setting: true, Check: override.List.Check,
		Tag: `doc:"exceptions to the modes; the first that matches a request sets the mode of its steps"`,
		CheckWith: func(all override.List, policy *config.Policy, at *field.Path) field.ErrorList {
			return all.CheckSteps(steps, clusterScoped, optIn, config.SectionOf[admit.Modes](policy), at)
		},
		Warnings: func(all override.List, policy *config.Policy, at *field.Path) []string {
			return all.Warnings(config.SectionOf[admit.Modes](policy), at)
		}}
}
