package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"usher.dev/usher/bench/report"
)

// scale maps values of an axis to pixels.
type scale struct {
	log        bool
	low, high  float64 // values at the ends
	from, to   float64 // pixels at the ends
	ticks      []float64
	formatTick func(float64) string
}

// scaleFor returns a scale that includes all values that the axis can show, and ends at a tick.
func scaleFor(a Axis, values []float64, from, to float64) scale {
	s := scale{log: a.Log, from: from, to: to, formatTick: a.Format}
	if s.formatTick == nil {
		s.formatTick = Number
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if s.shows(v) {
			least, most = min(least, v), max(most, v)
		}
	}
	switch {
	case math.IsInf(least, 1) && a.Log:
		s.low, s.high, s.ticks = 1, 10, []float64{1, 10}
	case math.IsInf(least, 1):
		s.low, s.high, s.ticks = 0, 1, []float64{0, 1}
	case a.Log:
		s.powers(least, most)
	default:
		s.steps(min(least, 0), max(most, 0))
	}
	return s
}

// powers sets a logarithmic scale of whole powers of ten at the low end, and 1, 2 or 5 times a power at the high one.
func (s *scale) powers(least, most float64) {
	first := math.Floor(math.Log10(least) + 1e-9)
	s.low = math.Pow(10, first)
	for exponent := first; ; exponent++ {
		for _, digit := range []float64{1, 2, 5} {
			value := digit * math.Pow(10, exponent)
			s.ticks = append(s.ticks, value)
			if s.high = value; value >= most*(1-1e-9) && value >= 9.99*s.low {
				s.thinPowers()
				return
			}
		}
	}
}

// thinPowers leaves only the powers of ten if there are at least three of them, and the high end if it is far from them.
func (s *scale) thinPowers() {
	powers := slices.DeleteFunc(slices.Clone(s.ticks), func(v float64) bool {
		exponent := math.Log10(v)
		return math.Abs(exponent-math.Round(exponent)) > 1e-9
	})
	if len(powers) < 3 {
		return
	}
	if s.ticks = powers; s.high > 4*powers[len(powers)-1] {
		s.ticks = append(s.ticks, s.high)
	}
}

// steps sets a linear scale with about five ticks at 1, 2 or 5 times a power of ten.
func (s *scale) steps(least, most float64) {
	if most == least {
		most = least + 1
	}
	step := math.Pow(10, math.Floor(math.Log10((most-least)/5)))
	for _, times := range []float64{1, 2, 5, 10} {
		if (most-least)/(step*times) <= 6 {
			step *= times
			break
		}
	}
	first, last := math.Floor(least/step+1e-9), math.Ceil(most/step-1e-9)
	for i := first; i <= last; i++ {
		s.ticks = append(s.ticks, i*step)
	}
	s.low, s.high = first*step, last*step
}

// shows reports whether the value has a place on the scale.
func (s scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.log || v > 0)
}

// at returns the pixel of a value.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// Number writes a value with separators of thousands and at most three digits behind the point.
func Number(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if whole, part, found := strings.Cut(text, "."); found && len(part) > 3 {
		text = strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 3, 64), "0"), ".")
		if math.Abs(v) < 0.001 && whole == "0" {
			text = strconv.FormatFloat(v, 'g', 2, 64)
		}
	}
	if strings.Contains(text, "e") {
		return text
	}
	return report.Thousands(text)
}
