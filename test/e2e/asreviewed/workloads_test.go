package asreviewed

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestWorkloadsAsTheirPods: the author of a workload hears that its pods would be denied exactly when the pod is that its
// controller creates. One Namespace has a LimitRange, whose defaults pods get and templates do not.
func TestWorkloadsAsTheirPods(t *testing.T) {
	ctx := cluster.Within(t, 20*time.Minute)
	d, seen := draws{kubetest.Random(t)}, map[string]int{}
	unregister(ctx, t)
	untilSeen(t, seen, []string{"allowed", "denied"}, rounds(t), func(from, to int) { reviewWorkloads(ctx, t, d, from, to, seen) })
}

// reviewWorkloads compares the workloads among 24 objects, for each of some policies.
func reviewWorkloads(ctx context.Context, t *testing.T, d draws, from, to int, seen map[string]int) {
	t.Helper()
	namespaces := map[int][]kubetest.Object{}
	for i := from; i < to; i++ {
		namespaces[i] = d.namespaces(2000 + i)[:2] // those that have opted in
		createNamespaces(ctx, t, namespaces[i])
		create(ctx, t, "/api/v1/namespaces/"+namespaces[i][0].String("metadata", "name")+"/limitranges", kubetest.Decode(`{"metadata": {"name": "defaults"},
			"spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}]}}`))
	}
	for i := from; i < to; i++ {
		policy := d.policy()
		policy["names"], policy["workloads"] = kubetest.Object{"denied": []string{"rude"}}, kubetest.Object{"mode": pick(d, "warn", "enforce")}
		serve(ctx, t, kubetest.Encode(policy), 2000+i)
		t.Run(fmt.Sprintf("policy-%d", i), func(t *testing.T) {
			for n := range 24 {
				if o := d.object(n, namespaces[i]); podOf(o) != nil {
					seen[compareWorkload(ctx, t, kubetest.Encode(policy), o)]++
				}
			}
		})
	}
	unregister(ctx, t)
}

// compareWorkload sends a workload and its pod, and returns what became of the pod.
func compareWorkload(ctx context.Context, t *testing.T, policy string, o kubetest.Object) string {
	t.Helper()
	response, err := cluster.Admin().Do(ctx, "POST", collectionOf(o)+"?dryRun=All", "application/json", o)
	if err != nil {
		t.Fatal(err)
	}
	verdict, answer := verdictOf(response)
	ofItself := verdict == "denied" && !strings.Contains(answer, "validate-workload")
	if verdict == "invalid" || verdict == "error" || ofItself {
		return "not compared"
	}
	of, podAnswer, _ := send(ctx, t, o, true, false)
	if of == "invalid" || of == "error" { // a rule that cannot be evaluated is neither a refusal nor none
		return "not compared"
	}
	warned := slices.ContainsFunc(response.Warnings, func(w string) bool { return strings.Contains(w, "its pods would be denied") })
	if heard := warned || verdict == "denied"; heard != (of == "denied") {
		t.Errorf("the pod is %s: %s\npolicy: %s\nworkload: %s\n%s: %s, warnings %q", of, podAnswer, policy, kubetest.Encode(o), verdict, answer, response.Warnings)
	}
	return of
}

// TestWorkloadsAsTheirPodsOfColocation: the same for checks of the colocation suite, which read what the Priority plug-in sets in pods
// and not in templates, and labels that the core suite adds in one of the namespaces.
func TestWorkloadsAsTheirPodsOfColocation(t *testing.T) {
	ctx := cluster.Within(t, 10*time.Minute)
	d, seen := draws{kubetest.Random(t)}, map[string]int{}
	unregister(ctx, t)
	for class, spec := range map[string]string{"koord-prod": `"value": 9000`, "koord-batch": `"value": 5000, "preemptionPolicy": "Never"`, "usual": `"value": 9500, "globalDefault": true`} {
		create(ctx, t, "/apis/scheduling.k8s.io/v1/priorityclasses", kubetest.Decode(`{"metadata": {"name": "`+class+`"}, `+spec+`}`))
	}
	namespaces := []kubetest.Object{kubetest.Decode(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "colocated"}}`),
		kubetest.Decode(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "colocated-and-core", "labels": {"admission-webhook": "enabled"}}}`)}
	createNamespaces(ctx, t, namespaces)
	policy := `{"labelDefaults": [{"labels": [{"key": "koordinator.sh/qosClass", "value": "BE"}]}], "workloads": {"mode": "` + pick(d, "warn", "enforce") + `"}}`
	serve(ctx, t, policy, 3000, "--suite", "core,colocation")
	untilSeen(t, seen, []string{"allowed", "denied"}, 24, func(from, to int) {
		for n := from; n < to; n++ {
			spec, labels := d.podSpec("Always"), kubetest.Object{"app": "web"}
			if class := pick(d, "", "koord-prod", "koord-batch"); class != "" {
				spec["priorityClassName"] = class
			}
			if qos := pick(d, "", "BE", "LSR", "LS"); qos != "" {
				labels["koordinator.sh/qosClass"] = qos
			}
			o := kubetest.Decode(kubetest.Encode(kubetest.Object{"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": kubetest.Object{"name": fmt.Sprintf("c%d", n), "namespace": pick(d, namespaces...).String("metadata", "name")},
				"spec":     kubetest.Object{"selector": kubetest.Object{"matchLabels": kubetest.Object{"app": "web"}}, "template": kubetest.Object{"metadata": kubetest.Object{"labels": labels}, "spec": spec}}}))
			seen[compareWorkload(ctx, t, policy, o)]++
		}
	})
	unregister(ctx, t)
}
