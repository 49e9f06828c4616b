package config

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// Section declares a section of the policy file, whose value is a T: a pointer to a struct, a slice or a map. The steps
// that obey it name it in their field Section. No two sections have the same T.
type Section[T any] struct {
	// Name is its name in the file.
	Name string
	// Tag describes the section, as the tags of its fields describe those, for editors and docs/policy.md. Package
	// usherctl/schema lists the tags.
	Tag reflect.StructTag
	// Default is the section, in YAML, in the policy that is used without a file. If it is empty, that policy leaves the
	// section out.
	Default string
	// Check, if set, returns all problems of the section. at is its path in the file.
	Check func(section T, at *field.Path) field.ErrorList
	// CheckWith, if set, returns the problems that depend on the other sections of the policy.
	CheckWith func(section T, policy *Policy, at *field.Path) field.ErrorList
	// Warnings, if set, returns what is probably not meant, although it is allowed.
	Warnings func(section T, policy *Policy, at *field.Path) []string
	// ReadsNamespace, if set, reports whether a field needs to know Namespaces. It gets the names of all fields with their
	// values in JSON, the section's name first. Fields that are called namespaceSelector, and are not empty, always do.
	ReadsNamespace func(name string, value any) bool
	// Trial, if set, returns what the section adds to pods, for an API server to validate; nil: nothing.
	Trial func(section T, at *field.Path) *Trial
	// Setting marks a section without which nothing is switched off, such as one of exceptions.
	Setting bool
}

// SectionName returns the name of the section.
func (s Section[T]) SectionName() string { return s.Name }

// Declared is a Section of any type.
type Declared interface {
	admit.Section
	row() row
}

// row is a declared section as the schema has it.
type row struct {
	name, yaml string
	setting    bool
	shape      reflect.Type
	tag        reflect.StructTag
	read       func(raw []byte) (part, []error)
}

// part is a section that a policy has. Its functions come from the Section; nil ones are not called.
type part struct {
	name           string
	value          any
	check          func() field.ErrorList
	checkWith      func(*Policy) field.ErrorList
	warnings       func(*Policy) []string
	readsNamespace func(name string, value any) bool
	trial          func() *Trial
}

func (s Section[T]) row() row {
	return row{name: s.Name, yaml: s.Default, setting: s.Setting, shape: reflect.TypeFor[T](), tag: s.Tag, read: func(raw []byte) (part, []error) {
		var value T
		problems := decodeStrict(raw, &value, s.Name+".")
		return s.part(value), problems
	}}
}

func (s Section[T]) part(value T) part {
	at, p := field.NewPath(s.Name), part{name: s.Name, value: value, readsNamespace: s.ReadsNamespace}
	if s.Check != nil {
		p.check = func() field.ErrorList { return s.Check(value, at) }
	}
	if s.CheckWith != nil {
		p.checkWith = func(policy *Policy) field.ErrorList { return s.CheckWith(value, policy, at) }
	}
	if s.Warnings != nil {
		p.warnings = func(policy *Policy) []string { return s.Warnings(value, policy, at) }
	}
	if s.Trial != nil {
		p.trial = func() *Trial { return s.Trial(value, at) }
	}
	return p
}

// Schema is the list of the sections that a policy file may have, in the order in which the default policy has them.
type Schema []Declared

// SchemaOf returns the sections that steps name, in the order of the steps.
func SchemaOf(steps ...admit.Step) (schema Schema) {
	for _, step := range steps {
		if section, ok := step.Section.(Declared); ok && !slices.Contains(schema.Names(), section.SectionName()) {
			schema = append(schema, section)
		}
	}
	return schema
}

// rows returns the sections by their names.
func (s Schema) rows() map[string]row {
	rows := make(map[string]row, len(s))
	for _, section := range s {
		rows[section.SectionName()] = section.row()
	}
	return rows
}

// Names returns the names of the sections, in order.
func (s Schema) Names() (names []string) {
	for _, section := range s {
		names = append(names, section.SectionName())
	}
	return names
}

// Type returns the type of the value of a section; nil if there is no such section.
func (s Schema) Type(name string) reflect.Type { return s.rows()[name].shape }

// Tag returns the tag of a section; "" if there is no such section.
func (s Schema) Tag(name string) reflect.StructTag { return s.rows()[name].tag }

// DefaultYAML returns the policy that is used without --config, in YAML, put together from the sections.
func (s Schema) DefaultYAML() (text []byte) {
	for _, section := range s {
		text = append(text, section.row().yaml...)
	}
	return text
}
