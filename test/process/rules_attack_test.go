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

	"usher.dev/usher/test/costs"
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
	off := withRules(t, longRule+"modes: {rules: off}\n").ordinaryBeside(t, [][]byte{body}, "5s", during)
	on := withRules(t, longRule).ordinaryBeside(t, [][]byte{body}, "5s", during)
	t.Logf("p99 of an ordinary review: %v with the rule, %v without, %.2f times", on, off, float64(on)/float64(off))
	if during > 0 && on > 2*off {
		t.Errorf("the rule makes ordinary reviews wait: %v, %v without it", on, off)
	}
}

// attackCalls posts ConfigMaps with the texts of a tenant to rules that call each function as expensively as can be, and
// compares ordinary reviews beside them with those beside the same ConfigMaps and a rule that is true. Each function gets a
// twelfth of the time for either; without any time, some of the functions are called.
func attackCalls(t *testing.T, during time.Duration) {
	policy, calls := "rules:\n"+costRule("plain", "true"), costs.Calls()
	for i, c := range calls {
		policy += costRule(fmt.Sprintf("c%d", i), c.Expression)
	}
	p := withRules(t, policy)
	worst := 0.0
	for i, c := range calls {
		if during == 0 && i%12 != 0 {
			continue
		}
		ratio := 0.0
		for range 3 { // on a busy machine
			off := p.ordinaryBeside(t, costlyConfigMaps("plain", c), "1s", during/12)
			on := p.ordinaryBeside(t, costlyConfigMaps(fmt.Sprintf("c%d", i), c), "1s", during/12)
			if ratio = float64(on) / float64(off); ratio <= 2 || during == 0 {
				break
			}
		}
		t.Logf("%.2f times, %d MiB: %s", ratio, p.memory(t, "VmHWM"), c.Expression)
		if worst = max(worst, ratio); ratio > 2 && during > 0 {
			t.Errorf("%s makes ordinary reviews wait %.2f times as long", c.Expression, ratio)
		}
	}
	t.Logf("%d calls, %.2f times at most", len(calls), worst)
}

// costRule returns a rule for a resource of its own.
func costRule(resource, expression string) string {
	return fmt.Sprintf("- {name: %s, match: {apiGroups: [costs.usher.dev], resources: [%[1]s], operations: [CREATE]}, validations: [{expression: %q}]}\n", resource, expression)
}

// costlyConfigMaps returns reviews of 27 KiB to 1 MiB.
func costlyConfigMaps(resource string, c costs.Call) (bodies [][]byte) {
	for _, size := range []int{27 << 10, 250 << 10, 1 << 20} {
		bodies = append(bodies, fmt.Appendf(nil, costlyEnvelope, "", "v1", "ConfigMap", "costs.usher.dev", "v1", resource, "", "CREATE", c.Object(size)))
	}
	return bodies
}

// withRules starts a service as deployed with a policy, in a cgroup if possible.
func withRules(t *testing.T, policy string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	l := everything(t, asDeployed.env...)
	l.args = append(l.args, "--config", file)
	l.group, _ = memoryGroup(t)
	return launched(t, l)
}

// ordinaryBeside returns the p99 of ordinary reviews beside clients that post bodies.
func (p *process) ordinaryBeside(t *testing.T, bodies [][]byte, timeout string, during time.Duration) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	for i := range ruleClients {
		clients.Go(func() { p.postRules(ctx, bodies[i%len(bodies)], timeout, i%4 == 0) })
	}
	var took []time.Duration
	ordinary, end := harness.ReadSample(t, podSample), time.Now().Add(during)
	for len(took) < 5 || time.Now().Before(end) {
		start := time.Now()
		got, err := send(p.client, "https://"+p.reviews+"/mutate-pods?timeout=10s", ordinary, nil)
		if err != nil && during == 0 && time.Since(end) < time.Minute { // a machine that other tests use: a handshake has 5 s
			continue
		}
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
func (p *process) postRules(ctx context.Context, body []byte, timeout string, hasty bool) {
	for ctx.Err() == nil {
		each, cancel := context.WithTimeout(ctx, time.Minute)
		if hasty {
			each, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
		}
		r, _ := http.NewRequestWithContext(each, http.MethodPost, "https://"+p.reviews+"/validate-rules?timeout="+timeout, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		if answer, err := p.client.Do(r); err == nil {
			_, _ = readReply(answer)
		}
		cancel()
	}
}
