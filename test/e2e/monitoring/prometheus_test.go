package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// startPrometheus starts a Prometheus that scrapes the replicas and the API server every second, and has the shipped
// rules.
func startPrometheus(ctx context.Context, t *testing.T, c *kubetest.Cluster, u *kubetest.Usher) prometheus {
	t.Helper()
	file, _, err := binaries.Prometheus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(c.Dir(), "prometheus.yaml")
	if err := os.WriteFile(config, []byte(scrapes(t, c, u)), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if _, err := c.StartProgram("prometheus", file, "--config.file="+config, "--web.listen-address="+address,
		"--storage.tsdb.path="+filepath.Join(c.Dir(), "prometheus")); err != nil {
		t.Fatal(err)
	}
	p := prometheus{"http://" + address}
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		_, err := p.get(ctx, "/-/ready", nil)
		return err
	}); err != nil {
		t.Fatalf("%v\n%s", err, c.LogsOf(20, "prometheus"))
	}
	return p
}

func scrapes(t *testing.T, c *kubetest.Cluster, u *kubetest.Usher) string {
	t.Helper()
	cert, key, ca, err := c.ClientFiles("prometheus", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	var replicas []string
	for _, r := range u.Replicas {
		replicas = append(replicas, r.Operations())
	}
	return fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- job_name: usher
  static_configs: [{targets: ['%s'], labels: {namespace: usher}}]
- job_name: apiserver
  scheme: https
  tls_config: {cert_file: %q, key_file: %q, ca_file: %q}
  static_configs: [{targets: [%q]}]
`, filepath.Join(folder(t), "rules.yaml"), strings.Join(replicas, "','"), cert, key, ca, strings.TrimPrefix(c.URL, "https://"))
}

func (p prometheus) get(ctx context.Context, path string, query url.Values) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	answer, err := direct.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, answer.Status, text)
	}
	return string(text), err
}

// values returns how many values a query has in a period that are numbers.
func (p prometheus) values(ctx context.Context, expr string, from, to time.Time) (numbers int, err error) {
	text, err := p.get(ctx, "/api/v1/query_range", url.Values{"query": {expr}, "step": {"1"},
		"start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)}})
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct{ Result []struct{ Values [][2]any } }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return 0, err
	}
	for _, series := range answer.Data.Result {
		for _, v := range series.Values {
			if f, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64); err == nil && !math.IsNaN(f) {
				numbers++
			}
		}
	}
	return numbers, nil
}

// label returns the values of a label.
func (p prometheus) label(ctx context.Context, name string) (values []string, err error) {
	text, err := p.get(ctx, "/api/v1/label/"+name+"/values", nil)
	if err != nil {
		return nil, err
	}
	var answer struct{ Data []string }
	return answer.Data, json.Unmarshal([]byte(text), &answer)
}
