// Package config reads, checks and watches the policy file. It knows no section: each is declared by a Section, beside
// the step that obeys it. Other modules may import it to build an usher of their own. Its API holds from 0.1.0 on.
package config

import (
	"fmt"
	"slices"
)

// Policy is the whole policy file. A section that is left out does nothing.
type Policy struct {
	parts []part // sorted by name
}

// PolicyOf returns a policy of the given sections, which are not checked. It is for programs and tests without a file.
func PolicyOf(sections ...any) *Policy {
	policy := &Policy{}
	for _, value := range sections {
		policy.parts = append(policy.parts, part{name: fmt.Sprintf("%T", value), value: value})
	}
	return policy
}

// SectionOf returns the section with the value of type T, or the zero value, such as nil, if the file leaves it out.
func SectionOf[T any](p *Policy) T {
	for _, part := range p.parts {
		if section, ok := part.value.(T); ok {
			return section
		}
	}
	var none T
	return none
}

// Sections returns the names of the sections that the file has, sorted.
func (p *Policy) Sections() (names []string) {
	for _, part := range p.parts {
		names = append(names, part.name)
	}
	return names
}

// LeftOut returns the names of the sections that the file does not have, sorted: what they would do is switched off.
func (p *Policy) LeftOut(schema Schema) (names []string) {
	for name, row := range schema.rows() {
		if !row.setting && !slices.ContainsFunc(p.parts, func(has part) bool { return has.name == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Warnings returns what is probably not meant, although it is allowed.
func (p *Policy) Warnings() (all []string) {
	for _, part := range p.parts {
		if part.warnings != nil {
			all = append(all, part.warnings(p)...)
		}
	}
	return all
}
