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
		for _, out := range explained(t, step+": x: Forbidden: y (refusal 01234567)") {
			if strings.Contains(out, "step-unknown") || !regexp.MustCompile(`(?m)^  /.*\n    `+step+` `).MatchString(out) {
				t.Errorf("%s\n%s", step, out)
			}
		}
	}
	for _, out := range explained(t, `admission webhook "cluster.validate-rules.usher.dev" denied the request: rules: x: Forbidden: y (refusal 01234567)`) {
		if !strings.Contains(out, "/validate-rules") || strings.Contains(out, "step-unknown") {
			t.Error(out)
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

// inCall matches the reason of a failed call, as kubectl prints it.
const inCall = `Error from server (InternalError): Internal error occurred: failed calling webhook "mutate-pods.usher.dev": failed to call webhook: ` +
	`Post "https://usher.usher.svc:443/mutate-pods?timeout=5s": QUOTE`

// quotes are those of the page that are not the reason of a failed call: how they are seen, and what is said of them; or why they are not for explain.
var quotes = []struct{ begin, seen, want, reason string }{
	{begin: `admission webhook "<name>" denied`, seen: "QUOTE", want: "\n    denied-names "},
	{begin: "rule NAME could not be evaluated", seen: "rules: metadata: Forbidden: QUOTE (refusal 01234567)", want: "\n    rules "},
	{begin: "binding: ... Forbidden", seen: "binding: target.name: Forbidden: x (refusal 01234567)", want: "\n    binding "},
	{begin: "sidecars-present: ", seen: "QUOTE", want: "\n    sidecars-present "},
	{begin: "quota team-a", seen: "evaluate-quota: spec: Forbidden: QUOTE (refusal 01234567)", want: "\n    evaluate-quota "},
	{begin: "... is forbidden: expression", seen: `pods "p" QUOTE`, want: "match-condition-failed"},
	{begin: "forbidden: expression", seen: `pods "p" is QUOTE`, want: "match-condition-failed"},
	{begin: "Cannot evict pod", seen: "Error from server (TooManyRequests): QUOTE.", want: "a PodDisruptionBudget refused this"},
	{begin: "failed to configure policy", seen: `pods "p" is forbidden: ValidatingAdmissionPolicy 'v' denied request: QUOTE`, want: "not-usher: ValidatingAdmissionPolicy v"},
	{begin: "no params found", seen: `pods "p" is forbidden: ValidatingAdmissionPolicy 'v' with binding 'b' denied request: failed to configure binding: QUOTE`,
		want: "not-usher: ValidatingAdmissionPolicy v"},
	{begin: `admission webhook "<name>" does not support`, seen: "Error from server (BadRequest): QUOTE", want: "only dry runs are refused"},
	{begin: `failed calling webhook "<name>"`, seen: "QUOTE", want: "webhook-not-called"},
	{begin: "... would be denied by STEP", reason: "a warning of usher, which refuses nothing yet"},
	{begin: "cpu left as it is", reason: "an audit annotation of usher"},
	{begin: "colocation profile X is broken", reason: "a warning of usher"},
	{begin: "the API server did not keep the quota's reservations", reason: "a log line of usher"},
	{begin: "the quota ledger waits for pods", reason: "a log line of usher"},
}

// TestPageIsKnown: each text of the API server or of kubectl that the page on troubleshooting quotes is recognized, with any policy.
func TestPageIsKnown(t *testing.T) {
	used := map[string]bool{}
	for _, quote := range quoted(t) {
		seen, want := inCall, "webhook-not-called: mutate-pods.usher.dev"
		for _, q := range quotes {
			if strings.HasPrefix(quote, q.begin) {
				seen, want, used[q.begin] = q.seen, q.want, true
			}
		}
		text := strings.NewReplacer("<name>", "validate-pods.usher.dev", ": ...", ": metadata.name: Forbidden: x (refusal 01234567)", "...", "'x'").Replace(
			strings.TrimPrefix(quote, "... "))
		if seen = strings.Replace(seen, "QUOTE", text, 1); seen == "" {
			seen, want = text, "the text is not that of a refusal"
		}
		for _, out := range explained(t, seen) {
			if !strings.Contains(out, want) || strings.Contains(out, "step-unknown") {
				t.Errorf("%s\nas %s\nhas no %q:\n%s", quote, seen, want, out)
			}
		}
	}
	for _, q := range quotes {
		if !used[q.begin] {
			t.Errorf("the page does not quote %s", q.begin)
		}
	}
}

// quoted returns the texts that the page quotes where it is about refusals and failed calls: no commands, flags and fields.
func quoted(t *testing.T) (all []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(raw), "\n## ") {
		if !regexp.MustCompile(`^(usher refused|The API server cannot|Quotas|What usherctl doctor)`).MatchString(section) {
			continue
		}
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "|") {
				line, _, _ = strings.Cut(line[1:], "|")
			}
			for _, quote := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
				if strings.Contains(quote[1], " ") && !regexp.MustCompile(`^(usher|usherctl|kubectl|base64) |^--|^[a-zA-Z]+: [A-Z]\w+$`).MatchString(quote[1]) {
					all = append(all, quote[1])
				}
			}
		}
	}
	if len(all) < 40 {
		t.Errorf("%d quotes", len(all))
	}
	return all
}
