package colocation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/e2e/kubetest"
)

const ratioAnnotation = "node.koordinator.sh/resource-amplification-ratio"

const heartbeat = `{"status": {"capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "allocatable": {"cpu": "15900m", "memory": "62Gi", "pods": "110"}}}`

func newNode(ctx context.Context, t *testing.T, name, labels string) {
	t.Helper()
	_, err := cluster.Admin().Create(ctx, "/api/v1/nodes", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q, "labels": %s}}`, name, labels))
	if err != nil {
		t.Fatal(err)
	}
	cluster.DeleteAfter(t, "/api/v1/nodes/"+name)
}

// beat updates the status as a kubelet, and returns the stored allocatable CPU.
func beat(ctx context.Context, t *testing.T, node string) string {
	t.Helper()
	if _, err := cluster.Node(node).Patch(ctx, "/api/v1/nodes/"+node+"/status", kubetest.StrategicPatch, heartbeat); err != nil {
		t.Fatalf("a heartbeat was refused: %v", err)
	}
	stored, err := cluster.Admin().Get(ctx, "/api/v1/nodes/"+node)
	if err != nil {
		t.Fatal(err)
	}
	return stored.String("status", "allocatable", "cpu")
}

func annotate(ctx context.Context, node, ratio string) error {
	_, err := cluster.Kubectl(ctx, "annotate", "--overwrite", "node", node, ratioAnnotation+"="+ratio)
	return err
}

// TestRatioAnnotation: a ratio is raised, lowered and removed, and never compounds, whatever the kubelet sends in
// between.
func TestRatioAnnotation(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "amplified", `{}`)
	for _, c := range []struct{ ratio, want string }{
		{"", "15900m"}, {`{"cpu": 1.5}`, "23850m"}, {`{"cpu": 2}`, "31800m"}, {`{"cpu": 1.2}`, "19080m"}, {`{}`, "15900m"},
	} {
		if c.ratio != "" {
			if err := annotate(ctx, "amplified", c.ratio); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			if got := beat(ctx, t, "amplified"); got != c.want {
				t.Errorf("ratio %s, heartbeat %d: allocatable is %s, want %s", c.ratio, i, got, c.want)
			}
		}
	}
}

// TestRatioTakesEffectWithAnybodysWrite: the kubelet of an idle node writes every five minutes; a write by another
// client is enough.
func TestRatioTakesEffectWithAnybodysWrite(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "idle", `{}`)
	if got := beat(ctx, t, "idle"); got != "15900m" {
		t.Fatalf("before: allocatable is %s", got)
	}
	const path = "/api/v1/nodes/idle"
	attachDetach := cluster.Admin().Impersonate("system:serviceaccount:kube-system:attachdetach-controller",
		"system:serviceaccounts", "system:serviceaccounts:kube-system")
	for i, c := range []struct{ ratio, cpu, memory string }{
		{`{"cpu": 2}`, "31800m", "62Gi"}, {`{"cpu": 3, "memory": 1.01}`, "47700m", "67237713018"}, {`{"cpu": 1.2}`, "19080m", "62Gi"}, {`{}`, "15900m", "62Gi"},
	} {
		if err := annotate(ctx, "idle", c.ratio); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			volume := fmt.Sprintf(`{"status": {"volumesAttached": [{"name": "volume-%d", "devicePath": ""}]}}`, i)
			if _, err := attachDetach.Patch(ctx, path+"/status", kubetest.StrategicPatch, volume); err != nil {
				t.Fatal(err)
			}
			checkAllocatable(ctx, t, "idle", c.cpu, c.memory)
		}
	}
}

// TestMeasuredEqualsAmplified: the kubelet's patch omits a number that equals the stored one, although it is measured.
func TestMeasuredEqualsAmplified(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "equal", `{}`)
	if err := annotate(ctx, "equal", `{"cpu": 2, "memory": 1.2}`); err != nil {
		t.Fatal(err)
	}
	kubelet := func(numbers string) {
		t.Helper()
		_, err := cluster.Node("equal").Patch(ctx, "/api/v1/nodes/equal/status", kubetest.StrategicPatch, `{"status": `+numbers+`}`)
		if err != nil {
			t.Fatalf("a heartbeat was refused: %v", err)
		}
	}
	for range 2 {
		kubelet(`{"capacity": {"cpu": "16", "memory": "64Gi"}, "allocatable": {"cpu": "15900m", "memory": "50Gi"}}`)
		checkAllocatable(ctx, t, "equal", "31800m", "60Gi")
	}
	kubelet(`{"allocatable": {"cpu": "15500m"}}`) // less is reserved of memory: 60Gi, as it is stored
	checkAllocatable(ctx, t, "equal", "31", "72Gi")
	kubelet(`{"allocatable": {"cpu": "15500m", "memory": "60Gi"}}`)
	checkAllocatable(ctx, t, "equal", "31", "72Gi")
	if err := annotate(ctx, "equal", `{"cpu": 2}`); err != nil {
		t.Fatal(err)
	}
	kubelet(`{"capacity": {"memory": "80Gi"}, "allocatable": {"cpu": "15400m"}}`) // 72Gi, as it is stored, and the ratio goes
	checkAllocatable(ctx, t, "equal", "30800m", "72Gi")
}

func checkAllocatable(ctx context.Context, t *testing.T, node, cpu, memory string) {
	t.Helper()
	stored, err := cluster.Admin().Get(ctx, "/api/v1/nodes/"+node)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cpu": cpu, "memory": memory} {
		got, wanted := resource.MustParse(stored.String("status", "allocatable", name)), resource.MustParse(want)
		if got.Cmp(wanted) != 0 {
			t.Errorf("allocatable %s is %s, want %s; %s", name, &got, want, stored.String("metadata", "annotations", "usher.dev/amplified"))
		}
	}
}

// TestBadRatiosAreRefused: kubectl gets a refusal, and a change by the kubelet is reverted.
func TestBadRatiosAreRefused(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "bounded", `{}`)
	for _, bad := range []string{`{"cpu": 0.5}`, `{"cpu": "2"}`, `{"eni": 2}`, `{"cpu"`} {
		err := annotate(ctx, "bounded", bad)
		if err == nil {
			t.Errorf("%s was stored", bad)
		}
	}
	const status = "/api/v1/nodes/bounded/status"
	own := fmt.Sprintf(`{"metadata": {"annotations": {%q: "{\"cpu\": 9}"}}, "status": {"allocatable": {"cpu": "15900m"}, "capacity": {"cpu": "16"}}}`, ratioAnnotation)
	if _, err := cluster.Node("bounded").Patch(ctx, status, kubetest.StrategicPatch, own); err != nil {
		t.Fatalf("the heartbeat was refused: %v", err)
	}
	stored, err := cluster.Admin().Get(ctx, "/api/v1/nodes/bounded")
	if err != nil {
		t.Fatal(err)
	}
	if stored.String("status", "allocatable", "cpu") != "15900m" || stored.String("metadata", "annotations", ratioAnnotation) != "" {
		t.Errorf("a kubelet amplified its own node: %v", stored.At("status", "allocatable"))
	}
}

func sloConfigMap(nodeConfigs string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
		"data": {"colocation-config": %q}}`, `{"enable": true, "nodeConfigs": [`+nodeConfigs+`]}`)
}

// TestSLOConfiguration: ranges, overlaps and conflicts with two real nodes; other ConfigMaps are not checked.
func TestSLOConfiguration(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}`)
	newNode(ctx, t, "slo-1", `{"pool": "a"}`)
	newNode(ctx, t, "slo-2", `{"pool": "a", "disk": "ssd"}`)
	const path = "/api/v1/namespaces/koordinator-system/configmaps"
	cluster.DeleteAfter(t, path+"/slo-controller-config")
	create := func(nodeConfigs string) error {
		_, err := cluster.Admin().Create(ctx, path, sloConfigMap(nodeConfigs))
		return err
	}
	kubetest.RefusedWith(t, create(`{"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuReclaimThresholdPercent": -1}`), "cpuReclaimThresholdPercent", "-1")
	const one = `{"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuReclaimThresholdPercent": 60}`
	const ssd = `{"name": "ssd", "nodeSelector": {"matchLabels": {"disk": "ssd"}}, "cpuReclaimThresholdPercent": 70}`
	err := kubetest.Eventually(ctx, func(ctx context.Context) error { // until both replicas have seen the nodes
		for range 4 {
			_, err := cluster.Admin().Create(ctx, path+"?dryRun=All", sloConfigMap(one+","+ssd))
			if err == nil {
				return fmt.Errorf("two entries for node slo-2 were let in")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, create(one+","+ssd), "slo-2")
	if err := create(one); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Admin().Update(ctx, path+"/slo-controller-config", sloConfigMap(one+","+`{"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, "cpuReclaimThresholdPercent": 50}`)); err != nil {
		t.Errorf("an update without overlap: %v", err)
	}
	if _, err := cluster.Admin().Create(ctx, path, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "another"}, "data": {"colocation-config": "{"}}`); err != nil {
		t.Errorf("another ConfigMap: %v", err)
	}
	cluster.DeleteAfter(t, path+"/another")
}
