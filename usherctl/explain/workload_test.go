package explain

import (
	"testing"

	"usher.dev/usher/cluster/reader"
)

// TestMissing: how many pods a workload lacks.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       int
	}{
		{"Deployment", `{"spec":{"replicas":3},"status":{"replicas":1}}`, 2},
		{"Deployment", `{"spec":{},"status":{}}`, 1},
		{"ReplicaSet", `{"spec":{"replicas":0}}`, 0},
		{"ReplicaSet", `{"spec":{"replicas":1},"status":{"replicas":2}}`, 0},
		{"DaemonSet", `{"status":{"desiredNumberScheduled":4,"currentNumberScheduled":1}}`, 3},
		{"Job", `{"status":{"active":1}}`, 0},
		{"Job", `{"spec":{"parallelism":3},"status":{"active":1}}`, 2},
		{"Job", `{"spec":{"parallelism":3,"completions":4},"status":{"active":1,"succeeded":3}}`, 0},
		{"Job", `{"spec":{"parallelism":3},"status":{"succeeded":1}}`, 0},
		{"Job", `{"spec":{"completions":3},"status":{"conditions":[{"type":"Failed","status":"True"}]}}`, 0},
		{"Job", `{"status":{}}`, 1},
	} {
		o, err := newObject(reader.NewKind("", "v1", c.kind, ""), []byte(c.text))
		if got := o.missing(); err != nil || got != c.want {
			t.Errorf("%s %s: %d, want %d (%v)", c.kind, c.text, got, c.want, err)
		}
	}
}

// TestOutdated: how many pods of the current template a workload lacks.
func TestOutdated(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       int
	}{
		{"Deployment", `{"spec":{"replicas":3},"status":{"replicas":3,"updatedReplicas":1}}`, 2},
		{"StatefulSet", `{"spec":{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":2}}},"status":{"replicas":3}}`, 1},
		{"StatefulSet", `{"spec":{"replicas":3,"updateStrategy":{"type":"OnDelete"}},"status":{"replicas":3}}`, 0},
		{"DaemonSet", `{"status":{"desiredNumberScheduled":4,"currentNumberScheduled":4,"updatedNumberScheduled":3}}`, 1},
		{"Job", `{"status":{}}`, 0},
	} {
		o, err := newObject(reader.NewKind("", "v1", c.kind, ""), []byte(c.text))
		if got := o.outdated(); err != nil || got != c.want {
			t.Errorf("%s %s: %d, want %d (%v)", c.kind, c.text, got, c.want, err)
		}
	}
}

// TestOrdered: what pods of a StatefulSet wait for that are not created.
func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		policy   string
		complete bool
		want     string
	}{{"OrderedReady", false, "pods-wait"}, {"", false, "pods-wait"}, {"OrderedReady", true, "no-failure-found"}, {"Parallel", false, "no-failure-found"}} {
		o, err := newObject(reader.NewKind("apps", "v1", "StatefulSet", ""), []byte(`{"spec":{"replicas":3,"podManagementPolicy":"`+c.policy+
			`"},"status":{"replicas":1}}`))
		if found := (workload{object: o}).lacks(c.complete); err != nil || len(found) != 1 || found[0].ID != c.want {
			t.Errorf("%+v: %+v %v", c, found, err)
		}
	}
}

func TestWithoutSuffix(t *testing.T) {
	for in, want := range map[string]string{"web-5d8c7-4wl7r": "web-5d8c7", "web-0": "web", "web": "", "": ""} {
		if got := withoutSuffix(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
