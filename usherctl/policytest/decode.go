package policytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/schema"
)

// Read returns the cases of a file, and the problems of documents that are not YAML. What else is wrong with a case is kept in
// it, and its result says so.
func Read(file string, text []byte) (found []*Case, problems []error) {
	documents, problems := manifest.Documents(file, text)
	var defaults map[string]json.RawMessage
	for _, d := range documents {
		members := mappingOf(d.JSON)
		version := takeVersion(members)
		if given, err := defaultsOf(members); given != nil || err != nil {
			if defaults = given; err != nil {
				problems = append(problems, fmt.Errorf("line %d: %w", d.Line, err))
			}
			if err := errors.Join(version...); err != nil {
				problems = append(problems, fmt.Errorf("line %d: %w", d.Line, err))
			}
			continue
		}
		addDefaults(members, defaults)
		c := &Case{Place: d.Place, expect: map[string]expectation{}, line: d.Line}
		c.Err = errors.Join(append(version, c.decode(d, members)...)...)
		c.Name = nameOf(file, d.Document, c.Name)
		found = append(found, c)
	}
	return found, problems
}

// mappingOf returns the members of a mapping; nil if the JSON is none.
func mappingOf(raw json.RawMessage) (members map[string]json.RawMessage) {
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	return members
}

// takeVersion removes apiVersion and kind from a document, and returns what is wrong with them.
func takeVersion(document map[string]json.RawMessage) (problems []error) {
	version := map[string]any{}
	for _, key := range []string{"apiVersion", "kind"} {
		var value any
		if text, written := document[key]; written && json.Unmarshal(text, &value) == nil {
			version[key] = value
		}
		delete(document, key)
	}
	for _, problem := range config.CheckVersion(version, schema.CaseKind) {
		problems = append(problems, problem)
	}
	return problems
}

// shared are the keys that a document with defaults may have.
var shared = []string{"answers", "cluster", "config", "gates", "path", "request", "suites"}

// defaultsOf returns the members of a document that only has defaults, for the cases after it in the file; nil if it is a case.
func defaultsOf(document map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if document["defaults"] == nil {
		return nil, nil
	}
	if len(document) > 1 {
		return nil, errors.New("defaults are a document of their own: write --- after them")
	}
	var defaults map[string]json.RawMessage
	if json.Unmarshal(document["defaults"], &defaults) != nil {
		return nil, fmt.Errorf("defaults must be a mapping of %s", strings.Join(shared, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		if !slices.Contains(shared, key) {
			return nil, unknownKey("defaults.", key, shared)
		}
	}
	return defaults, nil
}

// addDefaults adds to a case the defaults that it does not have itself. A review contains its own request.
func addDefaults(document, defaults map[string]json.RawMessage) {
	for key, value := range defaults {
		if _, own := document[key]; !own && document != nil && (key != "request" || document["review"] == nil) {
			document[key] = value
		}
	}
}

// nameOf returns the full name of a case: the directory of its file, and its own name or the file's.
func nameOf(file string, document int, own string) string {
	name := filepath.ToSlash(filepath.Dir(file)) + "/"
	if name == "./" {
		name = ""
	}
	if own != "" {
		return name + own
	}
	base := filepath.Base(file)
	stem := strings.TrimSuffix(strings.TrimSuffix(base, filepath.Ext(base)), ".case")
	if name == "" || stem != "case" {
		name += stem
	}
	name = strings.TrimSuffix(name, "/")
	if document > 1 {
		name += fmt.Sprintf("#%d", document)
	}
	return name
}

// decode reads a document. It returns all problems.
func (c *Case) decode(d manifest.Document, members map[string]json.RawMessage) (problems []error) {
	problems = decodeMembers("", members, membersOf(&c.keys))
	c.Name = c.keys.Name
	if len(c.Request) > 0 {
		problems = append(problems, decodeMembers("request", mappingOf(c.Request), membersOf(&c.request))...)
	}
	if len(c.Expect) > 0 {
		problems = append(problems, c.decodeExpect(c.Expect)...)
	}
	c.findLines(d)
	if len(problems) == 0 {
		problems = c.check(len(c.Request) > 0)
	}
	return problems
}

// membersOf returns the fields of a struct by their keys, to decode into.
func membersOf(into any) map[string]any {
	known, v := map[string]any{}, reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		known[v.Type().Field(i).Tag.Get("json")] = v.Field(i).Addr().Interface()
	}
	return known
}

// decodeMembers decodes the members of a mapping by their keys. An unknown key is a problem, with a suggestion.
func decodeMembers(at string, all map[string]json.RawMessage, known map[string]any) (problems []error) {
	if all == nil {
		return []error{fmt.Errorf("%s must be a mapping of %s", cmp.Or(at, "a case"), strings.Join(slices.Sorted(maps.Keys(known)), ", "))}
	}
	if at != "" {
		at += "."
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		into, found := known[key]
		switch {
		case !found:
			problems = append(problems, unknownKey(at, key, slices.Sorted(maps.Keys(known))))
		case string(all[key]) == "null":
			problems = append(problems, fmt.Errorf("%s%s is empty: leave it out", at, key))
		case json.Unmarshal(all[key], into) != nil:
			problems = append(problems, fmt.Errorf("%s%s must be %s%s", at, key, described(into), unquoted(all[key], into)))
		case key == "once" && string(all[key]) == `""`:
			problems = append(problems, fmt.Errorf("%s%s is empty: write why the case is sent once, or leave it out", at, key))
		}
	}
	return problems
}

func unknownKey(at, key string, known []string) error {
	return fmt.Errorf("%s%s is an unknown key%s", at, key, cmp.Or(nearest.Question(key, known), "; the known keys are "+strings.Join(known, ", ")))
}

// unquoted returns the remedy for a word that YAML reads as a truth value where a text is wanted, or "".
func unquoted(raw json.RawMessage, into any) string {
	if _, isText := into.(*string); isText && (string(raw) == "true" || string(raw) == "false") {
		return ", in quotes: YAML reads y, n, yes, no, on and off as true or false"
	}
	return ""
}

// described says what a key must be.
func described(into any) string {
	switch into.(type) {
	case *string:
		return "a text"
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of texts"
	case *map[string]bool:
		return "a mapping of names to true or false"
	case *content:
		return "the name of a file, or an object"
	}
	return "a mapping"
}

// UnmarshalJSON reads the name of a file, or an object.
func (c *content) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("{")) {
		c.inline = slices.Clone(raw)
		return nil
	}
	if err := json.Unmarshal(raw, &c.file); err != nil || c.file == "" {
		return errors.New("neither a name nor an object")
	}
	return nil
}

// check checks what the members of a case say together.
func (c *Case) check(hasRequest bool) (problems []error) {
	add := func(bad bool, problem string) {
		if bad {
			problems = append(problems, errors.New(problem))
		}
	}
	r := &c.request
	r.Operation = strings.ToUpper(r.Operation)
	add(!c.Manifest.given() && !c.Review.given(), "manifest is missing: name the file of the object, or write it here (or review: an AdmissionReview)")
	add(c.Manifest.given() && c.Review.given(), "has a manifest and a review: leave one out")
	add(c.Review.given() && (hasRequest || c.Old.given()), "an AdmissionReview contains its own request: leave out request and old")
	add(!slices.Contains([]string{"", "CREATE", "UPDATE", "DELETE", "CONNECT"}, r.Operation),
		"request.operation must be CREATE, UPDATE, DELETE or CONNECT")
	add(c.Old.given() && r.Operation != "UPDATE", "old is the stored object of an UPDATE: add request: {operation: UPDATE}")
	add(!slices.Contains([]string{"", "workload", "pod"}, c.Reviewed), "reviewed must be workload or pod")
	add(c.Path != "" && !strings.HasPrefix(c.Path, "/"), "path must begin with /, as in /mutate-pods")
	add(c.expect["verdict"].value == nil, "expect.verdict is missing: allowed, denied, invalid, not judged, error or skipped")
	if c.At != "" {
		at, err := time.Parse(time.RFC3339, c.At)
		if err != nil {
			at, err = time.Parse(time.DateOnly, c.At)
		}
		add(err != nil, "at must be a moment, such as 2027-01-31T18:00:00Z, or a day")
		c.at = at
	}
	return problems
}
