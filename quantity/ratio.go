package quantity

import (
	"cmp"
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

// ratioNumber bounds a ratio that is a JSON number, so that no exponent makes it expensive.
var ratioNumber = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)

// maxMillionths is the largest ratio that ParseRatio reads: 9999.999999.
const maxMillionths = 9999_999999

// ParseRatioNumber reads a ratio as it stands in JSON: a number from 1 to 9999, with any decimals and exponent. What follows its
// sixth decimal is cut off. The zeros at its end are not kept, so that 1.50 and 1.5 are the same text.
func ParseRatioNumber(text string) (Ratio, error) {
	if ratio, err := ParseRatio(text); err == nil {
		return ofMillionths(ratio.millionths), nil // nearly all of them
	}
	if !ratioNumber.MatchString(text) {
		return Ratio{}, fmt.Errorf("%.20s is not a JSON number such as 1.5", text)
	}
	number, _ := new(big.Rat).SetString(text)
	number.Mul(number, new(big.Rat).SetInt64(million))
	switch millionths := floor(number); {
	case !millionths.IsInt64() || millionths.Int64() > maxMillionths:
		return Ratio{}, fmt.Errorf("%.20s is above 9999", text)
	case millionths.Int64() < million:
		return Ratio{}, fmt.Errorf("%.20s is below 1, which would shrink the node", text)
	default:
		return ofMillionths(millionths.Uint64()), nil
	}
}

func floor(r *big.Rat) *big.Int { return new(big.Int).Div(r.Num(), r.Denom()) }

// ofMillionths makes the ratio with the shortest text.
func ofMillionths(millionths uint64) Ratio {
	text := strconv.FormatUint(millionths/million, 10)
	if rest := millionths % million; rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	}
	return Ratio{text, millionths}
}

// WithinUse lowers a ratio where a resource is used a lot already: max(1, min(r, r × percent % × capacity / used)). What is lowered
// is rounded down to hundredths. A use or a capacity of zero lowers nothing.
func (r Ratio) WithinUse(percent int, capacity, used resource.Quantity, name corev1.ResourceName) Ratio {
	if used.Sign() <= 0 || capacity.Sign() <= 0 {
		return r
	}
	hundredths := big.NewRat(int64(r.Millionths())*int64(percent), million) // of r × percent %
	hundredths.Mul(hundredths, new(big.Rat).Quo(InUnits(capacity, name), InUnits(used, name)))
	if hundredths.Cmp(big.NewRat(int64(r.Millionths()), million/100)) >= 0 {
		return r
	}
	return ofMillionths(max(million, floor(hundredths).Uint64()*(million/100)))
}

// Lower is the smaller of two ratios.
func (r Ratio) Lower(other Ratio) Ratio {
	if r.Above(other) {
		return other
	}
	return r
}

// Near reports whether r differs from another ratio by at most so many percent of that.
func (r Ratio) Near(other Ratio, percent int) bool {
	apart := max(r.Millionths(), other.Millionths()) - min(r.Millionths(), other.Millionths())
	return apart*100 <= other.Millionths()*uint64(percent)
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

func (r Ratio) Millionths() uint64 { return cmp.Or(r.millionths, million) }

// Amplifies reports whether the ratio changes anything: it is above 1.
func (r Ratio) Amplifies() bool { return r.Millionths() > million }

// Above reports whether r is greater than other.
func (r Ratio) Above(other Ratio) bool { return r.Millionths() > other.Millionths() }

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

func (r Ratio) fraction() *big.Rat { return big.NewRat(int64(r.Millionths()), million) }

// times is units × r rounded down; false if it is beyond an int64.
func (r Ratio) times(units uint64) (product int64, ok bool) {
	high, low := bits.Mul64(units, r.Millionths())
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
