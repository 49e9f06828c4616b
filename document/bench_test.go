package document

import (
	"testing"

	"usher.dev/usher/test/reviews"
)

// BenchmarkScan measures the scanner alone, into a tape that is large enough.
func BenchmarkScan(b *testing.B) {
	for _, review := range reviews.All() {
		b.Run(review.Name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(review.Body)))
			var entries []entry
			for b.Loop() {
				t, err := scan(review.Body, entries)
				if err != nil {
					b.Fatal(err)
				}
				entries = t.entries
			}
		})
	}
}
