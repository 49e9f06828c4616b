package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// recorded is the output of 6 rounds of 3 benchmarks on a shared machine.
const recorded = "testdata/saved.txt"

// changed returns the recorded run with the values of one benchmark in a unit changed by factor.
func changed(t *testing.T, benchmark, unit string, factor float64) results {
	t.Helper()
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	value := regexp.MustCompile(`(?m)^(Benchmark` + regexp.QuoteMeta(benchmark) + `-\d+\s.*?)(\S+) ` + regexp.QuoteMeta(unit))
	found := 0
	text = value.ReplaceAllFunc(text, func(line []byte) []byte {
		parts := value.FindSubmatch(line)
		number, err := strconv.ParseFloat(string(parts[2]), 64)
		if err != nil {
			t.Fatal(err)
		}
		found++
		return fmt.Appendf(nil, "%s%.4f %s", parts[1], number*factor, unit)
	})
	if found != 6 {
		t.Fatalf("%d values of %s in %s", found, benchmark, unit)
	}
	all, err := parse(bytes.NewReader(text), recorded)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestJudge(t *testing.T) {
	const pod = "Routes/2KB-pod"
	before := changed(t, pod, "ns/op", 1)
	for _, c := range []struct {
		name, unit string
		factor     float64
		threshold  float64
		worse      string // a pattern
	}{
		{"the same", "ns/op", 1, 5, "^$"},
		{"three times as slow", "ns/op", 3, 5, `^Routes/2KB-pod-2 takes 200 % longer \(p=0.002\)$`},
		{"slower, which is allowed", "ns/op", 3, 220, "^$"},
		{"twice as fast", "ns/op", 0.5, 5, "^$"},
		{"slower by less than the noise", "ns/op", 1.01, 0.5, "^$"},
		{"a tenth more objects", "allocs/op", 1.1, 5, `^Routes/2KB-pod-2 allocates 10 % more objects \(p=0.002\)$`},
		{"a few more objects", "allocs/op", 1.04, 5, "^$"},
		{"a few more objects, none allowed", "allocs/op", 1.04, 0, `^Routes/2KB-pod-2 allocates 4 % more objects \(p=0.002\)$`},
		{"more bytes", "B/op", 2, 5, "^$"}, // benchstat shows them
	} {
		t.Run(c.name, func(t *testing.T) {
			v := judge(before, changed(t, pod, c.unit, c.factor), c.threshold)
			if got := strings.Join(v.worse, "\n"); !regexp.MustCompile(c.worse).MatchString(got) || v.compared != 3 || len(v.missing) > 0 {
				t.Errorf("%d compared, missing %v, worse %q, want %s", v.compared, v.missing, got, c.worse)
			}
		})
	}
}

// TestJudgeFewRounds: with 3 rounds no difference is significant.
func TestJudgeFewRounds(t *testing.T) {
	times := func(values ...float64) results { return results{"A": {"sec/op": values}} }
	if v := judge(times(1, 2, 3), times(100, 101, 102), 5); len(v.worse) > 0 {
		t.Errorf("3 rounds: %v", v.worse)
	}
	if v := judge(times(1, 2, 3, 4), times(100, 101, 102, 103), 5); len(v.worse) != 1 {
		t.Errorf("4 rounds: %v", v.worse)
	}
}

func TestJudgeAnythingMissing(t *testing.T) {
	before, now := changed(t, "Routes/2KB-pod", "ns/op", 1), changed(t, "Routes/2KB-pod", "ns/op", 1)
	delete(now, "Routes/2KB-pod-2")
	now["New"] = map[string][]float64{"sec/op": {1, 1, 1, 1}}
	v := judge(before, now, 5)
	if v.compared != 2 || len(v.worse) > 0 || strings.Join(v.missing, " ") != "Routes/2KB-pod-2" {
		t.Errorf("%+v", v)
	}
	var out strings.Builder
	v.print(&out, 5)
	if want := "not measured any more: Routes/2KB-pod-2\nNone of 2 benchmarks is"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// TestCompareFromNothing: an object more than none is reported, whatever the threshold.
func TestCompareFromNothing(t *testing.T) {
	none, one := []float64{0, 0, 0, 0, 0}, []float64{1, 1, 1, 1, 1}
	if percent, p := compare(none, one); percent != 100 || p > 0.05 {
		t.Errorf("%v %%, p=%v", percent, p)
	}
	if percent, _ := compare(none, none); percent != 0 {
		t.Errorf("%v %%", percent)
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-rounds 3":        "no difference is significant",
		"-base HEAD -save": "is not saved",
		"main":             `unknown argument "main"`,
		"-dir":             "flag needs an argument",
	} {
		var out strings.Builder
		if err := Command(t.Context(), strings.Fields(args), &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// TestFoldersOfRevisions: a package is found where it lies in a tree, and a tree without it is named.
func TestFoldersOfRevisions(t *testing.T) {
	tree := t.TempDir()
	for _, dir := range []string{"old", "new", "empty"} {
		if err := os.Mkdir(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"old/a_test.go", "new/b_test.go", "empty/c.go"} {
		if err := os.WriteFile(filepath.Join(tree, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for list, want := range map[string]string{"new old": "new", "newer old": "old", "empty old": "old"} {
		if got, err := folderIn(tree, strings.Fields(list)); got != want || err != nil {
			t.Errorf("%s: %s, %v", list, got, err)
		}
	}
	if _, err := folderIn(tree, []string{"empty", "none"}); err == nil || !strings.Contains(err.Error(), tree+" has no tests in empty or none") {
		t.Error(err)
	}
	for _, folders := range packages {
		if got, err := folderIn("../../..", folders); got != folders[0] || err != nil {
			t.Errorf("in this tree: %s, %v", got, err)
		}
	}
}
