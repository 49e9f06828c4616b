package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const account = "system:serviceaccount:usher:usher"

// binding binds the ClusterRole that usher prints.
const binding = `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "usher"},
	"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "usher"},
	"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "` + account + `"}]}`

// TestNoPanelIsEmpty: with the data of two replicas and of the API server under load, every query of the dashboard has
// an answer, and Prometheus evaluates every alert. Then usher goes away, because some panels show only that.
func TestNoPanelIsEmpty(t *testing.T) {
	ctx := within(t, 2*time.Minute)
	t.Setenv("GOMEMLIMIT", "208MiB") // as in the Deployment
	c, err := kubetest.Start(ctx, kubetest.Options{Services: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("\n" + c.LogsOf(10, "kube-apiserver", "usher", "prometheus"))
		}
		_ = c.Stop()
	})
	usher := startUsher(ctx, t, c)
	p, begun := startPrometheus(ctx, t, c, usher), time.Now()
	prepare(ctx, t, c)
	clients := startLoad(ctx, c)
	strays(ctx, t, usher.Replicas[0])
	kubetest.Pause(ctx, 6*time.Second)
	strays(ctx, t, usher.Replicas[0])
	kubetest.Pause(ctx, 3*time.Second)
	wantAlerts(ctx, t, p)
	usher.Stop()
	kubetest.Pause(ctx, 4*time.Second)
	clients.end()
	wantTraffic(t, clients)
	wantPanels(ctx, t, p, begun, time.Now())
	wantClosedLabels(ctx, t, p)
}

// strays sends a replica what an API server sends only if something is wrong: no review, and one for a route that is off.
func strays(ctx context.Context, t *testing.T, r *kubetest.Replica) {
	t.Helper()
	review, err := kubetest.ReadFile("test/testdata/reviews/validate-reservation/reservation-all-wrong.json")
	if err != nil {
		t.Fatal(err)
	}
	post(ctx, t, r, "validate-pods", []byte("nonsense"))
	post(ctx, t, r, "validate-reservation", []byte(review))
}

// startUsher starts two replicas with both suites that watch the API server, and registers them.
func startUsher(ctx context.Context, t *testing.T, c *kubetest.Cluster) *kubetest.Usher {
	t.Helper()
	if err := c.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		t.Fatal(err)
	}
	text, err := kubetest.ReadFile("samples/feature-gates")
	if err != nil {
		t.Fatal(err)
	}
	gates := "--feature-gates=" + strings.TrimSpace(text) + ",ReservationValidatingWebhook=false"
	kubeconfig, err := c.Kubeconfig(account)
	if err != nil {
		t.Fatal(err)
	}
	_, _, ca, err := c.ClientFiles("caller")
	if err != nil {
		t.Fatal(err)
	}
	c.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher"}}`)
	usher, err := c.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2, Policy: policy,
		Flags: []string{"--cluster=api", "--kubeconfig=" + kubeconfig, gates, "--auth=log", "--client-ca=" + ca,
			"--cert-dir=", "--certs=managed", "--audit-log=" + filepath.Join(c.Dir(), "audit-of-usher.log")},
		Before: func(ctx context.Context, u *kubetest.Usher) error {
			role, err := u.Run(ctx, "webhooks", "--rbac", gates)
			if err != nil {
				return err
			}
			rights, err := u.Run(ctx, "webhooks", "--rbac", "--certs=managed")
			if err != nil {
				return err
			}
			return c.Apply(ctx, rights+"\n---\n"+role+"\n---\n"+binding)
		}})
	if err != nil {
		t.Fatal(err)
	}
	configurations, err := usher.Run(ctx, "webhooks", "--suite=core,colocation", gates, "--config="+usher.PolicyFile()) // without a caBundle
	if err == nil {
		err = usher.RegisterThese(ctx, configurations)
	}
	if err != nil {
		t.Fatal(err)
	}
	return usher
}

// wantAlerts fails the test unless Prometheus evaluates all rules, and renders the texts of those that are active.
func wantAlerts(ctx context.Context, t *testing.T, p prometheus) {
	t.Helper()
	text, err := p.get(ctx, "/api/v1/rules", nil)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name, Health, LastError string
					Alerts                  []struct{ Annotations map[string]string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			rules++
			if r.Health != "ok" {
				t.Errorf("alert %s: %s %s", r.Name, r.Health, r.LastError)
			}
			for _, a := range r.Alerts {
				if all := fmt.Sprint(a.Annotations); strings.Contains(all, "<error") || strings.Contains(all, "<no value>") {
					t.Errorf("alert %s reads %s", r.Name, all)
				}
			}
		}
	}
	if rules < 20 {
		t.Errorf("Prometheus has %d rules", rules)
	}
}

// wantTraffic fails the test unless the load produced the traffic that the panels need.
func wantTraffic(t *testing.T, l *load) {
	t.Helper()
	stored, denied, refused := 0, 0, 0
	for what, n := range l.counts.All() {
		switch {
		case what == "stored":
			stored += n
		case strings.Contains(what, "denied-names: "):
			denied += n
		case strings.Contains(what, "failed calling webhook"):
			refused += n
		case strings.HasPrefix(what, "heartbeat refused"):
			t.Error(what)
		}
	}
	if stored < 20 || denied < 10 || refused == 0 {
		t.Errorf("%d pods were stored, %d denied, %d refused without usher: %v", stored, denied, refused, l.counts.All())
	}
}

// wantPanels fails the test for each query of the dashboard without data.
func wantPanels(ctx context.Context, t *testing.T, p prometheus, from, to time.Time) {
	t.Helper()
	text, err := kubetest.ReadFile("deploy/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			n, err := p.values(ctx, filled(target.Expr), from, to)
			if err != nil || n == 0 {
				t.Errorf("the panel %q is empty: %v\n%s", panel.Title, err, filled(target.Expr))
			}
		}
	}
	if queries < 30 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}

// filled returns a query as Grafana sends it with all variables set to All.
func filled(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5s")
	return regexp.MustCompile(`\$(namespace|instance|route)\b`).ReplaceAllString(expr, ".*")
}

// wantClosedLabels fails the test if a label has a text of the load's requests.
func wantClosedLabels(ctx context.Context, t *testing.T, p prometheus) {
	t.Helper()
	text, err := p.get(ctx, "/api/v1/labels", map[string][]string{"match[]": {`{__name__=~"usher_.*"}`}})
	if err != nil {
		t.Fatal(err)
	}
	var labels struct{ Data []string }
	if err := json.Unmarshal([]byte(text), &labels); err != nil {
		t.Fatal(err)
	}
	known := []string{"__name__", "alertname", "decision", "field", "for", "gate", "instance", "job", "kind", "le", "limit", "listener", "mode",
		"namespace", "operation", "outcome", "override", "reason", "result", "route", "severity", "state", "step", "version", "webhook"}
	for _, name := range labels.Data {
		if !slices.Contains(known, name) {
			t.Errorf("there is a label %s: is its set of values closed?", name)
		}
		values, err := p.label(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if strings.Contains(v, "pod-") && strings.Contains(v, "offensive") || v == "strict" || v == "lenient" {
				t.Errorf("the label %s has the value %s of a request", name, v)
			}
		}
	}
}
