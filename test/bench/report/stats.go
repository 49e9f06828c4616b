package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Percentile returns the smallest of the sorted values that p % of them do not exceed, or 0 if there are none.
func Percentile[T cmp.Ordered](sorted []T, p float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median returns the middle value, or the mean of the middle two, or 0 if there are none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MedianOf returns the median of a number of each round, with four significant digits.
func MedianOf[R any](rounds []R, number func(R) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, number(r))
	}
	return Rounded(Median(all), 4)
}

// Ratio returns a / b, or 0 if b cannot be a divisor.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Rounded returns a value rounded to n significant digits.
func Rounded(value float64, n int) float64 {
	if value == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(value)))-float64(n-1))
	if unit < 1 { // dividing by a power of ten is exact, multiplying is not
		return math.Round(value*math.Round(1/unit)) / math.Round(1/unit)
	}
	return math.Round(value/unit) * unit
}

// Number formats a value with three significant digits and commas between thousands: 0.0271, 27.1, 2,050.
func Number(value float64) string {
	return Thousands(strconv.FormatFloat(Rounded(value, 3), 'f', -1, 64))
}

// Thousands returns a decimal number with commas between thousands.
func Thousands(number string) string {
	end := len(number)
	for i, c := range number {
		if c == '.' {
			end = i
		}
	}
	first := 0
	if number != "" && number[0] == '-' {
		first = 1
	}
	for i := end - 3; i > first; i -= 3 {
		number = number[:i] + "," + number[i:]
	}
	return number
}

// Times returns a as a multiple of b.
func Times(a, b float64) string { return strconv.FormatFloat(Ratio(a, b), 'f', 2, 64) }
