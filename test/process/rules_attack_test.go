package process

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/test/harness"
)

// longRule is a rule that reads all of a ConfigMap.
const longRule = `
rules:
- name: values-are-small
  match: {apiGroups: [""], resources: [configmaps], operations: [CREATE]}
  validations: [{expression: "!has(object.data) || object.data.all(k, object.data[k].size() < 100)"}]
`

// ruleClients is the number of clients that post ConfigMaps, each of some 10,000 keys and 0.12 MB.
const ruleClients = 16

// attackRules posts ConfigMaps that a rule reads as a whole, and compares how long ordinary reviews take beside them with
// the same clients while the rule is switched off. Some clients do not wait for their answer.
func attackRules(t *testing.T, during time.Duration) {
	var data strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&data, `,"k%d":"v"`, i)
	}
	body := fmt.Appendf(nil, costlyEnvelope, "", "v1", "ConfigMap", "", "v1", "configmaps", "", "CREATE",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"colocation"},"data":{`+data.String()[1:]+`}}`)
	off := ordinaryBeside(t, longRule+"modes: {rules: off}\n", body, during)
	on := ordinaryBeside(t, longRule, body, during)
	t.Logf("p99 of an ordinary review: %v with the rule, %v without, %.2f times", on, off, float64(on)/float64(off))
	if during > 0 && on > 2*off {
		t.Errorf("the rule makes ordinary reviews wait: %v, %v without it", on, off)
	}
}

// ordinaryBeside returns the p99 of ordinary reviews beside clients that post a body.
func ordinaryBeside(t *testing.T, policy string, body []byte, during time.Duration) time.Duration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	l := everything(t, asDeployed.env...)
	l.args = append(l.args, "--config", file)
	p := launched(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range ruleClients {
		clients.Go(func() { p.postRules(ctx, body, i%4 == 0) })
	}
	var took []time.Duration
	ordinary, end := harness.ReadSample(t, podSample), time.Now().Add(during)
	for len(took) < 20 || time.Now().Before(end) {
		start := time.Now()
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=10s", ordinary, nil)
		if err != nil || got.code != http.StatusOK {
			t.Fatalf("an ordinary review: %v, %d %.200s", err, got.code, got.body)
		}
		took = append(took, time.Since(start))
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	clients.Wait()
	p.wantStanding(t)
	slices.Sort(took)
	return took[len(took)*99/100]
}

// postRules posts a body until the context ends. A hasty client goes away after 50 ms.
func (p *process) postRules(ctx context.Context, body []byte, hasty bool) {
	for ctx.Err() == nil {
		each, cancel := context.WithTimeout(ctx, time.Minute)
		if hasty {
			each, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
		}
		r, _ := http.NewRequestWithContext(each, http.MethodPost, "https://"+p.reviews+"/validate-rules?timeout=5s", strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		if answer, err := p.client.Do(r); err == nil {
			_, _ = readReply(answer)
		}
		cancel()
	}
}
