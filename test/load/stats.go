package main

import (
	"cmp"
	"math"
	"slices"
)

// percentile is the smallest of sorted values that p % of them do not exceed; 0 without values.
func percentile[T cmp.Ordered](sorted []T, p float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median is the middle value, of an even number the mean of the middle two; 0 without values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio is a / b, or 0 where b is nothing to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// rounded keeps the first n digits of a value.
func rounded(value float64, n int) float64 {
	if value == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(value)))-float64(n-1))
	if unit < 1 { // dividing by a power of ten is exact where multiplying is not
		return math.Round(value*math.Round(1/unit)) / math.Round(1/unit)
	}
	return math.Round(value/unit) * unit
}
