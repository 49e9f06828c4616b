package json

import (
	"testing"

	"usher.dev/usher/test/reviews"
)

// BenchmarkScan measures the scanner alone, into a tape that has grown.
func BenchmarkScan(b *testing.B) {
	for _, review := range reviews.All() {
		b.Run(review.Name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(review.Body)))
			var t Tape
			for b.Loop() {
				if err := Scan(MaxValues, review.Body, &t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
