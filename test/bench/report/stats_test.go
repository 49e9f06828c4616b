package report

import "testing"

func TestPercentile(t *testing.T) {
	ten := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		sorted []int
		p      float64
		want   int
	}{
		{nil, 50, 0}, {[]int{7}, 0, 7}, {[]int{7}, 99, 7},
		{ten, 0, 1}, {ten, 10, 1}, {ten, 11, 2}, {ten, 50, 5}, {ten, 90, 9}, {ten, 99, 10}, {ten, 100, 10},
	} {
		if got := Percentile(c.sorted, c.p); got != c.want {
			t.Errorf("percentile %g of %v is %d, want %d", c.p, c.sorted, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{100, 1, 3, 2}, 2.5},
	} {
		before := append([]float64(nil), c.values...)
		if got := Median(c.values); got != c.want {
			t.Errorf("median of %v is %g, want %g", c.values, got, c.want)
		}
		for i := range before {
			if before[i] != c.values[i] {
				t.Errorf("median sorted its argument: %v", c.values)
			}
		}
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct{ a, b, want float64 }{{6, 2, 3}, {1, 4, 0.25}, {0, 5, 0}, {5, 0, 0}} {
		if got := Ratio(c.a, c.b); got != c.want {
			t.Errorf("%g of %g is %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		value float64
		want  string
	}{
		{0, "0"}, {0.02714, "0.0271"}, {0.027123, "0.0271"}, {27.14, "27.1"}, {27.15, "27.2"}, {-2047, "-2,050"}, {2049.6, "2,050"}, {64, "64"}, {999.6, "1,000"}, {2047, "2,050"}, {1234567, "1,230,000"},
	} {
		if got := Number(c.value); got != c.want {
			t.Errorf("%g is written %s, want %s", c.value, got, c.want)
		}
	}
}

func TestMedianOf(t *testing.T) {
	double := func(n int) float64 { return 2 * float64(n) }
	if got := MedianOf([]int{12345, 1, 12346}, double); got != 24690 {
		t.Errorf("%g", got)
	}
	if got := MedianOf(nil, double); got != 0 {
		t.Errorf("of nothing %g", got)
	}
}

func TestTimes(t *testing.T) {
	if one, none := Times(3, 2), Times(3, 0); one != "1.50" || none != "0.00" {
		t.Errorf("%s, %s", one, none)
	}
}
