package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// results are the values of a run: by benchmark and unit, one for each round.
type results map[string]map[string][]float64

// parse reads the output of benchmarks.
func parse(in io.Reader, file string) (results, error) {
	all := results{}
	reader := benchfmt.NewReader(in, file)
	for reader.Scan() {
		switch r := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, r
		case *benchfmt.Result:
			benchmark := r.Name.String()
			if all[benchmark] == nil {
				all[benchmark] = map[string][]float64{}
			}
			for _, v := range r.Values {
				all[benchmark][v.Unit] = append(all[benchmark][v.Unit], v.Value)
			}
		}
	}
	return all, reader.Err()
}

// A verdict is about these units.
var judged = []struct{ unit, says string }{{"sec/op", "takes %.0f %% longer"}, {"allocs/op", "allocates %.0f %% more objects"}}

// verdict is the result of a comparison.
type verdict struct {
	compared int      // benchmarks that are in both runs
	worse    []string // benchmarks that are worse by more than the threshold, in words
	missing  []string // benchmarks of the run before that are not in this one
}

// judge compares two runs. A benchmark is worse if its median is, by more than threshold percent, and if the difference is
// no chance: p < 0.05 in the test that benchstat uses, for which 4 rounds are the fewest.
func judge(before, now results, threshold float64) (v verdict) {
	for _, benchmark := range slices.Sorted(maps.Keys(before)) {
		if now[benchmark] == nil {
			v.missing = append(v.missing, benchmark)
			continue
		}
		v.compared++
		for _, j := range judged {
			more, p := compare(before[benchmark][j.unit], now[benchmark][j.unit])
			if more > threshold && p < benchmath.DefaultThresholds.CompareAlpha {
				v.worse = append(v.worse, fmt.Sprintf("%s "+j.says+" (p=%.3f)", benchmark, more, p))
			}
		}
	}
	return v
}

// compare returns by how many percent the median of now is above before's, and the probability that this is chance.
func compare(before, now []float64) (percent, p float64) {
	if len(before) == 0 || len(now) == 0 {
		return 0, 1
	}
	a, b := benchmath.NewSample(before, &benchmath.DefaultThresholds), benchmath.NewSample(now, &benchmath.DefaultThresholds)
	p = benchmath.AssumeNothing.Compare(a, b).P
	old, is := benchmath.AssumeNothing.Summary(a, 0.95).Center, benchmath.AssumeNothing.Summary(b, 0.95).Center
	if old == 0 {
		return 100 * is, p // from nothing: each object of the new count is one too many
	}
	return (is/old - 1) * 100, p
}

// print writes the verdict.
func (v verdict) print(out io.Writer, threshold float64) {
	for _, benchmark := range v.missing {
		_, _ = fmt.Fprintf(out, "not measured any more: %s\n", benchmark)
	}
	for _, line := range v.worse {
		_, _ = fmt.Fprintf(out, "WORSE: %s\n", line)
	}
	if len(v.worse) == 0 {
		_, _ = fmt.Fprintf(out, "None of %d benchmarks is significantly slower, or allocates more objects, by more than %g %%.\n",
			v.compared, threshold)
	}
}
