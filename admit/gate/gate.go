// Package gate implements feature gates: named switches for steps, routes and features.
package gate

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the name of a gate. Gates are declared as constants, so that a misspelt name does not compile. As the gate of
// a step or a route, "" means always on, and Not(name) means on if the gate is off.
type Name string

// Not returns a name that is on if the gate is off.
func Not(name Name) Name { return "!" + name }

// Gate is a feature gate.
type Gate struct {
	Name    Name
	Default bool
	Doc     string // one line on what it does when it is on
}

// Set holds the states of the gates.
type Set struct{ on map[Name]bool }

// Defaults returns the gates in their default states.
func Defaults(known []Gate) Set {
	s := Set{make(map[Name]bool, len(known))}
	for _, g := range known {
		s.on[g.Name] = g.Default
	}
	return s
}

// Parse reads a list such as A=true,B=false, in the format of Kubernetes' --feature-gates; gates that are not listed
// keep their defaults. The error also lists the known gates.
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
