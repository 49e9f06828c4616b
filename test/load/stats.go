package main

import (
	"cmp"
	"math"
	"slices"
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
	if value == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(value)))-float64(n-1))
	if unit < 1 { // dividing by a power of ten is exact, multiplying is not
		return math.Round(value*math.Round(1/unit)) / math.Round(1/unit)
	}
	return math.Round(value/unit) * unit
}
