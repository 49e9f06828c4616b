package quantity

import (
	"errors"
	"math"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// errNoQuantity is the error of ParseQuantity for a text that it does not parse.
var errNoQuantity = errors.New("not a quantity such as 15900m or 16Gi")

// ParseQuantity parses a Kubernetes quantity of at most 40 digits, with an exponent of at most two.
func ParseQuantity(text string) (resource.Quantity, error) {
	if !isSafe(text) {
		return resource.Quantity{}, errNoQuantity
	}
	return resource.ParseQuantity(text)
}

// isSafe reports whether ParseQuantity parses a text, which must match
//
//	^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$
//
// resource.ParseQuantity takes seconds and gigabytes for an exponent such as 1e-5000000, and any client that can reach
// the Service can send one.
func isSafe(text string) bool {
	text = withoutSign(text)
	suffix := strings.TrimLeft(text, "0123456789.")
	if number := len(text) - len(suffix); number < 1 || number > 40 {
		return false
	}
	switch len(suffix) {
	case 0:
		return true
	case 1:
		return strings.Contains("numkMGTPE", suffix)
	case 2:
		if suffix[1] == 'i' {
			return strings.Contains("KMGTPE", suffix[:1])
		}
	}
	return (suffix[0] == 'e' || suffix[0] == 'E') && areDigits(withoutSign(suffix[1:]), 2)
}

// withoutSign returns a text without the sign that it may begin with.
func withoutSign(text string) string {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		return text[1:]
	}
	return text
}

// areDigits reports whether a text is one digit or more, up to a maximum.
func areDigits(text string, most int) bool {
	return text != "" && len(text) <= most && strings.TrimLeft(text, "0123456789") == ""
}

// unit returns the scale of the smallest counted amount of a resource: milli for cpu, else one (one byte of memory).
func unit(name corev1.ResourceName) resource.Scale {
	if name == corev1.ResourceCPU {
		return resource.Milli
	}
	return 0
}

// Floor rounds a quantity down to whole units of the resource. An amount above the int64 range is reduced to its
// maximum, and saturated is true.
func Floor(q resource.Quantity, name corev1.ResourceName) (whole resource.Quantity, saturated bool) {
	if units, ok := wholeUnits(q, name); ok {
		return ofWhole(units, name, q.Format), false
	}
	return ofUnits(InUnits(q, name), name, q.Format)
}

// wholeUnits returns a quantity in units of the resource; false if it is not whole or exceeds an int64.
func wholeUnits(q resource.Quantity, name corev1.ResourceName) (int64, bool) {
	units := q.ScaledValue(unit(name)) // rounded up, and limited to the range
	return units, q.Cmp(*resource.NewScaledQuantity(units, unit(name))) == 0
}

func ofWhole(units int64, name corev1.ResourceName, format resource.Format) resource.Quantity {
	q := resource.NewScaledQuantity(units, unit(name))
	q.Format = format
	return *q
}

// InUnits returns the exact quantity in units of the resource (milli-cores, bytes), as a fraction.
func InUnits(q resource.Quantity, name corev1.ResourceName) *big.Rat {
	dec := q.AsDec()
	amount := new(big.Rat).SetInt(dec.UnscaledBig())
	return amount.Mul(amount, powerOf10(-int64(dec.Scale())-int64(unit(name))))
}

func powerOf10(exponent int64) *big.Rat {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(exponent, -exponent)), nil)
	if exponent < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), power)
	}
	return new(big.Rat).SetInt(power)
}

// maxUnits is the largest quantity that usher writes, in units: the API server's arithmetic requires an int64.
var maxUnits = big.NewInt(math.MaxInt64)

// ofUnits makes a quantity of units, rounded down, in the given format. An amount above the int64 range is reduced to
// its maximum, and saturated is true.
func ofUnits(amount *big.Rat, name corev1.ResourceName, format resource.Format) (q resource.Quantity, saturated bool) {
	whole := new(big.Int).Div(amount.Num(), amount.Denom()) // rounds down, also below zero
	if saturated = whole.Cmp(maxUnits) > 0; saturated {
		whole = maxUnits
	}
	return ofWhole(whole.Int64(), name, format), saturated
}
