package policytest

import (
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// equal reports whether two JSON values are the same: numbers by their value, lists in order, keys of mappings in any order.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, other, equal)
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, equal)
	case json.Number:
		other, ok := b.(json.Number)
		return ok && equalNumbers(string(a), string(other))
	}
	return isScalar(b) && a == b
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// longNumber is the length from which on numbers are only compared as they are written.
const longNumber = 400

func equalNumbers(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := rational(a)
	y, okY := rational(b)
	return okX && okY && x.Cmp(y) == 0
}

// rational returns the exact value of a number, unless its exponent is so large that its digits would fill the memory.
func rational(number string) (*big.Rat, bool) {
	if _, exponent, found := strings.Cut(strings.ToLower(number), "e"); len(number) > longNumber || found && len(exponent) > 4 {
		return nil, false
	}
	return new(big.Rat).SetString(number)
}

// contains reports whether a value contains a part: a mapping its members, each containing the part's; a
// list the elements of a list, in the same order, each in an element of its own; and anything else the same value.
func contains(whole, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		mapping, ok := whole.(map[string]any)
		for key, value := range part {
			if inner, found := mapping[key]; !ok || !found || !contains(inner, value) {
				return false
			}
		}
		return ok
	case []any:
		list, ok := whole.([]any)
		for _, element := range part {
			for len(list) > 0 && !contains(list[0], element) {
				list = list[1:]
			}
			if len(list) == 0 {
				return false
			}
			list = list[1:]
		}
		return ok
	}
	return equal(part, whole)
}

// containsTexts reports whether a text contains a text, or each of a list.
func containsTexts(whole string, part any) bool {
	if text, ok := part.(string); ok {
		return strings.Contains(whole, withoutID(text))
	}
	list, ok := part.([]any)
	for _, each := range list {
		if text, isText := each.(string); !isText || !strings.Contains(whole, withoutID(text)) {
			return false
		}
	}
	return ok
}

// missing returns what a value lacks of a part that it does not contain: of a list the elements that it contains nowhere, unless only
// their order differs, and of a mapping the members.
func missing(whole, part any) any {
	switch part := part.(type) {
	case map[string]any:
		mapping, ok := whole.(map[string]any)
		lacks := map[string]any{}
		for key, value := range part {
			if inner, found := mapping[key]; !found {
				lacks[key] = value
			} else if !contains(inner, value) {
				lacks[key] = missing(inner, value)
			}
		}
		if ok {
			return lacks
		}
	case []any:
		lacks := slices.DeleteFunc(slices.Clone(part), func(element any) bool { return contains(whole, []any{element}) })
		if len(lacks) > 0 {
			return lacks
		}
	}
	return part
}

// missingTexts returns those of a list of texts that a text does not contain.
func missingTexts(whole string, part any) any {
	list, ok := part.([]any)
	if !ok {
		return part
	}
	return slices.DeleteFunc(slices.Clone(list), func(each any) bool { return containsTexts(whole, each) })
}

// refusalID matches the id of a refusal at the end of a message, and of the message of a cause.
var refusalID = regexp.MustCompile(` \(refusal [0-9a-f]{8}\)$|, refusal [0-9a-f]{8}(\))$`)

// withoutID returns a message without the id of the refusal, which depends on the name of the workload.
func withoutID(message string) string { return refusalID.ReplaceAllString(message, "$1") }

// withoutIDs returns causes without the ids of the refusal.
func withoutIDs(value any) any {
	list, _ := value.([]any)
	for _, each := range list {
		if cause, ok := each.(map[string]any); ok {
			if message, isText := cause["message"].(string); isText {
				cause["message"] = withoutID(message)
			}
		}
	}
	return value
}
