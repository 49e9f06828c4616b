package process

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/playground"
)

// TestLimitRangesInTools: a rule on limits sees those of the LimitRange of the Namespace, and what that refuses is invalid, whichever
// tool asks.
func TestLimitRangesInTools(t *testing.T) {
	const policy = `rules:
- name: limits
  match: {apiGroups: [""], resources: [pods], operations: [CREATE]}
  validations: [{expression: "object.spec.containers.all(c, 'memory' in c.resources.?limits.orValue({}))", message: set a limit}]
`
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {admission-webhook: enabled}}}\n---\n"
	const ranges = "{apiVersion: v1, kind: LimitRange, metadata: {name: small, namespace: %N}, spec: {limits: [{type: %T, max: {memory: 1Gi}}]}}\n---\n"
	const none, much = `{apiVersion: v1, kind: Pod, metadata: {generateName: web-, namespace: shop}, spec: {containers: [{name: app, image: nginx}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: app, image: nginx, resources: {limits: {memory: 2Gi}}}]}}`
	const full = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: app, image: nginx, resources: {limits: {memory: 1Gi}}}]}}`
	for _, c := range []struct{ name, in, of, pod, want string }{
		{"by default", "shop", "Container", none, "allowed"},
		{"of another Namespace", "other", "Container", none, "denied"},
		{"too much", "shop", "Container", much, "invalid"},
		{"too much elsewhere", "other", "Container", much, "allowed"},
		{"no room for the sidecar of usherctl test", "shop", "Pod", full, "allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := namespace + strings.NewReplacer("%N", c.in, "%T", c.of).Replace(ranges)
			dir := directory(t, map[string]string{"p.yaml": policy, "pod.yaml": c.pod, "cluster/c.yaml": cluster,
				"case.yaml": "config: p.yaml\ncluster: cluster\nmanifest: pod.yaml\nexpect: {verdict: " + c.want + "}\n"})
			for _, args := range [][]string{{"-"}, {"--cluster-dir", dir + "/cluster", dir + "/pod.yaml"}} {
				if _, out, errors := run(t, cluster+c.pod, append([]string{"review", "--config", dir + "/p.yaml"}, args...)...); !strings.Contains(out, c.want+"  CREATE Pod shop/web") {
					t.Errorf("usherctl review %v, want %s:\n%s%s", args, c.want, out, errors)
				}
			}
			if code, out, errors := run(t, "", "test", dir); code != 0 {
				t.Errorf("usherctl test: exit code %d:\n%s%s", code, out, errors)
			}
			if got := played(t, playground.Input{Object: c.pod, Policy: policy, Cluster: cluster}); got != c.want {
				t.Errorf("the playground says %s, want %s", got, c.want)
			}
		})
	}
}

// TestPodsOfWorkloads: a rule sees the pod of a workload as the API server would send it, whether the pod is reviewed or the step
// workloads judges it.
func TestPodsOfWorkloads(t *testing.T) {
	const rule = `rules:
- name: pods
  match: {apiGroups: [""], resources: [pods], operations: [CREATE]}
  validations: [{expression: "%E", message: not so}]
`
	const objects = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {admission-webhook: enabled}}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: small, namespace: shop}, spec: {limits: [{type: Container, max: {memory: 1Gi}}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}},
  spec: {hostNetwork: true, containers: [{name: app, image: nginx, ports: [{containerPort: 80}]}]}}}}
`
	for _, expression := range []string{
		"object.metadata.name.startsWith('web-') && request.name == object.metadata.name",
		"object.spec.containers[0].resources.limits.memory == '1Gi' && object.spec.containers[0].resources.requests.memory == '1Gi'",
		"object.metadata.annotations['kubernetes.io/limit-ranger'] == 'LimitRanger plugin set: memory request for container app; memory limit for container app'",
		"object.spec.containers[0].ports[0].hostPort == 80",
	} {
		for policy, subject := range map[string]string{"": "CREATE Pod shop/web-", "workloads: {mode: enforce}\n": "CREATE Deployment shop/web"} {
			for not, verdict := range map[string]string{"": "allowed", "!": "denied"} {
				file := directory(t, map[string]string{"p.yaml": policy + strings.Replace(rule, "%E", not+"("+expression+")", 1)}) + "/p.yaml"
				_, out, errors := run(t, objects, "review", "--suite", "core", fmt.Sprintf("--no-templates=%t", policy != ""), "--config", file, "-")
				if !regexp.MustCompile(verdict + "  (Deployment web → its pods: )?" + subject).MatchString(out) {
					t.Errorf("%s%s: want %s  %s\n%s%s", not, expression, verdict, subject, out, errors)
				}
			}
		}
	}
}

// played returns the verdict of the playground on one object.
func played(t *testing.T, in playground.Input) string {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest("POST", "http://127.0.0.1:8090/run", strings.NewReader(string(body)))
	request.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	playground.New(playground.Options{Suites: routes.Suites()}, []string{"127.0.0.1:8090"}).ServeHTTP(w, request)
	var answer struct {
		Objects []struct{ Report struct{ Verdict string } }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Objects) != 1 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return answer.Objects[0].Report.Verdict
}
