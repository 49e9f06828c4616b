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

// ratioNumber matches the ratios that ParseRatioNumber parses; it excludes expensive exponents.
var ratioNumber = regexp.MustCompile(`^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?$`)

// maxMillionths is the largest ratio that ParseRatio accepts: 9999.999999.
const maxMillionths = 9999_999999

// ParseRatioNumber parses a ratio that is a JSON number: from 1 to 9999, with any decimals and exponent. It is
// truncated after its sixth decimal, and its text has no trailing zeros, so that 1.50 and 1.5 have the same text.
func ParseRatioNumber(text string) (Ratio, error) {
	if ratio, err := ParseRatio(text); err == nil {
		return ofMillionths(ratio.millionths), nil // nearly all numbers
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

// ofMillionths returns the ratio with its shortest text.
func ofMillionths(millionths uint64) Ratio {
	text := strconv.FormatUint(millionths/million, 10)
	if rest := millionths % million; rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	}
	return Ratio{text, millionths}
}

// WithinUse lowers a ratio if a resource is already heavily used, to max(1, min(r, r × percent % × capacity / used)). A
// lowered ratio is rounded down to hundredths. If use or capacity is zero, the ratio is not lowered.
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

// Lower returns the lower of two ratios.
func (r Ratio) Lower(other Ratio) Ratio {
	if r.Above(other) {
		return other
	}
	return r
}

// Near reports whether r differs from other by at most percent % of other.
func (r Ratio) Near(other Ratio, percent int) bool {
	apart := max(r.Millionths(), other.Millionths()) - min(r.Millionths(), other.Millionths())
	return apart*100 <= other.Millionths()*uint64(percent)
}

// Ratio is an exact decimal factor of at least 1 by which a resource is amplified. Its text is as in the policy: "2",
// "1.25".
type Ratio struct {
	text       string
	millionths uint64 // exact, since a ratio has at most six decimals; 0 in the zero Ratio, which is 1
}

const million = 1_000_000

// ParseRatio parses a ratio: a plain decimal number from 1 to 9999 with at most six decimals.
func ParseRatio(text string) (Ratio, error) {
	whole, decimals, pointed := strings.Cut(text, ".")
	if !areDigits(whole, 4) || pointed && !areDigits(decimals, 6) {
		return Ratio{}, fmt.Errorf("%.20q is not a decimal number such as 1.5 (at most 4 digits before the point and 6 after it)", text)
	}
	millionths, _ := strconv.ParseUint(whole+(decimals + "000000")[:6], 10, 64) // at most ten digits
	if millionths < million {
		return Ratio{}, fmt.Errorf("%s is below 1, which would shrink the node", text)
	}
	return Ratio{text, millionths}, nil
}

// String returns the ratio as it was written; "1" for the zero Ratio.
func (r Ratio) String() string { return cmp.Or(r.text, "1") }

// Millionths returns the ratio in millionths.
func (r Ratio) Millionths() uint64 { return cmp.Or(r.millionths, million) }

// Amplifies reports whether the ratio is above 1.
func (r Ratio) Amplifies() bool { return r.Millionths() > million }

// Above reports whether r is greater than other.
func (r Ratio) Above(other Ratio) bool { return r.Millionths() > other.Millionths() }

// Amplify multiplies a quantity exactly and rounds down to the resource's unit, keeping the quantity's format.
// saturated is true if the product exceeded the int64 range; then it is reduced to the maximum, but never below the
// quantity itself.
func (r Ratio) Amplify(q resource.Quantity, name corev1.ResourceName) (product resource.Quantity, saturated bool) {
	if units, ok := wholeUnits(q, name); ok && units >= 0 {
		if product, ok := r.times(uint64(units)); ok {
			return ofWhole(product, name, q.Format), false
		}
	}
	amount := InUnits(q, name)
	product, saturated = ofUnits(amount.Mul(amount, r.fraction()), name, q.Format)
	if saturated && product.Cmp(q) < 0 {
		product = q // the quantity itself exceeds an int64 of units
	}
	return product, saturated
}

func (r Ratio) fraction() *big.Rat { return big.NewRat(int64(r.Millionths()), million) }

// times returns units × r, rounded down; false if it exceeds an int64.
func (r Ratio) times(units uint64) (product int64, ok bool) {
	high, low := bits.Mul64(units, r.Millionths())
	if high >= million {
		return 0, false
	}
	quotient, _ := bits.Div64(high, low, million)
	return int64(quotient), quotient <= math.MaxInt64
}

// MarshalText returns the ratio as a decimal string.
func (r Ratio) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses a ratio as ParseRatio does.
func (r *Ratio) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRatio(string(text))
	return err
}
