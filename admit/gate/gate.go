// Package gate implements feature gates: named switches for steps, routes and features.
package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"usher.dev/usher/internal/nearest"
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
type Set struct {
	on      map[Name]bool
	foreign []Name
}

// Defaults returns the gates in their default states.
func Defaults(known []Gate) Set {
	s := Set{on: make(map[Name]bool, len(known))}
	for _, g := range known {
		s.on[g.Name] = g.Default
	}
	return s
}

// Parse reads a list such as A=true,B=false, in the format of Kubernetes' --feature-gates; gates that are not listed
// keep their defaults. The gates in foreign may be listed, and switch nothing. An error about an unknown
// one lists those that are known.
func Parse(text string, known []Gate, foreign []Name) (Set, error) {
	s := Defaults(known)
	for _, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, hasValue := strings.Cut(item, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, is := s.on[Name(name)]; !is && !slices.Contains(foreign, Name(name)) {
			all := names(known)
			return Set{}, fmt.Errorf("unrecognized feature gate: %s%s; the gates are %s", name, nearest.Question(name, all), strings.Join(all, ", "))
		}
		if err := s.set(Name(name), value, hasValue); err != nil {
			return Set{}, err
		}
	}
	return s, nil
}

func (s *Set) set(name Name, value string, hasValue bool) error {
	if !hasValue {
		return fmt.Errorf("missing bool value for %s", name)
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("invalid value of %s=%s: must be true or false", name, value)
	}
	if _, is := s.on[name]; is {
		s.on[name] = on
	} else {
		s.foreign = append(s.foreign, name)
	}
	return nil
}

// Warnings returns a line for each foreign gate that was listed.
func (s Set) Warnings() (lines []string) {
	for _, name := range s.foreign {
		lines = append(lines, fmt.Sprintf("--feature-gates: %s switches nothing in usher, and is ignored", name))
	}
	return lines
}

func names(known []Gate) []string {
	all := make([]string, len(known))
	for i, g := range known {
		all[i] = string(g.Name)
	}
	return all
}

// On reports whether a gate is on.
func (s Set) On(name Name) bool {
	if off, inverted := strings.CutPrefix(string(name), "!"); inverted {
		return !s.on[Name(off)]
	}
	return name == "" || s.on[name]
}
