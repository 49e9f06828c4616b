// Package monitoring is alert rules and a dashboard. Its tests keep them in step with usher's metrics and with the docs;
// test/e2e/monitoring runs them in Prometheus.
package monitoring

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/test/harness"
)

type rule struct {
	Alert               string            `json:"alert"`
	Expr                string            `json:"expr"`
	For                 string            `json:"for"`
	Labels, Annotations map[string]string `json:",omitempty"`
}

type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

// parse decodes a YAML file strictly.
func parse(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(harness.ReadFile(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	var r rules
	parse(t, "rules.yaml", &r)
	for _, g := range r.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("only %d alerts", len(all))
	}
	return all
}

// TestPrometheusRuleGolden: the PrometheusRule contains the rules of rules.yaml.
func TestPrometheusRuleGolden(t *testing.T) {
	var text strings.Builder
	text.WriteString("# Made from rules.yaml by `make golden`: edit that file.\n" +
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: usher\nspec:\n")
	for line := range strings.Lines(harness.ReadFile(t, "rules.yaml")) {
		if !strings.HasPrefix(line, "# ") && line != "\n" {
			line = "  " + line
		}
		if !strings.HasPrefix(line, "# ") {
			text.WriteString(line)
		}
	}
	harness.CompareGolden(t, "prometheusrule.yaml", text.String())
	var plain, wrapped any
	parse(t, "rules.yaml", &plain)
	if err := yaml.Unmarshal([]byte(text.String()), &wrapped); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(plain)
	b, _ := json.Marshal(wrapped.(map[string]any)["spec"])
	if string(a) != string(b) {
		t.Errorf("prometheusrule.yaml has other rules than rules.yaml:\n%s\n%s", a, b)
	}
}

// rescue is the command that disables usher.
const rescue = "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration -l app.kubernetes.io/name=usher"

// TestAlertsSayWhatToDo: each alert says how urgent it is, what happens to users and which command comes first. Where
// requests of users are refused, that includes the command that disables usher; where nothing is registered, nothing is refused.
func TestAlertsSayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if seen[a.Alert] || !strings.HasPrefix(a.Alert, "Usher") {
			t.Errorf("%s: alerts have names of their own that begin with Usher", a.Alert)
		}
		seen[a.Alert] = true
		severity, text := a.Labels["severity"], strings.ReplaceAll(a.Annotations["description"], "\n", " ")
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) || len(a.Labels) != 1 {
			t.Errorf("%s: the only label is severity: critical, warning or info", a.Alert)
		}
		if a.Annotations["summary"] == "" || !strings.HasSuffix(a.Annotations["summary"], ".") || !strings.Contains(text, "First: ") {
			t.Errorf("%s: has a summary, and a description with First: and a command", a.Alert)
		}
		if want := "https://usher.dev/docs/runbook.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook_url is %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if severity == "critical" && a.Alert != "UsherWebhookMissing" && !strings.Contains(text, rescue) {
			t.Errorf("%s: requests are refused, so the description has the command: %s", a.Alert, rescue)
		}
	}
}

// TestRunBook: docs/runbook.md has a section for each alert, in the same order, with the same parts.
func TestRunBook(t *testing.T) {
	page := harness.ReadFile(t, "../../docs/runbook.md")
	if !strings.Contains(page, rescue) {
		t.Errorf("docs/runbook.md: begins with the command %s", rescue)
	}
	var sections, names []string
	for _, part := range strings.Split(page, "\n## ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sections = append(sections, name)
		found := ""
		for _, m := range regexp.MustCompile(`(?m)^\*\*([A-Z][a-z]+)\.\*\* `).FindAllStringSubmatch(text, -1) {
			found += m[1]
		}
		if found != "MeaningCheckFix" && found != "MeaningImpactCheckFix" {
			t.Errorf("docs/runbook.md: %s has the parts %s, want Meaning, Check, Fix", name, found)
		}
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
	}
	if !slices.Equal(sections, names) {
		t.Errorf("docs/runbook.md has the sections\n%q, the alerts are\n%q", sections, names)
	}
	for _, m := range regexp.MustCompile(`\]\(#([a-z]+)\)`).FindAllStringSubmatch(page, -1) {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.ToLower(n) == m[1] }) {
			t.Errorf("docs/runbook.md links #%s, which does not exist", m[1])
		}
	}
}

// TestEachAlertHasCases: rules_test.yaml has a case in which an alert fires, and one in which it is silent.
func TestEachAlertHasCases(t *testing.T) {
	var cases struct {
		Tests []struct {
			Name string `json:"name"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, "rules_test.yaml")), &cases); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range cases.Tests {
		got = append(got, c.Name)
	}
	for _, a := range alerts(t) {
		want = append(want, a.Alert+" fires", a.Alert+" is silent")
	}
	if !slices.Equal(got, want) {
		t.Errorf("rules_test.yaml has the cases\n%q, want\n%q", got, want)
	}
}

// others are the metrics of the API server, of Go and of the process in alerts and on the dashboard. The end-to-end test
// finds them in Prometheus.
var others = []string{
	"apiserver_admission_match_condition_evaluation_errors_total",
	"apiserver_admission_webhook_admission_duration_seconds",
	"apiserver_admission_webhook_fail_open_count",
	"apiserver_admission_webhook_rejection_count",
	"apiserver_admission_webhook_request_total",
	"go_gc_duration_seconds", "go_gc_gomemlimit_bytes", "go_goroutines",
	"process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes",
}

var metric = regexp.MustCompile(`\b(?:usher|apiserver|go|process)_[a-z_]+\b`)

// base returns the name of the histogram that a series belongs to.
func base(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if cut, ok := strings.CutSuffix(name, suffix); ok && (strings.HasSuffix(cut, "_seconds")) {
			return cut
		}
	}
	return name
}

// TestMetricsExist: alerts and panels name only metrics that usher, Go or the API server have.
func TestMetricsExist(t *testing.T) {
	ours, used := ownMetrics(t), map[string]bool{}
	note := func(where, expr string) {
		for _, name := range metric.FindAllString(expr, -1) {
			name = base(name)
			used[name] = true
			if !slices.Contains(ours, name) && !slices.Contains(others, name) {
				t.Errorf("%s names the metric %s, which does not exist", where, name)
			}
		}
	}
	for _, a := range alerts(t) {
		note(a.Alert, a.Expr)
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			note(p.Title, target.Expr)
		}
	}
	for _, name := range others {
		if !used[name] {
			t.Errorf("%s is in no alert and on no panel: remove it from this list", name)
		}
	}
}

// TestMetricsAreDocumented: the table in docs/operations.md lists all metrics of usher.
func TestMetricsAreDocumented(t *testing.T) {
	_, page, _ := strings.Cut(harness.ReadFile(t, "../../docs/operations.md"), "\n## Metrics\n")
	table, _, _ := strings.Cut(page, "\n\nThe reasons of")
	var listed []string
	for _, m := range regexp.MustCompile("`(usher_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if ours := ownMetrics(t); !slices.Equal(slices.Compact(listed), ours) {
		t.Errorf("docs/operations.md lists\n%q, usher has\n%q", listed, ours)
	}
}

// ownMetrics returns the metrics that usher's source names, sorted.
func ownMetrics(t *testing.T) []string {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "test" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`"(usher_[a-z_]+)"`).FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil || len(names) < 15 {
		t.Fatalf("found %v, %v", names, err)
	}
	return slices.Sorted(maps.Keys(names))
}
