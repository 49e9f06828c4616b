package promises

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// beyond are the problems that a schema cannot find, by a part of their text. Everything else that usher refuses, the schema
// refuses, too.
var beyond = map[string]*regexp.Regexp{
	"a name or a value twice": regexp.MustCompile(`Duplicate value`),
	"expressions":             regexp.MustCompile(`(expression|messageExpression|pattern|fieldPath): (Invalid|Required) value`),
	"placeholders":            regexp.MustCompile(`placeholder`),
	"values of labels, where annotations may have others": regexp.MustCompile(`(labels\[\d+\].value|values\[\d+\]): Invalid value`),
	"fields that exclude or need each other":              regexp.MustCompile(`Forbidden: |is above max|must be at most the limit|` + needed + `|is a label that|is refused by|without \*|old is the stored|an AdmissionReview contains|has a manifest and a review`),
	"what a cluster needs":                                regexp.MustCompile(`must not match`),
	"less operations, for labels of objects":              regexp.MustCompile(`labelRules\[\d+\]\.match.*operations.*Unsupported`),
	"contains nothing, somewhere within":                  regexp.MustCompile(`contains(\.| |nothing).*would always be met`),
}

// needed are the texts about fields of which one is needed, where they are there and empty, or beside others only.
const needed = `Required value: (only operator|write |cpuRequest|injects nothing|asks for nothing|required when |users, groups|one of|the namespaces|namespaces or groups|such as .(cpu|apps|pods)|some of CREATE)`

// mutants is how many changed samples of a kind usher must refuse.
const mutants = 200

// TestMutantsMeetNoSchema: of samples that are changed at random, usher refuses none that the schema accepts, but for what is
// beyond a schema; and the schema of policies refuses nothing that usher accepts, but null and
// empty texts, which usher reads as left out.
func TestMutantsMeetNoSchema(t *testing.T) {
	for kind := range schemas {
		t.Run(kind, func(t *testing.T) {
			j, random, all := newJudge(t, kind), rand.New(rand.NewPCG(1, 1)), shelf(t, kind)
			names := slices.Sorted(maps.Keys(all))
			found, missed := 0, map[string]int{}
			for found < mutants {
				name := names[random.IntN(len(names))]
				var document any
				if err := json.Unmarshal(asJSON(all[name]), &document); err != nil {
					t.Fatal(err)
				}
				change, empty := mutate(random, &document)
				problems, err := j.usher(document), j.inSchema(document)
				switch {
				case len(problems) > 0 && err != nil:
					found++
				case len(problems) > 0:
					found++
					if kind := kindBeyond(problems); kind != "" {
						missed[kind]++
					} else {
						t.Errorf("%s, %s: the schema accepts what usher refuses: %q", name, change, problems)
					}
				case err != nil && kind == "policy" && !empty:
					t.Errorf("%s, %s: the schema refuses what usher accepts: %v", name, change, err)
				}
			}
			t.Logf("%d mutants; beyond the schema: %v", found, missed)
		})
	}
}

// kindBeyond returns what kind of problem is beyond a schema; "" if one of the problems is not.
func kindBeyond(problems []string) (kind string) {
	for _, problem := range problems {
		kind = ""
		for name, text := range beyond {
			if text.MatchString(problem) {
				kind = name
			}
		}
		if kind == "" {
			return ""
		}
	}
	return kind
}

// place is a value in a document.
type place struct {
	path  string
	value any
	set   func(any)
	drop  func() // nil: it cannot be removed
}

// places adds the places in a value, which is that of a place itself.
func places(all []place, p place) []place {
	all = append(all, p)
	switch value := p.value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = places(all, place{p.path + "." + key, value[key], func(other any) { value[key] = other }, func() { delete(value, key) }})
		}
	case []any:
		for i := range value {
			all = places(all, place{fmt.Sprintf("%s[%d]", p.path, i), value[i], func(other any) { value[i] = other }, nil})
		}
	}
	return all
}

// mutate changes a document at one place, and says how. empty is whether the new value is null or an empty text.
func mutate(random *rand.Rand, document *any) (change string, empty bool) {
	all := places(nil, place{value: *document, set: func(other any) { *document = other }})
	p := all[random.IntN(len(all))]
	switch members, isMap := p.value.(map[string]any); random.IntN(4) {
	case 0:
		if p.drop != nil {
			p.drop()
			return p.path + " removed", false
		}
	case 1:
		if isMap {
			key := pick(random, "nmae", "zone", "Name", "spec")
			members[key] = "x"
			return p.path + ": unknown key " + key, false
		}
	case 2:
		if list, isList := p.value.([]any); isList && len(list) > 0 {
			p.set(append(list, list[0]))
			return p.path + ": an element twice", false
		}
	}
	other := pick[any](random, "", " ", "No such word!", "*", "a", strings.Repeat("a", 300), "0.5", 0, -1, 1.5, 1000000, true, nil, []any{}, map[string]any{}, []any{"*"}, []any{""})
	p.set(other)
	return fmt.Sprintf("%s: %.20q in place of %.20q", p.path, asJSON(other), asJSON(p.value)), other == any(nil) || other == ""
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }
