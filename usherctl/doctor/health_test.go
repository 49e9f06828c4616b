package doctor_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/colocation"
	ushercommand "usher.dev/usher/command"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// deployed returns usher's Deployment with fields of its spec and of its pods.
func deployed(spec, pod string) string {
	return "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: usher, namespace: usher}, spec: {" + spec + `, selector: {matchLabels: {app: usher}},
template: {metadata: {labels: {app: usher}}, spec: {` + pod + `containers: [{name: usher, image: usher, args: [serve], resources: {requests: {cpu: 100m}, limits: {memory: 64Mi}},
securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}]}}}}
`
}

// beside returns an object in usher's Namespace.
func beside(kind, spec string) string {
	version := "v1"
	if kind == "PodDisruptionBudget" {
		version = "policy/v1"
	}
	return "---\n{apiVersion: " + version + ", kind: " + kind + ", metadata: {name: x, namespace: usher}, " + spec + "}\n"
}

// TestHealth: what keeps usher itself from running, or from being of use, is found, and its healthy twin is not.
func TestHealth(t *testing.T) {
	var out bytes.Buffer
	env := tool.Env{Suites: suite.List{colocation.Suite()}, Streams: cli.Streams{Out: &out, Err: &out}}
	usher := ushercommand.Program{Suites: env.Suites, Out: &out, Err: &out}
	if code := usher.Run(t.Context(), []string{"webhooks", "--suite", "colocation"}); code != 0 {
		t.Fatal(out.String())
	}
	others := slices.DeleteFunc(strings.Split(soundCluster, "\n---\n"), func(s string) bool { return strings.Contains(s, "kind: Deployment,") })
	cluster := strings.Join(append(others, out.String()), "\n---\n")
	const account, class = "serviceAccountName: usher, ", "priorityClassName: first, "
	const noPods = `---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: usher-1, namespace: usher, labels: {kubernetes.io/service-name: usher}}, addressType: IPv4, ports: [], endpoints: []}
`
	policy := func(modes string) string {
		return strings.Replace(deployed("replicas: 2", "volumes: [{name: p, configMap: {name: p}}], "), "args: [serve]",
			"args: [serve, --config=/p/policy.yaml], volumeMounts: [{name: p, mountPath: /p}]", 1) +
			"---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: p, namespace: usher}, data: {policy.yaml: '" + modes + "'}}\n"
	}
	enforced := "---\n{apiVersion: v1, kind: Namespace, metadata: {name: usher, labels: {pod-security.kubernetes.io/enforce: restricted}}}\n"
	for _, c := range []struct{ name, faulty, healthy, want, says string }{
		{"no Deployment", "", deployed("replicas: 2", ""), "usher-not-deployed", "app=usher"},
		{"no replicas", deployed("replicas: 0", "") + noPods, deployed("replicas: 0", ""), "usher-replicas", "no replicas"},
		{"one replica", deployed("replicas: 1", ""), deployed("replicas: 2", ""), "usher-replicas", "one replica"},
		{"Pod Security", deployed("replicas: 2", "hostNetwork: true, ") + enforced, deployed("replicas: 2", "") + enforced, "usher-pods-refused", `violates PodSecurity "restricted:latest"`},
		{"no PriorityClass", deployed("replicas: 2", class) + "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: second}, value: 1}\n",
			deployed("replicas: 2", class) + "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: first}, value: 1}\n", "usher-pods-refused",
			"no PriorityClass with name first"},
		{"a PriorityClass that no file has", deployed("replicas: 2", class), deployed("replicas: 2", strings.Replace(class, "first", "system-node-critical", 1)), "usher-pods-refused",
			"no file has the PriorityClass first"},
		{"no room in a quota", deployed("replicas: 3", "") + beside("ResourceQuota", "spec: {hard: {pods: 2}}"),
			deployed("replicas: 3", "") + beside("ResourceQuota", "spec: {hard: {pods: 3}}, status: {hard: {pods: 3}, used: {pods: 3}}"), "usher-pods-refused",
			"exceeded quota: x, requested: pods=1, used: pods=2, limited: pods=2"},
		{"a low LimitRange", deployed("replicas: 2", "") + beside("LimitRange", "spec: {limits: [{type: Container, max: {memory: 32Mi}}]}"),
			deployed("replicas: 2", "") + beside("LimitRange", "spec: {limits: [{type: Container, max: {memory: 64Mi}}]}"), "usher-pods-refused",
			"maximum memory usage per Container is 32Mi"},
		{"no ServiceAccount", deployed("replicas: 2", account) + beside("ServiceAccount", "secrets: []"),
			deployed("replicas: 2", account) + strings.Replace(beside("ServiceAccount", "secrets: []"), "name: x", "name: usher", 1), "usher-pods-refused",
			`serviceaccount "usher" not found`},
		{"a webhook that refuses the pods", deployed("replicas: 2", "") + `---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {validations: [{expression: "object.metadata.namespace != 'usher'"}],
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: p}, spec: {policyName: p, validationActions: [Deny]}}
`, deployed("replicas: 2", ""), "usher-pods-refused", "ValidatingAdmissionPolicy 'p'"},
		{"as many as must be available", deployed("replicas: 2", "") + beside("PodDisruptionBudget", "spec: {minAvailable: 2, selector: {matchLabels: {app: usher}}}"),
			deployed("replicas: 2", "") + beside("PodDisruptionBudget", "spec: {minAvailable: 1, selector: {matchLabels: {app: usher}}}"), "usher-disruption-budget", "none of the 2"},
		{"none unavailable", deployed("replicas: 2", "") + beside("PodDisruptionBudget", "spec: {maxUnavailable: 10%, selector: {}}") +
			strings.Replace(beside("PodDisruptionBudget", "spec: {minAvailable: 100%, selector: {matchLabels: {app: usher}}}"), "name: x", "name: z", 1),
			deployed("replicas: 2", "") + beside("PodDisruptionBudget", "spec: {maxUnavailable: 10%, selector: {matchLabels: {app: usher}}}"), "usher-disruption-budget", "usher/z"},
		{"all steps off", policy("modes: {" + strings.Join(stepsOff(env.Suites), ", ") + "}"), deployed("replicas: 2", ""), "usher-idle", "every step"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if found := namely(t, env, cluster, c.healthy, c.want); len(found) > 0 {
				t.Errorf("the healthy twin: %+v", found)
			}
			if found := namely(t, env, cluster, c.faulty, c.want); len(found) != 1 || !strings.Contains(found[0].Message, c.says) {
				t.Errorf("no %s that says %q: %+v", c.want, c.says, found)
			}
		})
	}
}

// stepsOff returns the modes that switch each step of suites off.
func stepsOff(all suite.List) (modes []string) {
	for _, r := range (suite.Instance{Suites: all, Policy: suite.NoPolicy, Gates: gate.Defaults(all.Gates())}).Table() {
		for _, step := range r.Chain.Steps() {
			modes = append(modes, step.Name+": off")
		}
	}
	slices.Sort(modes)
	return slices.Compact(modes)
}

// namely returns the findings of an id in a cluster with more manifests.
func namely(t *testing.T, env tool.Env, cluster, more, id string) (found []report.Finding) {
	t.Helper()
	all, _ := examineWith(t, env, cluster, plantedFault{more: strings.TrimPrefix(more, "---\n")})
	for _, f := range all {
		if f.ID == id {
			found = append(found, f)
		}
	}
	return found
}
