// Package config is the policy file: what usher enforces and adds, as plain values. Each section is a file: its type and its check.
package config

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// Policy is the whole policy file. What the file does not say, usher does not do: a section that is left out does nothing.
type Policy struct {
	// Names refuses pods by their name.
	Names *Names `json:"names,omitempty"`
	// Lifespan turns a label into tolerations.
	Lifespan *Lifespan `json:"lifespan,omitempty"`
	// Env is set in every container that does not set it itself.
	Env Env `json:"env,omitempty"`
	// Overcommit amplifies nodes.
	Overcommit *Overcommit `json:"overcommit,omitempty"`
	// Modes says how seriously a step is taken, by its name. Default: enforce.
	Modes admit.Modes `json:"modes,omitempty"`

	// others are the sections that a suite brings, by their names in the file.
	others map[string]Section
}

// Section is a part of the policy file. Its fields are checked when the file is read.
type Section interface {
	// Check returns every problem of a section, given its path in the file.
	Check(at *field.Path) field.ErrorList
}

// Schema says what a policy file may hold beside the sections of Policy.
type Schema struct {
	// Steps are the names that modes may use.
	Steps []string
	// Sections are those of suites, by their names in the file; each function returns an empty one, a pointer to decode into.
	Sections map[string]func() Section
	// Default is what suites add to the policy that is used without a file, in YAML.
	Default string
}

// SectionOf returns the section of a type that a suite brought; nil if the file leaves it out.
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

//go:embed default.yaml
var defaultYAML []byte

// DefaultYAML returns the policy that is used without --config, as a file.
func (s Schema) DefaultYAML() []byte { return append(slices.Clip(defaultYAML), s.Default...) }
