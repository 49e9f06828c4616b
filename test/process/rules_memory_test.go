package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ruleText is the expression of each of manyRules.
const ruleText = `!has(object.data) || size(object.data) < 100`

// mostRules is the number of rules of this text that fit into 32 MiB, by the estimate in docs/rules.md.
const mostRules = 32 << 20 / (16<<10 + 32*len(ruleText))

// manyRules returns a policy of rules; version makes it another policy.
func manyRules(n, version int) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "env: [{name: VERSION, value: \"%d\"}]\nrules:\n", version)
	for i := range n {
		fmt.Fprintf(&text, "- name: rule-%d\n  match: {apiGroups: [\"\"], resources: [configmaps], operations: [CREATE]}\n"+
			"  validations: [{expression: %q, message: a ConfigMap may have 100 entries}]\n", i, ruleText)
	}
	return []byte(text.String())
}

// TestProcessMemoryOfRules: as many rules as are allowed are loaded in place of as many others while reviews arrive, in the
// memory of deploy/base. One more is refused, and the policy in force stays.
func TestProcessMemoryOfRules(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := launch{env: asDeployed.env, args: []string{"--config", policy}}
	var reason string
	if l.group, reason = memoryGroup(t); reason != "" {
		t.Log("not in a cgroup: ", reason)
	}
	p := launched(t, l)
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.reviewConfigMaps(t, over)
	}()
	for version := range scaled(2, 2, 10) {
		putFile(t, policy, manyRules(mostRules, version))
		eventually(t, "the policy is in force", func() bool { return p.gone() || p.logs(`"msg":"policy in force"`) == version+2 })
		p.wantStanding(t)
	}
	for _, tooMany := range []int{mostRules + 1, 1990} {
		putFile(t, policy, manyRules(tooMany, 0))
		says := fmt.Sprintf("rules: Forbidden: %d rules with %d expressions would take", tooMany, tooMany)
		eventually(t, says, func() bool { return p.logs(says) > 0 })
	}
	close(over)
	<-done
	if got := p.metric(t, "usher_policy_current "); got != 0 {
		t.Errorf("usher_policy_current is %v", got)
	}
	p.wantStanding(t)
}

// reviewConfigMaps posts ConfigMaps to all rules until stopped.
func (p *process) reviewConfigMaps(t *testing.T, over chan struct{}) {
	body := []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"","version":"v1","kind":"ConfigMap"},` +
		`"resource":{"group":"","version":"v1","resource":"configmaps"},"operation":"CREATE","name":"a","namespace":"default",` +
		`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}}}`)
	allowed := 0
	for {
		switch got, err := send(p.client, "https://"+p.reviews+"/validate-rules?timeout=10s", body, nil); {
		case err == nil && got.code == 200 && strings.Contains(got.body, `"allowed":true`):
			allowed++
		case err == nil && got.code == 503:
		default:
			t.Errorf("a ConfigMap: %v, %d %.200s", err, got.code, got.body)
		}
		select {
		case <-over:
			t.Logf("%d ConfigMaps allowed", allowed)
			if allowed == 0 {
				t.Error("no ConfigMap was allowed")
			}
			return
		case <-p.ended:
			return
		default:
		}
	}
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
