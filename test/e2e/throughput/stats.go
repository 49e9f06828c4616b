package main

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// percentile returns the smallest of the sorted values that p % of them do not exceed, or 0 if there are none.
func percentile[T cmp.Ordered](sorted []T, p float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median returns the middle value, or the mean of the middle two, or 0 if there are none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio returns a / b, or 0 if b cannot be a divisor.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// rounded returns a value rounded to n significant digits.
func rounded(value float64, n int) float64 {
	text := strconv.FormatFloat(value, 'e', n-1, 64)
	value, _ = strconv.ParseFloat(text, 64) // it was just formatted
	return value
}

// number formats a value with three significant digits and commas between thousands: 0.0271, 27.1, 2,050.
func number(value float64) string {
	if value = rounded(value, 3); math.Abs(value) < 1000 {
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	text := strconv.FormatFloat(value, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
