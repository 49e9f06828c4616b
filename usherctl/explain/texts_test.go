package explain_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/tool"
)

// explained returns what is said of a text, without --config and with that of the samples.
func explained(t *testing.T, text string) (all []string) {
	t.Helper()
	for _, flags := range [][]string{nil, {"--config=../../samples/policy.yaml"}} {
		var out bytes.Buffer
		env := tool.Env{Suites: routes.Suites(), Streams: cli.Streams{In: strings.NewReader(text), Out: &out, Err: &out}}
		command.Run(t.Context(), env, append([]string{"explain", "-"}, flags...))
		all = append(all, out.String())
	}
	return all
}

// TestStepsAreKnown: a refusal of each step names the step and its route, whichever policy it is explained by.
func TestStepsAreKnown(t *testing.T) {
	steps, _ := routes.Suites().Steps()
	if len(steps) < 20 {
		t.Fatal(steps)
	}
	for _, step := range steps {
		for _, text := range []string{step + ": x: Forbidden: y (refusal 01234567)"} {
			for _, out := range explained(t, text) {
				if strings.Contains(out, "step-unknown") || !regexp.MustCompile(`(?m)^  /.*\n    `+step+` `).MatchString(out) {
					t.Errorf("%s\n%s", text, out)
				}
			}
		}
	}
}

// TestRefusalsAreKnown: each refusal in the recorded answers of usher, as the API server passes it on, is usher's, with its problems.
func TestRefusalsAreKnown(t *testing.T) {
	found := 0
	for _, shelf := range []string{"../../samples/reviews", "../../test/testdata/reviews"} {
		files, err := filepath.Glob(shelf + "/*/*.golden")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, status, _ := strings.Cut(string(raw), "\nstatus:\n")
			var answer struct{ Message string }
			if lines := regexp.MustCompile(`(?m)\A(?: .*\n)+`).FindString(status); yaml.Unmarshal([]byte(lines), &answer) != nil ||
				!strings.Contains(answer.Message, "(refusal ") {
				continue
			}
			found++
			text := fmt.Sprintf("Error from server: admission webhook %q denied the request: %s", filepath.Base(filepath.Dir(file))+".usher.dev", answer.Message)
			if r, ok := explain.ParseRefusal(text); !ok || r.By != explain.ByUsher || len(r.Problems) == 0 {
				t.Errorf("%s: %s\n%+v", file, text, r)
			}
		}
	}
	if found < 50 {
		t.Errorf("%d refusals", found)
	}
}
