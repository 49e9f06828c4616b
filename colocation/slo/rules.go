package slo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
)

// rule is the type and the range of a JSON value. Values are as returned by api.ParseJSONText: 64-bit integers are
// int64, all other numbers float64. null is never checked: it is the same as a missing value.
type rule interface {
	check(f *finding, at *field.Path, value any)
}

type (
	boolean   struct{}
	text      struct{}        // any string
	choice    []string        // one of these; empty is also accepted
	duration  struct{}        // such as 5m, above 0
	bandwidth struct{}        // a quantity of bytes per second
	share     struct{}        // of the network: a percentage as a number, or a bandwidth as a string
	ratios    struct{}        // the ratios of a node, as in api.AnnotationAmplificationRatio
	free      struct{}        // anything
	list      struct{ rule }  // an array
	dict      struct{ rule }  // an array
	fields    map[string]rule // an object with any names
	whole     struct {        // an integer
		min, max int64
		unit     string
	}
	number struct { // including fractions
		min, max float64
		above    bool // min itself is excluded
		unit     string
	}
)

func (boolean) check(f *finding, at *field.Path, value any) {
	if _, ok := value.(bool); !ok {
		f.wrongType(at, value, "true or false")
	}
}

func (text) check(f *finding, at *field.Path, value any) { f.text(at, value) }

func (c choice) check(f *finding, at *field.Path, value any) {
	if t, ok := f.text(at, value); ok && t != "" && !slices.Contains(c, t) {
		f.invalid(at, t, "must be one of %s; leave it out for the default", strings.Join(c, ", "))
	}
}

func (duration) check(f *finding, at *field.Path, value any) {
	if t, ok := f.text(at, value); ok {
		if d, err := time.ParseDuration(t); err != nil || d <= 0 {
			f.invalid(at, t, "must be a duration above 0, such as 5m or 90s")
		}
	}
}

func (bandwidth) check(f *finding, at *field.Path, value any) {
	t, ok := quantityText(value)
	if !ok {
		f.wrongType(at, value, "a quantity of bytes per second, such as 1000M")
		return
	}
	f.checkBandwidth(at, t)
}

func (f *finding) checkBandwidth(at *field.Path, t string) {
	q, err := quantity.ParseQuantity(strings.TrimSpace(t))
	switch {
	case err != nil:
		f.invalid(at, t, "must be a quantity of bytes per second, such as 50M; a percentage is written as a number: 50")
	case q.Sign() < 0:
		f.invalid(at, t, "must not be negative (bytes per second)")
	}
}

func (share) check(f *finding, at *field.Path, value any) {
	switch v := value.(type) {
	case int64:
		whole{0, 100, "percent of the bandwidth; a bandwidth is a string such as 50M"}.check(f, at, v)
	case string:
		f.checkBandwidth(at, v)
		if n, err := strconv.Atoi(v); err == nil && n > 0 && n <= 100 {
			f.warnf("%s: %q is bytes/s; percent has no quotes", at, v)
		}
	default:
		f.wrongType(at, value, "a whole number of percent, or a string such as 50M for bytes per second")
	}
}

func (ratios) check(f *finding, at *field.Path, value any) {
	members, ok := value.(map[string]any)
	if !ok {
		f.wrongType(at, value, "an object")
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		f.checkRatio(at.Key(shorten(name)), name, members[name])
	}
}

// checkRatio checks a ratio as /validate-node checks what Koordinator's manager makes of it: null counts as 0 there.
func (f *finding) checkRatio(at *field.Path, name string, value any) {
	switch value.(type) {
	case int64, float64:
	default:
		f.wrongType(at, value, "a number")
		return
	}
	if foreign := api.ForeignRatio(name); foreign != "" {
		f.invalid(at, value, "%s", foreign)
	} else if _, err := quantity.ParseRatioNumber(fmt.Sprint(value)); err != nil {
		f.invalid(at, value, "%v; it must be from 1 to 9999", err)
	}
}

func (free) check(*finding, *field.Path, any) {}

func (r whole) check(f *finding, at *field.Path, value any) {
	n, ok := value.(int64)
	switch {
	case !ok:
		f.wrongType(at, value, "a whole number")
	case n < r.min || n > r.max:
		f.invalid(at, n, "must be %s%s; leave it out for the default", between(r.min, r.max), inUnit(r.unit))
	}
}

func (r whole) allows(n int64) bool { return n >= r.min && n <= r.max }

func between(least, most int64) string {
	if most == noLimit {
		return fmt.Sprintf("at least %d", least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func inUnit(unit string) string {
	if unit == "" {
		return ""
	}
	return " (" + unit + ")"
}

func (r number) check(f *finding, at *field.Path, value any) {
	n, ok := value.(float64)
	if i, isWhole := value.(int64); isWhole {
		n, ok = float64(i), true
	}
	switch {
	case !ok:
		f.wrongType(at, value, "a number")
	case n < r.min || r.above && n == r.min || n > r.max:
		f.invalid(at, value, "must be %s%s; leave it out for the default", r.between(), inUnit(r.unit))
	}
}

func (r number) between() string {
	text := fmt.Sprintf("at least %v", r.min)
	if r.above {
		text = fmt.Sprintf("more than %v", r.min)
	}
	if r.max < math.MaxFloat64 {
		text += fmt.Sprintf(" and at most %v", r.max)
	}
	return text
}

func (f *finding) text(at *field.Path, value any) (string, bool) {
	t, ok := value.(string)
	if !ok {
		f.wrongType(at, value, "a string")
	}
	return t, ok
}

func (f *finding) wrongType(at *field.Path, value any, want string) {
	var bad any = field.OmitValueType{}
	switch value.(type) {
	case string, bool, int64, float64:
		bad = value
	}
	f.invalid(at, bad, "must be %s, not %s", want, jsonType(value))
}

func jsonType(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "a number"
	case float64:
		return "a number with a fraction or an exponent, or above 64 bits"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// quantityText returns a JSON string, or a number in digits.
func quantityText(value any) (string, bool) {
	switch n := value.(type) {
	case string:
		return n, true
	case int64:
		return strconv.FormatInt(n, 10), true
	case float64:
		return strconv.FormatFloat(n, 'f', -1, 64), true
	}
	return "", false
}
