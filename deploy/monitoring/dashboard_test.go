package monitoring

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/test/harness"
)

type panel struct {
	ID          int                      `json:"id"`
	Type        string                   `json:"type"`
	Title       string                   `json:"title"`
	Description string                   `json:"description"`
	GridPos     struct{ H, W, X, Y int } `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name string `json:"name"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(harness.ReadFile(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func panels(t *testing.T) []panel { return readDashboard(t).Panels }

// TestDashboard: each panel says what it shows, in which unit, with variables that exist, in a place of its own.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	ids, titles, rows := map[int]bool{}, map[string]bool{}, 0
	for i, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.Title == "" {
			t.Errorf("%s: another panel has the same id or title", p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		for _, before := range d.Panels[:i] {
			if overlap(p, before) {
				t.Errorf("%s covers %s", p.Title, before.Title)
			}
		}
		if p.Type == "row" {
			rows++
			continue
		}
		if p.Description == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s: a panel has a description, a unit and a query", p.Title)
		}
		for _, target := range p.Targets {
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("%s: there is no variable $%s", p.Title, m[1])
				}
			}
			chosen := strings.Contains(target.Expr, `namespace=~"$namespace",instance=~"$instance"`)
			if strings.Contains(target.Expr, "usher_") && !chosen || target.LegendFormat == "" {
				t.Errorf("%s: %s is not limited to the chosen replicas, or has no legend", p.Title, target.Expr)
			}
		}
	}
	if rows < 6 || len(d.Panels)-rows < 30 || d.UID == "" {
		t.Errorf("the dashboard %q has %d rows and %d panels", d.UID, rows, len(d.Panels)-rows)
	}
}

func overlap(a, b panel) bool {
	return a.GridPos.X < b.GridPos.X+b.GridPos.W && b.GridPos.X < a.GridPos.X+a.GridPos.W &&
		a.GridPos.Y < b.GridPos.Y+b.GridPos.H && b.GridPos.Y < a.GridPos.Y+a.GridPos.H
}

// TestKustomization: what is applied is listed, and the port that is scraped is one of the Deployment.
func TestKustomization(t *testing.T) {
	text := harness.ReadFile(t, "kustomization.yaml")
	for _, file := range []string{"podmonitor.yaml", "prometheusrule.yaml", "dashboard.json"} {
		if !strings.Contains(text, file) {
			t.Errorf("kustomization.yaml does not list %s", file)
		}
	}
	var monitor struct {
		Spec struct {
			PodMetricsEndpoints []struct{ Port, Path string } `json:"podMetricsEndpoints"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, "podmonitor.yaml")), &monitor); err != nil {
		t.Fatal(err)
	}
	deployment := harness.ReadFile(t, "../base/deployment.yaml")
	for _, e := range monitor.Spec.PodMetricsEndpoints {
		if e.Path != "/metrics" || !strings.Contains(deployment, "{name: "+e.Port+",") {
			t.Errorf("podmonitor.yaml scrapes %s of the port %s, which the Deployment does not have", e.Path, e.Port)
		}
	}
	if len(monitor.Spec.PodMetricsEndpoints) != 1 {
		t.Error("podmonitor.yaml scrapes nothing")
	}
}
