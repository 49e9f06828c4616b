package colocation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTenantKillsNoReplica: a user with rights on pods in one namespace creates pods of 5,000 + 5,000 containers that
// request GPUs, four at a time. They used to kill a replica with the memory of deploy/base; now they are refused, and
// pods of other users are still admitted.
func TestTenantKillsNoReplica(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `
apiVersion: v1
kind: Namespace
metadata: {name: crowded, labels: {colocated: "true"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: crowded}
rules: [{apiGroups: [""], resources: [pods], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: crowded}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]`)
	const pods = "/api/v1/namespaces/crowded/pods"
	cluster.DeleteAfter(t, pods+"/ordinary")
	pod, tenant := crowd(5000), cluster.User("tenant")
	var tenants sync.WaitGroup
	for range 4 {
		tenants.Go(func() {
			for range 3 {
				_, err := tenant.Create(ctx, pods, pod)
				wantTooMany(t, err)
			}
		})
	}
	if _, err := cluster.Admin().Create(ctx, pods, batchPod("ordinary")); err != nil {
		t.Errorf("an ordinary pod meanwhile: %v", err)
	}
	tenants.Wait()
	for _, replica := range usher.Replicas {
		if !replica.Process().Running() {
			t.Errorf("%s was killed", replica.Name)
		}
		if peak := peakMemory(t, replica.Process().Pid()); peak > 256<<20 {
			t.Errorf("%s took %d MiB, and has 256", replica.Name, peak>>20)
		}
	}
}

// wantTooMany fails the test unless usher refused the pod or was overloaded. t.Errorf may be called from any goroutine.
func wantTooMany(t *testing.T, err error) {
	if err == nil {
		t.Error("a pod of 10,000 containers was stored")
	} else if text := err.Error(); !strings.Contains(text, "Too many") && !strings.Contains(text, "too many") {
		t.Errorf("refused for another reason: %.300s", text)
	}
}

// crowd returns a pod of n containers and n init containers, each with a GPU.
func crowd(n int) string {
	list := func(name string) string {
		containers := make([]string, n)
		for i := range containers {
			containers[i] = fmt.Sprintf(`{"name":"%s%d","image":"a","resources":{"limits":{"koordinator.sh/gpu":"100"}}}`, name, i)
		}
		return strings.Join(containers, ",")
	}
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"crowd-","labels":{"batch":"true"}},"spec":{"containers":[` +
		list("c") + `],"initContainers":[` + list("i") + `]}}`
}

// peakMemory returns the peak resident memory of a process in bytes, or 0 without /proc.
func peakMemory(t *testing.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if amount, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.Atoi(strings.Fields(amount)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	return 0
}
