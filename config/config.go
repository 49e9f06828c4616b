// Package config defines the policy file: what usher enforces and changes, as plain values. Each section is a file of
// this package, with its type and its check.
package config

import (
	_ "embed"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// Policy is the whole policy file. A section that is left out does nothing.
type Policy struct {
	// Names refuses pods by their name.
	Names *Names `json:"names,omitempty"`
	// Lifespan turns a label into tolerations.
	Lifespan *Lifespan `json:"lifespan,omitempty"`
	// Env is set in every container that does not set it itself.
	Env Env `json:"env,omitempty"`
	// LabelDefaults sets labels and annotations on pods that lack them.
	LabelDefaults LabelDefaults `json:"labelDefaults,omitempty"`
	// LabelRules are what labels and annotations of pods must be.
	LabelRules LabelRules `json:"labelRules,omitempty"`
	// NodeSelector is which nodes the pods of a namespace may use.
	NodeSelector *NodeSelector `json:"nodeSelector,omitempty"`
	// Sidecars are injected into new pods.
	Sidecars Sidecars `json:"sidecars,omitempty"`
	// ImageRules are what images must be.
	ImageRules ImageRules `json:"imageRules,omitempty"`
	// Overcommit amplifies nodes.
	Overcommit *Overcommit `json:"overcommit,omitempty"`
	// Restrictions say who may do what in which namespaces.
	Restrictions Restrictions `json:"restrictions,omitempty"`
	// RequestsFromLimits computes requests from limits.
	RequestsFromLimits RequestsFromLimits `json:"requestsFromLimits,omitempty"`
	// Rules check objects of any kind with expressions.
	Rules Rules `json:"rules,omitempty"`
	// Limits bound how many reviews are decided in a second.
	Limits Limits `json:"limits,omitempty"`
	// Modes sets the modes of steps by name. Default: enforce.
	Modes admit.Modes `json:"modes,omitempty"`
	// Overrides are exceptions to the modes.
	Overrides Overrides `json:"overrides,omitempty"`

	// others are the sections of suites, by their names in the file.
	others map[string]Section
}

// Section is a part of the policy file. Its fields are checked when the file is read.
type Section interface {
	// Check returns all problems of the section. at is its path in the file.
	Check(at *field.Path) field.ErrorList
}

// Schema describes what a policy file may contain in addition to the sections of Policy.
type Schema struct {
	// Steps are the step names that modes may use.
	Steps []string
	// Routes are the paths that limits may name; nil: any.
	Routes []string
	// Unspaced are those of Steps that are about objects outside of namespaces only.
	Unspaced []string
	// Sections are the sections of suites, by their names in the file. Each function returns a pointer to an empty
	// section to decode into.
	Sections map[string]func() Section
	// Default is what suites add, in YAML, to the policy that is used without a file.
	Default string
}

// SectionOf returns the section of the given type, which a suite has defined, or nil if the file leaves it out.
func SectionOf[T any](p *Policy) *T {
	for _, s := range p.others {
		if section, ok := any(s).(*T); ok {
			return section
		}
	}
	return nil
}

// sections returns the sections that the file has, by name.
func (p *Policy) sections() map[string]Section {
	all := map[string]Section{}
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || v.Field(i).IsZero() {
			continue
		}
		if section, ok := v.Field(i).Interface().(Section); ok {
			all[name] = section
		}
	}
	for name, section := range p.others {
		all[name] = section
	}
	return all
}

// LeftOut returns the names of the sections that the file does not have, sorted: what they would do is switched off.
func (p *Policy) LeftOut(schema Schema) (names []string) {
	has := p.sections()
	for _, name := range append(fieldNames(reflect.TypeFor[Policy]()), slices.Collect(maps.Keys(schema.Sections))...) {
		if _, found := has[name]; !found && name != "modes" && name != "overrides" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Warnings returns what is probably not meant, although it is allowed.
func (p *Policy) Warnings() []string {
	return slices.Concat(p.Overrides.warnings(p.Modes, field.NewPath("overrides")), p.NodeSelector.warnings(field.NewPath("nodeSelector")),
		p.LabelRules.warnings(p.LabelDefaults, field.NewPath("labelDefaults")),
		p.Overcommit.warnings(field.NewPath("overcommit")), p.Rules.warnings(field.NewPath("rules")),
		p.Limits.warnings(field.NewPath("limits")))
}

//go:embed default.yaml
var defaultYAML []byte

// DefaultYAML returns the policy that is used without --config, in YAML.
func (s Schema) DefaultYAML() []byte { return append(slices.Clip(defaultYAML), s.Default...) }
