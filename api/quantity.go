// Package api holds keys, types and derivations that steps, policy and cluster state share.
package api

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// safeQuantity bounds what ParseQuantity hands on: resource.ParseQuantity spends seconds and gigabytes on an exponent such as
// 1e-5000000, and anybody who reaches the Service can send one.
var safeQuantity = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$`)

// ParseQuantity reads a Kubernetes quantity of at most 40 digits and an exponent of at most two.
func ParseQuantity(text string) (resource.Quantity, error) {
	if !safeQuantity.MatchString(text) {
		return resource.Quantity{}, errors.New("not a quantity such as 15900m or 16Gi")
	}
	return resource.ParseQuantity(text)
}

// unit is the smallest amount of a resource that is counted: a milli-core of cpu, else one (a byte of memory).
func unit(name corev1.ResourceName) resource.Scale {
	if name == corev1.ResourceCPU {
		return resource.Milli
	}
	return 0
}

// Floor rounds a quantity down to whole units of the resource. An amount above the int64 range is cut to it, and saturated is true.
func Floor(q resource.Quantity, name corev1.ResourceName) (whole resource.Quantity, saturated bool) {
	if units, ok := wholeUnits(q, name); ok {
		return ofWhole(units, name, q.Format), false
	}
	return ofUnits(InUnits(q, name), name, q.Format)
}

// wholeUnits gives a quantity in units of the resource; false if it is not whole or beyond an int64.
func wholeUnits(q resource.Quantity, name corev1.ResourceName) (int64, bool) {
	units := q.ScaledValue(unit(name)) // rounded up, and cut to the range
	return units, q.Cmp(*resource.NewScaledQuantity(units, unit(name))) == 0
}

func ofWhole(units int64, name corev1.ResourceName, format resource.Format) resource.Quantity {
	q := resource.NewScaledQuantity(units, unit(name))
	q.Format = format
	return *q
}

// InUnits gives a quantity exactly, in units of the resource (milli-cores, bytes), as a fraction.
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

// maxUnits is the largest quantity usher writes, in units: it fits an int64, as the API server's arithmetic wants it.
var maxUnits = big.NewInt(math.MaxInt64)

// ofUnits makes a quantity from units, rounded down, in the given format. An amount above the int64 range is cut to it, and
// saturated is true.
func ofUnits(amount *big.Rat, name corev1.ResourceName, format resource.Format) (q resource.Quantity, saturated bool) {
	whole := new(big.Int).Div(amount.Num(), amount.Denom()) // rounds down, also below zero
	if saturated = whole.Cmp(maxUnits) > 0; saturated {
		whole = maxUnits
	}
	return ofWhole(whole.Int64(), name, format), saturated
}

// Ratio is an exact decimal factor of at least 1 by which a resource is amplified, written as in the policy: "2", "1.25".
type Ratio struct {
	text       string
	millionths uint64 // exact, as a ratio has at most six decimals; 0 in the zero Ratio, which is 1
}

const million = 1_000_000

var ratioText = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,6})?$`)

// ParseRatio reads a ratio: a plain decimal number from 1 to 9999 with at most six decimals.
func ParseRatio(text string) (Ratio, error) {
	if !ratioText.MatchString(text) {
		return Ratio{}, fmt.Errorf("%.20q is not a decimal number such as 1.5 (at most 4 digits before the point and 6 after it)", text)
	}
	whole, decimals, _ := strings.Cut(text, ".")
	millionths, _ := strconv.ParseUint(whole+(decimals + "000000")[:6], 10, 64) // at most ten digits
	if millionths < million {
		return Ratio{}, fmt.Errorf("%s is below 1, which would shrink the node", text)
	}
	return Ratio{text, millionths}, nil
}

// String is the ratio as it was written; "1" for the zero Ratio.
func (r Ratio) String() string { return cmp.Or(r.text, "1") }

func (r Ratio) value() uint64 { return cmp.Or(r.millionths, million) }

// Amplifies tells whether the ratio changes anything: it is above 1.
func (r Ratio) Amplifies() bool { return r.value() > million }

// Above tells whether r is greater than other.
func (r Ratio) Above(other Ratio) bool { return r.value() > other.value() }

// Amplify multiplies a quantity exactly and rounds down to the resource's unit. The quantity's format is kept. saturated tells
// that the product was cut to the int64 range; it is never cut below the quantity.
func (r Ratio) Amplify(q resource.Quantity, name corev1.ResourceName) (product resource.Quantity, saturated bool) {
	if units, ok := wholeUnits(q, name); ok && units >= 0 {
		if product, ok := r.times(uint64(units)); ok {
			return ofWhole(product, name, q.Format), false
		}
	}
	amount := InUnits(q, name)
	product, saturated = ofUnits(amount.Mul(amount, r.fraction()), name, q.Format)
	if saturated && product.Cmp(q) < 0 {
		product = q // more than an int64 of units already
	}
	return product, saturated
}

func (r Ratio) fraction() *big.Rat { return big.NewRat(int64(r.value()), million) }

// times is units × r rounded down; false if it is beyond an int64.
func (r Ratio) times(units uint64) (product int64, ok bool) {
	high, low := bits.Mul64(units, r.value())
	if high >= million {
		return 0, false
	}
	quotient, _ := bits.Div64(high, low, million)
	return int64(quotient), quotient <= math.MaxInt64
}

// MarshalText writes the ratio as a decimal string.
func (r Ratio) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what ParseRatio reads.
func (r *Ratio) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRatio(string(text))
	return err
}
