package colocation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/e2e/kubetest"
)

// amountsCluster has what the plug-ins Priority and RuntimeClass read, and a profile for each class.
const amountsCluster = `
apiVersion: v1
kind: List
items:
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: koord-batch}, value: 5000, preemptionPolicy: PreemptLowerPriority}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: amounts-mid}, value: 7000}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: amounts-prod}, value: 9000, preemptionPolicy: Never}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, overhead: {podFixed: {cpu: 250m, memory: 160Mi}}, scheduling: {nodeSelector: {kata: "yes"}}}
- {apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: amounts-batch}, spec: {selector: {matchLabels: {amounts: batch}}, qosClass: BE, priorityClassName: koord-batch}}
- {apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: amounts-mid}, spec: {selector: {matchLabels: {amounts: mid}}, qosClass: LS, priorityClassName: amounts-mid}}
- {apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: amounts-prod}, spec: {selector: {matchLabels: {amounts: prod}}, qosClass: LS, priorityClassName: amounts-prod}}
`

// amountsSpace is a namespace with what bounds the amounts of its pods.
type amountsSpace struct {
	name, limits    string // the items of its LimitRange
	bounds, quota   bool   // the LimitRange demands cpu and memory; there is a ResourceQuota for them
	defaults, batch bool   // the LimitRange gives cpu and memory; only batch pods are sent
}

const (
	amountDefaults = "{type: Container, default: {cpu: 8, memory: 8Gi}, defaultRequest: {cpu: 100m, memory: 100Mi}}"
	amountsMax     = "{type: Container, max: {cpu: 16, memory: 16Gi}}"
)

var amountSpaces = []amountsSpace{
	{name: "amounts-plain"},
	{name: "amounts-defaults", limits: amountDefaults, defaults: true},
	{name: "amounts-max", limits: amountsMax, bounds: true},
	{name: "amounts-min", limits: "{type: Container, min: {cpu: 10m}}", bounds: true},
	{name: "amounts-pod", limits: amountDefaults + ", {type: Pod, max: {memory: 60Gi}}", bounds: true},
	{name: "amounts-ratio", limits: amountDefaults + ", {type: Pod, maxLimitRequestRatio: {cpu: 1000}}", bounds: true},
	{name: "amounts-batch", limits: "{type: Container, max: {kubernetes.io/batch-cpu: 16k, kubernetes.io/batch-memory: 16Gi}}", batch: true},
	{name: "amounts-both", limits: strings.Replace(amountDefaults, "}}", "}, max: {kubernetes.io/batch-cpu: 16k, kubernetes.io/batch-memory: 16Gi}}", 1), batch: true, defaults: true},
	{name: "amounts-quota", quota: true},
	{name: "amounts-quota-defaults", limits: amountDefaults, quota: true, defaults: true},
}

// create applies the namespace with its LimitRange and its ResourceQuota, whose status a controller would write.
func (s amountsSpace) create(ctx context.Context, t *testing.T) {
	t.Helper()
	cluster.MustApply(ctx, t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.name+", labels: {admission-webhook: enabled}}}")
	if s.limits != "" {
		cluster.MustApply(ctx, t, "{apiVersion: v1, kind: LimitRange, metadata: {name: lr, namespace: "+s.name+"}, spec: {limits: ["+s.limits+"]}}")
	}
	if s.quota {
		cluster.MustApply(ctx, t, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: "+s.name+"}, spec: {hard: {requests.cpu: 10k, requests.memory: 10Ti}}}")
		_, err := cluster.Admin().Patch(ctx, "/api/v1/namespaces/"+s.name+"/resourcequotas/q/status", kubetest.MergePatch,
			`{"status": {"hard": {"requests.cpu": "10k", "requests.memory": "10Ti"}, "used": {"requests.cpu": "0", "requests.memory": "0"}}}`)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// randomAmounts returns a pod that sends amounts in requests, limits or both, under cpu and memory or under the names of its class.
func randomAmounts(r *rand.Rand, name, kind string) kubetest.Object {
	container := func(name string) kubetest.Object {
		lists := map[string]kubetest.Object{"requests": {}, "limits": {}}
		for _, native := range []string{"cpu", "memory"} {
			least, own := 1+r.IntN(4), r.IntN(6)
			for list, amount := range map[string]int{"requests": least, "limits": least + r.IntN(3)} {
				if own == 3 && list == "limits" {
					amount = 8 // as amountDefaults
				}
				unit := map[string]string{"memory": "Gi"}[native]
				as := native
				if own == 0 && translated(kind) || own == 1 && translated(kind) && list == "requests" || own == 2 && translated(kind) && list == "limits" {
					if as = "kubernetes.io/" + kind + "-" + native; native == "cpu" {
						unit = "k"
					}
				}
				lists[list][as] = fmt.Sprint(amount, unit)
			}
			if own == 2 && translated(kind) {
				delete(lists["requests"], native) // which LimitRanges give as well
			}
			for _, list := range []string{"requests", "limits"} { // in a fixed order, for the seed
				if r.IntN(3) == 0 {
					for name := range lists[list] {
						if strings.Contains(name, native) {
							delete(lists[list], name)
						}
					}
				}
			}
		}
		return kubetest.Object{"name": name, "image": "registry.k8s.io/pause:3.10", "resources": kubetest.Object{"requests": lists["requests"], "limits": lists["limits"]}}
	}
	spec := kubetest.Object{"initContainers": []any{container("init")}, "containers": []any{container("a")}}
	if r.IntN(2) == 0 {
		spec["containers"] = []any{container("a"), container("b")}
	}
	if r.IntN(3) == 0 {
		spec["runtimeClassName"] = "kata"
	}
	if r.IntN(4) == 0 {
		spec["priorityClassName"] = "amounts-prod"
	}
	pod := kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name, "labels": kubetest.Object{"amounts": kind}}, "spec": spec}
	return kubetest.Decode(kubetest.Encode(pod)) // so that it can be read as what is stored
}

func translated(kind string) bool { return kind == "batch" || kind == "mid" }

// judge returns what is wrong with the answer to the creation of a pod, with its stored state.
func (s amountsSpace) judge(sent kubetest.Object, answer *kubetest.Response) error {
	kind := sent.String("metadata", "labels", "amounts")
	says := func(texts ...string) error {
		refusal := answer.Err()
		for _, text := range texts {
			if refusal == nil || !strings.Contains(refusal.Error(), text) {
				return fmt.Errorf("does not say %q: %w", text, errors.Join(refusal))
			}
		}
		return nil
	}
	native := !translated(kind) && (s.defaults || !slices.ContainsFunc(containersOf(sent), lacksRequest))
	switch {
	case s.bounds && translated(kind):
		return says("colocation-profile", "LimitRange lr has a ", "; bound that in the LimitRange, or use another namespace")
	case s.quota && !native:
		return says("failed quota: q: must specify requests.")
	case answer.Err() != nil:
		return answer.Err()
	}
	stored, err := answer.Object()
	if err != nil {
		return err
	}
	for i, c := range containersOf(sent) {
		if err := keeps(c, containersOf(stored)[i], kind); err != nil {
			return err
		}
	}
	warnings := strings.Join(answer.Warnings, "\n")
	if strings.Contains(warnings, "=100m") || strings.Contains(warnings, "=100Mi") {
		return fmt.Errorf("a warning of what a LimitRange gave: %q", warnings)
	}
	kata := stored.String("spec", "runtimeClassName") == "kata"
	if overhead := kubetest.Encode(stored.At("spec", "overhead")); kata != (overhead == `{"cpu":"250m","memory":"160Mi"}`) {
		return fmt.Errorf("overhead %s", overhead)
	}
	if want := map[string]float64{"batch": 5000, "mid": 7000, "prod": 9000}[kind]; want > 0 && stored.At("spec", "priority") != want {
		return fmt.Errorf("priority %v", stored.At("spec", "priority"))
	}
	return nil
}

func containersOf(pod kubetest.Object) []kubetest.Object {
	return slices.Concat(pod.List("spec", "initContainers"), pod.List("spec", "containers"))
}

// lacksRequest reports whether a container has no request of cpu or memory, not even by its limit.
func lacksRequest(c kubetest.Object) bool {
	for _, name := range []string{"cpu", "memory"} {
		if c.At("resources", "requests", name) == nil && c.At("resources", "limits", name) == nil {
			return true
		}
	}
	return false
}

// keeps returns an amount that a container was sent with and does not have under the name of its class, or that it has too many.
func keeps(sent, stored kubetest.Object, kind string) error {
	for _, list := range []string{"requests", "limits"} {
		amounts, _ := sent.At("resources", list).(map[string]any)
		for name, amount := range amounts {
			as, want := name, resource.MustParse(fmt.Sprint(amount))
			if translated(kind) && !strings.Contains(name, "/") {
				if as = "kubernetes.io/" + kind + "-" + name; name == "cpu" {
					want = *resource.NewQuantity(want.MilliValue(), resource.DecimalSI)
				}
			}
			got, err := resource.ParseQuantity(fmt.Sprint(stored.At("resources", list, as)))
			if err != nil || got.Cmp(want) != 0 {
				return fmt.Errorf("container %s was sent with %s %s=%v and has %v", sent["name"], list, name, amount, stored["resources"])
			}
		}
		if translated(kind) && (stored.At("resources", list, "cpu") != nil || stored.At("resources", list, "memory") != nil) {
			return fmt.Errorf("container %s has cpu or memory of its own: %v", sent["name"], stored["resources"])
		}
	}
	return nil
}

// TestAmounts: whatever LimitRanges, quotas, RuntimeClasses and PriorityClasses do between the calls of usher, what is stored has the
// amounts that were sent, under the names of the pod's class; or the pod is refused with the way out.
func TestAmounts(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	random := kubetest.Random(t)
	cluster.MustApply(ctx, t, amountsCluster)
	cluster.DeleteAfter(t, profiles+"/amounts-batch", profiles+"/amounts-mid", profiles+"/amounts-prod")
	send := func(ctx context.Context, s amountsSpace, pod kubetest.Object, query string) error {
		answer, err := cluster.Admin().Do(ctx, http.MethodPost, podsOf(s.name)+query, "application/json", pod)
		if err != nil {
			return err
		}
		if err := s.judge(pod, answer); err != nil {
			return fmt.Errorf("%s: %w\nsent     %s\nanswered %s\nwarnings %q", s.name, err, kubetest.Encode(pod), answer.Body, answer.Warnings)
		}
		return nil
	}
	for _, s := range amountSpaces {
		s.create(ctx, t)
		probe := rand.New(rand.NewPCG(1, 1))
		err := kubetest.Eventually(ctx, func(ctx context.Context) error { // every replica and the plug-ins have seen all of it
			for range 6 {
				if err := send(ctx, s, randomAmounts(probe, "probe", "batch"), "?dryRun=All"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 300 {
		s, kind := amountSpaces[random.IntN(len(amountSpaces))], []string{"batch", "batch", "mid", "prod", "none"}[random.IntN(5)]
		if s.batch {
			kind = "batch"
		}
		name := fmt.Sprint("sent-", n)
		if err := send(ctx, s, randomAmounts(random, name, kind), ""); err != nil {
			t.Fatal(err)
		}
		_, _ = cluster.Admin().Delete(ctx, podsOf(s.name)+"/"+name)
	}
}
