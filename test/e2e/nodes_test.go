package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/e2e/kubetest"
)

// amplified is the annotation in which usher records what the kubelet measured.
const amplified = "usher.dev/amplified"

func nodePath(name string) string { return "/api/v1/nodes/" + name }

// newNode creates a node that opts in. Nodes are not amplified at their creation, only by status updates.
func newNode(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	cluster.DeleteAfter(t, nodePath(name))
	if _, err := cluster.Admin().Create(ctx, "/api/v1/nodes", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node",
		"metadata": {"name": %q, "labels": {%q: "enabled"}}}`, name, optIn)); err != nil {
		t.Fatal(err)
	}
}

// size is a node's CPU: allocatable, capacity, and the allocatable that usher recorded.
type size struct{ allocatable, capacity, raw string }

func (s size) String() string {
	return fmt.Sprintf("%s of %s, remembered %q", s.allocatable, s.capacity, s.raw)
}

func sizeOf(node kubetest.Object) size {
	var memory map[string]struct{ Raw map[string]string }
	_ = json.Unmarshal([]byte(node.String("metadata", "annotations", amplified)), &memory) // no annotation: nothing recorded
	return size{node.String("status", "allocatable", "cpu"), node.String("status", "capacity", "cpu"),
		memory["cpu"].Raw["allocatable"]}
}

func checkSize(t *testing.T, node kubetest.Object, want size) {
	t.Helper()
	if got := sizeOf(node); got != want {
		t.Errorf("the node shows %s\nwant %s", got, want)
	}
}

// kubelet writes its node's status as a kubelet does: its measurements, as a strategic merge patch against the object
// that it last read (k8s.io/kubernetes/pkg/kubelet, tryUpdateNodeStatus).
type kubelet struct {
	name  string
	cpu   string // allocatable, as measured
	cores string
	seen  *corev1.Node // the node that it read last; nil: it reads again
}

// read updates the cache, as an informer does.
func (k *kubelet) read(ctx context.Context) error {
	r, err := cluster.Node(k.name).Do(ctx, "GET", nodePath(k.name), "", nil)
	if err != nil {
		return err
	}
	k.seen = &corev1.Node{}
	return json.Unmarshal(r.Body, k.seen)
}

func (k *kubelet) measured() corev1.NodeStatus {
	return corev1.NodeStatus{
		Capacity: corev1.ResourceList{
			"cpu": resource.MustParse(k.cores), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")},
		Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse(k.cpu), "memory": resource.MustParse("62Gi"), "pods": resource.MustParse("110")},
		Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}},
	}
}

func (k *kubelet) heartbeat(ctx context.Context) (kubetest.Object, error) {
	if k.seen == nil {
		if err := k.read(ctx); err != nil {
			return nil, err
		}
	}
	now := k.seen.DeepCopy()
	measured := k.measured()
	now.Status.Capacity, now.Status.Allocatable, now.Status.Conditions = measured.Capacity, measured.Allocatable, measured.Conditions
	was, err := json.Marshal(k.seen)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(was, is, corev1.Node{})
	if err != nil {
		return nil, err
	}
	return cluster.Node(k.name).Patch(ctx, nodePath(k.name)+"/status", kubetest.StrategicPatch, patch)
}

// register creates a node with its status, like a kubelet that starts for the first time.
func register(ctx context.Context, t *testing.T, name string) *kubelet {
	t.Helper()
	cluster.DeleteAfter(t, nodePath(name))
	k := &kubelet{name: name, cpu: "15900m", cores: "16"}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{optIn: "enabled"}}, Status: k.measured(),
	}
	if _, err := cluster.Node(name).Create(ctx, "/api/v1/nodes", node); err != nil {
		t.Fatal(err)
	}
	if err := k.read(ctx); err != nil {
		t.Fatal(err)
	}
	return k
}

// controller returns a client for one of the control plane's controllers, with its default rights.
func controller(name string) *kubetest.Client {
	return cluster.Admin().Impersonate("system:serviceaccount:kube-system:"+name,
		"system:serviceaccounts", "system:serviceaccounts:kube-system")
}

// foreignWrites send back what is stored, including amplified numbers, and change something else.
var foreignWrites = []func(ctx context.Context, node, mark string) (kubetest.Object, error){
	// The node lifecycle controller reads and replaces the whole status.
	func(ctx context.Context, node, mark string) (kubetest.Object, error) {
		object, err := controller("node-controller").Get(ctx, nodePath(node))
		if err != nil {
			return nil, err
		}
		status := object.At("status").(map[string]any)
		status["conditions"] = []any{map[string]any{"type": "Ready", "status": "Unknown", "reason": mark}}
		return controller("node-controller").Update(ctx, nodePath(node)+"/status", object)
	},
	// The attach-detach controller patches a list.
	func(ctx context.Context, node, mark string) (kubetest.Object, error) {
		return controller("attachdetach-controller").Patch(ctx, nodePath(node)+"/status", kubetest.StrategicPatch,
			`{"status": {"volumesAttached": [{"name": "`+mark+`", "devicePath": ""}]}}`)
	},
	// The node problem detector adds a condition.
	func(ctx context.Context, node, mark string) (kubetest.Object, error) {
		return cluster.Admin().Patch(ctx, nodePath(node)+"/status", kubetest.StrategicPatch,
			`{"status": {"conditions": [{"type": "KernelDeadlock", "status": "False", "reason": "`+mark+`"}]}}`)
	},
	// A script with a JSON merge patch: annotations come through nodes/status too.
	func(ctx context.Context, node, mark string) (kubetest.Object, error) {
		return cluster.Admin().Patch(ctx, nodePath(node)+"/status", kubetest.MergePatch,
			`{"metadata": {"annotations": {"example.com/mark": "`+mark+`"}}}`)
	},
}

// Two hundred heartbeats with fifty writes by other clients in between: the node always shows the same product.
func TestHeartbeatsAndForeignWritesNeverCompound(t *testing.T) {
	for _, capacity := range []struct {
		mode string
		want size
	}{
		{"keep", size{"31800m", "16", "15900m"}},
		{"raise", size{"31800m", "31900m", "15900m"}},
	} {
		t.Run(capacity.mode, func(t *testing.T) {
			ctx := cluster.Within(t, 2*time.Minute)
			setPolicy(ctx, t, edited(t, "capacity: keep", "capacity: "+capacity.mode))
			name := "busy-" + capacity.mode
			k := register(ctx, t, name)
			registered := k.seen
			random := kubetest.Random(t)
			for i, foreign := range order(random, 200, 50) {
				switch random.IntN(6) {
				case 0: // its cache is older than the amplification, so it omits its numbers; so does a kubelet after a restart
					k.seen = registered
				case 1: // the cache lags by some writes
				default:
					k.seen = nil
				}
				write := k.heartbeat
				if foreign {
					write = func(ctx context.Context) (kubetest.Object, error) {
						return foreignWrites[random.IntN(len(foreignWrites))](ctx, name, fmt.Sprint("write-", i))
					}
				}
				node, err := write(ctx)
				if err != nil {
					t.Fatalf("write %d: %v", i, err)
				}
				if checkSize(t, node, capacity.want); t.Failed() {
					t.Fatalf("since write %d, foreign: %t", i, foreign)
				}
			}
			checkSize(t, stored(ctx, t, nodePath(name)), capacity.want)
			checkNeverFailedOpen(t, "nodes", name)
		})
	}
}

// order shuffles heartbeats (false) and foreign writes (true). A heartbeat comes first; before it there is nothing to
// send back.
func order(random *rand.Rand, heartbeats, foreign int) []bool {
	writes := make([]bool, heartbeats+foreign)
	for i := range foreign {
		writes[i] = true
	}
	random.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
	for i, foreign := range writes {
		if !foreign {
			writes[0], writes[i] = writes[i], writes[0]
			break
		}
	}
	return writes
}

// checkNeverFailedOpen reads the audit log, because with failurePolicy Ignore a failure of usher is visible only there.
func checkNeverFailedOpen(t *testing.T, resource, name string) {
	t.Helper()
	events, err := cluster.Audit(func(e kubetest.AuditEvent) bool {
		return e.ObjectRef.Resource == resource && e.ObjectRef.Name == name
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 {
		t.Errorf("the audit log knows nothing of %s %s", resource, name)
	}
	for _, event := range events {
		if failure := failedOpen(event); failure != "" {
			t.Errorf("usher was passed over at %s %s: %s", event.Verb, event.RequestURI, failure)
		}
	}
}

func failedOpen(event kubetest.AuditEvent) string {
	for key, value := range event.Annotations {
		if strings.HasPrefix(key, "failed-open.") {
			return key + ": " + value
		}
	}
	return ""
}

// The hardware and the system reservation may change: then the new numbers are the originals.
func TestNodeThatChangesIsMeasuredAnew(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "growing")
	k := &kubelet{name: "growing"}
	for _, change := range []struct {
		cpu, cores string
		want       size
	}{
		{"15900m", "16", size{"31800m", "16", "15900m"}},
		{"15500m", "16", size{"31", "16", "15500m"}}, // more is reserved
		{"31900m", "32", size{"63800m", "32", "31900m"}},
		{"63800m", "64", size{"127600m", "64", "63800m"}}, // the measured number equals the former product
		{"15900m", "16", size{"31800m", "16", "15900m"}},
	} {
		k.cpu, k.cores, k.seen = change.cpu, change.cores, nil
		if _, err := k.heartbeat(ctx); err != nil {
			t.Fatal(err)
		}
		checkSize(t, stored(ctx, t, nodePath("growing")), change.want)
	}
}

// A new ratio takes effect with the next write by any client, and when the ratio is removed, the originals are
// restored.
func TestRatioChanges(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	newNode(ctx, t, "ratio")
	k := &kubelet{name: "ratio", cpu: "15900m", cores: "16"}
	pools := shipped(t)[strings.Index(shipped(t), "overcommit:"):strings.Index(shipped(t), "modes:")]
	for i, change := range []struct {
		name, old, new string
		foreign        bool
		cpu            size
		memory         string
	}{
		{"as shipped", "", "", false, size{"31800m", "16", "15900m"}, "62Gi"},
		{"up", `{cpu: "2"}`, `{cpu: "3"}`, false, size{"47700m", "16", "15900m"}, "62Gi"},
		{"down, by a foreign write", `{cpu: "2"}`, `{cpu: "1.5"}`, true, size{"23850m", "16", "15900m"}, "62Gi"},
		{"memory too", `{cpu: "2"}`, `{cpu: "2", memory: "1.5"}`, false, size{"31800m", "16", "15900m"}, "93Gi"},
		{"removed, by a foreign write", pools, "", true, size{"15900m", "16", ""}, "62Gi"},
		{"as shipped again", "", "", false, size{"31800m", "16", "15900m"}, "62Gi"},
		{"pool for other nodes", "selector: {}", "selector: {matchLabels: {pool: other}}", false, size{"15900m", "16", ""}, "62Gi"},
	} {
		t.Run(change.name, func(t *testing.T) {
			if err := usePolicy(ctx, edited(t, change.old, change.new)); err != nil {
				t.Fatal(err)
			}
			k.seen = nil
			write := k.heartbeat
			if change.foreign {
				write = func(ctx context.Context) (kubetest.Object, error) {
					return foreignWrites[0](ctx, "ratio", fmt.Sprint("write-", i))
				}
			}
			for range 3 { // one write is enough, and the result is stable
				if _, err := write(ctx); err != nil {
					t.Fatal(err)
				}
				node := stored(ctx, t, nodePath("ratio"))
				checkSize(t, node, change.cpu)
				if got := quantity(node.String("status", "allocatable", "memory")); got != quantity(change.memory) {
					t.Errorf("allocatable memory is %s, want %s", got, change.memory)
				}
			}
			if left := sizeOf(stored(ctx, t, nodePath("ratio"))).raw; left != change.cpu.raw {
				t.Errorf("usher remembers %q", left)
			}
		})
	}
	setPolicy(ctx, t, shipped(t))
}

func quantity(text string) string {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return err.Error()
	}
	return q.AsDec().String()
}

// Every way to write a status, each on its own node.
func TestNodeIsAmplifiedWhateverTheWay(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const numbers = `{"capacity": {"cpu": "16", "memory": "64Gi"}, "allocatable": {"cpu": "15900m", "memory": "62Gi"}}`
	byKubelet := func(kind, query, body string) func(string, bool) error {
		return func(name string, dryRun bool) error {
			path := nodePath(name) + "/status?fieldManager=kubelet" + query + dry("&dryRun=All", dryRun)
			_, err := cluster.Node(name).Patch(ctx, path, kind, strings.ReplaceAll(body, "NAME", name))
			return err
		}
	}
	command := func(args ...string) func(string, bool) error {
		return func(name string, dryRun bool) error {
			object := kubetest.Decode(`{"apiVersion": "v1", "kind": "Node", "status": ` + numbers + `}`)
			object["metadata"] = map[string]any{"name": name, "labels": map[string]any{optIn: "enabled"}}
			_, err := kubectl(ctx, object, dryRun, strings.Split(strings.ReplaceAll(strings.Join(args, "\n"), "NAME", name), "\n")...)
			return err
		}
	}
	for i, way := range []struct {
		name  string
		write func(node string, dryRun bool) error
	}{
		{"strategic merge patch", byKubelet(kubetest.StrategicPatch, "", `{"status": `+numbers+`}`)},
		{"merge patch", byKubelet(kubetest.MergePatch, "", `{"status": `+numbers+`}`)},
		{"JSON patch", byKubelet(kubetest.JSONPatch, "", `[{"op": "replace", "path": "/status", "value": `+numbers+`}]`)},
		{"server-side apply", byKubelet(kubetest.ApplyPatch, "&force=true",
			`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "NAME"}, "status": `+numbers+`}`)},
		{"update", func(name string, dryRun bool) error {
			node := stored(ctx, t, nodePath(name))
			node["status"] = kubetest.Decode(numbers)
			_, err := cluster.Node(name).Update(ctx, nodePath(name)+"/status"+dry("?dryRun=All", dryRun), node)
			return err
		}},
		{"kubectl patch", command("patch", "node", "NAME", "--subresource=status", "--type=merge", "-p", `{"status": `+numbers+`}`)},
		{"kubectl replace", command("replace", "--subresource=status", "-f", "-")},
		{"kubectl apply --server-side", command("apply", "--server-side", "--force-conflicts", "--subresource=status", "-f", "-")},
	} {
		t.Run(way.name, func(t *testing.T) {
			name := fmt.Sprint("way-", i)
			newNode(ctx, t, name)
			// Only the kubelet can set the first original; later an admin may set another one.
			if _, err := (&kubelet{name: name, cpu: "12", cores: "16"}).heartbeat(ctx); err != nil {
				t.Fatal(err)
			}
			if err := way.write(name, true); err != nil {
				t.Fatal(err)
			}
			checkSize(t, stored(ctx, t, nodePath(name)), size{"24", "16", "12"})
			for range 2 {
				if err := way.write(name, false); err != nil {
					t.Fatal(err)
				}
				checkSize(t, stored(ctx, t, nodePath(name)), size{"31800m", "16", "15900m"})
			}
		})
	}
}

// usher is not called for a node's other fields, for its creation, and for nodes without the label.
func TestNodesThatUsherLeavesAlone(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const status = `"status": {"capacity": {"cpu": "16"}, "allocatable": {"cpu": "15900m"}}`
	raw := size{"15900m", "16", ""}
	for name, label := range map[string]string{"created": "enabled", "not-asked": "disabled"} {
		cluster.DeleteAfter(t, nodePath(name))
		if _, err := cluster.Admin().Create(ctx, "/api/v1/nodes", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node",
			"metadata": {"name": %q, "labels": {%q: %q}}, %s}`, name, optIn, label, status)); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Kubectl(ctx, "label", "node", name, "example.com/pool=a"); err != nil {
			t.Fatal(err)
		}
		checkSize(t, stored(ctx, t, nodePath(name)), raw)
	}
	_, err := cluster.Node("not-asked").Patch(ctx, nodePath("not-asked")+"/status", kubetest.StrategicPatch, "{"+status+"}")
	if err != nil {
		t.Fatal(err)
	}
	checkSize(t, stored(ctx, t, nodePath("not-asked")), raw)
}

// The heartbeats above are realistic only if kubelets are restricted to their own node, as in a cluster.
func TestKubeletsAreHeldToTheirNode(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	newNode(ctx, t, "mine")
	newNode(ctx, t, "other")
	_, err := cluster.Node("mine").Patch(ctx, nodePath("other")+"/status", kubetest.StrategicPatch,
		`{"status": {"phase": "Running"}}`)
	if code(err) != 403 {
		t.Errorf("a kubelet may write another's status: %v", err)
	}
	_, err = cluster.Node("mine").Patch(ctx, nodePath("mine")+"/status", kubetest.StrategicPatch,
		`{"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}`)
	checkSays(t, err, "403 Forbidden", "is not allowed to modify labels")
	if _, err := controller("attachdetach-controller").Delete(ctx, nodePath("mine")); code(err) != 403 {
		t.Errorf("RBAC lets the attach-detach controller delete nodes: %v", err)
	}
}
