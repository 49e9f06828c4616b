// Package gate has feature gates: named switches of steps, routes, and what steps do.
package gate

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the name of a gate. Every gate is declared as a constant, so that a name with a typo does not compile. As the gate of a step or a
// route, "" is always on, and Not of a name is on when the gate is off.
type Name string

// Not is on when the gate is off.
func Not(name Name) Name { return "!" + name }

// Gate is a feature gate.
type Gate struct {
	Name    Name
	Default bool
	Doc     string // what it does when it is on, in one line
}

// Set says which gates are on.
type Set struct{ on map[Name]bool }

// Defaults are the gates as they are if nobody switches them.
func Defaults(known []Gate) Set {
	s := Set{make(map[Name]bool, len(known))}
	for _, g := range known {
		s.on[g.Name] = g.Default
	}
	return s
}

// Parse reads a list such as A=true,B=false, as Kubernetes' --feature-gates; all other gates are as by default. The error names what is
// wrong, and the gates there are.
func Parse(text string, known []Gate) (Set, error) {
	s := Defaults(known)
	for _, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if err := s.set(strings.Cut(item, "=")); err != nil {
			return Set{}, fmt.Errorf("%w; the gates are %s", err, names(known))
		}
	}
	return s, nil
}

func (s Set) set(name, value string, hasValue bool) error {
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if _, known := s.on[Name(name)]; !known {
		return fmt.Errorf("unrecognized feature gate: %s", name)
	}
	if !hasValue {
		return fmt.Errorf("missing bool value for %s", name)
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("invalid value of %s=%s: must be true or false", name, value)
	}
	s.on[Name(name)] = on
	return nil
}

func names(known []Gate) string {
	all := make([]string, len(known))
	for i, g := range known {
		all[i] = string(g.Name)
	}
	return strings.Join(all, ", ")
}

// On reports whether a gate is on.
func (s Set) On(name Name) bool {
	if off, inverted := strings.CutPrefix(string(name), "!"); inverted {
		return !s.on[Name(off)]
	}
	return name == "" || s.on[name]
}
