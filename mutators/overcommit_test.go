package mutators

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/config"
)

// The walk-through's node in both modes, and what becomes of it whoever writes.
func TestNeverCompounds(t *testing.T) {
	for _, mode := range []struct {
		capacity config.Capacity
		x2, x3   string
	}{
		{config.Raise, "31800m/31900m", "47700m/47800m"},
		{config.Keep, "31800m/16", "47700m/16"},
	} {
		t.Run(string(mode.capacity), func(t *testing.T) {
			f := newFleet(t, mode.capacity, "2", Nodes)
			f.post(kubelet, "cpu:15900m/16", "memory:60Gi/64Gi")
			f.want("kubelet posts raw", "cpu", mode.x2)
			f.want("kubelet posts raw", "memory", "60Gi/64Gi")
			for range 3 {
				f.post(kubelet, "cpu:15900m/16", "memory:60Gi/64Gi")
				f.echo(controller)
				f.echo(kubelet) // its patch without allocatable
			}
			f.want("echoes", "cpu", mode.x2)

			f.ratios(mode.capacity, map[string]string{"cpu": "3"})
			f.echo(controller)
			f.want("ratio up", "cpu", mode.x3)
			f.ratios(mode.capacity, map[string]string{"cpu": "2"})
			f.echo(kubelet)
			f.want("ratio down", "cpu", mode.x2)

			f.policy = nil
			f.echo(controller)
			f.want("policy removed", "cpu", "15900m/16")
			if f.annotation() != "" {
				t.Fatalf("memory left behind: %s", f.annotation())
			}
		})
	}
}

func TestOthersChangeOneResource(t *testing.T) {
	for capacity, cpu := range map[config.Capacity]string{config.Raise: "8/8100m", config.Keep: "8/4100m"} {
		f := newFleet(t, capacity, "2", Nodes)
		f.ratios(capacity, map[string]string{"cpu": "2", "memory": "1.5"})
		f.post(kubelet, "cpu:4/4100m", "memory:8Gi/8Gi")
		f.post(controller, "memory:6Gi/")
		f.want("memory changed by another", "cpu", cpu)
		f.want("memory changed by another", "memory", map[config.Capacity]string{config.Raise: "9Gi/11Gi", config.Keep: "9Gi/8Gi"}[capacity])
		f.post(kubelet, "cpu:4/4100m", "memory:8Gi/8Gi")
		f.want("kubelet again", "memory", map[config.Capacity]string{config.Raise: "12Gi/12Gi", config.Keep: "12Gi/8Gi"}[capacity])
		f.ratios(capacity, map[string]string{"memory": "1.5"})
		f.echo(controller)
		f.want("cpu dropped from the policy", "cpu", "4/4100m")
		f.want("cpu dropped from the policy", "memory", map[config.Capacity]string{config.Raise: "12Gi/12Gi", config.Keep: "12Gi/8Gi"}[capacity])
	}
}

func TestWithoutMemoryOnlyTheKubeletTeaches(t *testing.T) {
	for name, annotation := range map[string]string{
		"deleted":       "",
		"damaged":       `{"cpu":{"raw":`,
		"not an object": `[1]`,
		"null":          `null`,
		"duplicate key": `{"cpu":{},"cpu":{}}`,
		"forged, huge":  `{"cpu":{"raw":{"allocatable":"1e5000000"},"result":{"allocatable":"31800m"},"ratio":"2","by":"x"}}`,
		"forged ratio":  `{"cpu":{"raw":{"allocatable":"1"},"result":{"allocatable":"31800m"},"ratio":"2","by":"x"}}`,
		"below 1":       `{"cpu":{"raw":{"allocatable":"63600m"},"result":{"allocatable":"31800m"},"ratio":"0.5","by":"x"}}`,
	} {
		for _, capacity := range []config.Capacity{config.Raise, config.Keep} {
			f := newFleet(t, capacity, "2", Nodes)
			f.post(kubelet, "cpu:15900m/16")
			amplified := f.show("cpu")
			f.annotate(annotation)
			f.echo(controller)
			f.want(name+": others pass unchanged", "cpu", amplified)
			if len(f.warnings) == 0 || len(f.troubles) == 0 {
				t.Errorf("%s: no warning", name)
			}
			if capacity == config.Keep { // with capacity raised nobody can tell: one kubelet sync, see docs/overcommit.md
				f.echo(kubelet)
				f.want(name+": allocatable above capacity is amplified already", "cpu", amplified)
			}
			f.post(kubelet, "cpu:15900m/16")
			f.want(name+": the kubelet teaches", "cpu", amplified)
			if len(f.warnings) > 0 {
				t.Errorf("%s: still warns: %v", name, f.warnings)
			}
		}
	}
}

// Another node's kubelet is another writer.
func TestAnotherNodesKubeletTeachesNothing(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	f.post("system:node:n2", "cpu:15900m/16")
	f.want("another node's kubelet", "cpu", "15900m/16")
	f.post(kubelet, "cpu:15900m/16")
	f.want("its own", "cpu", "31800m/16")
}

// What is missing or no quantity for a while does not end the memory.
func TestUnreadableAmountKeepsTheMemory(t *testing.T) {
	f := newFleet(t, config.Raise, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.post(kubelet, "cpu:nonsense/")
	f.want("nonsense", "cpu", "nonsense/31900m")
	if len(f.troubles) == 0 || f.annotation() == "" {
		t.Errorf("troubles %v, memory %q", f.troubles, f.annotation())
	}
	f.post(controller, "cpu:31800m/")
	f.echo(kubelet)
	f.want("it came back", "cpu", "31800m/31900m")
}

// A memory forged in the very request that echoes: the stored one explains the numbers, and wins.
func TestForgedInTheRequest(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	for _, forged := range []string{
		`{"cpu":{"raw":{"allocatable":"900000"},"result":{"allocatable":"1800000"},"ratio":"2","by":"x"}}`,
		`{"cpu":{"raw":{"allocatable":"1"},"result":{"allocatable":"2"},"ratio":"2","by":"x"}}`,
		`{"cpu":{"raw":{"allocatable":"3180m"},"result":{"allocatable":"31800m"},"ratio":"10","by":"x"}}`,
		``,
	} {
		f.write(controller, func(node object) {
			node["metadata"].(object)["annotations"] = object{amplifiedAnnotation: forged}
		})
		f.want("forged in the request", "cpu", "31800m/16")
		if !strings.Contains(f.annotation(), `"15900m"`) {
			t.Fatalf("the memory was not repaired: %s", f.annotation())
		}
	}
}

func TestForeignAmplifierAfterUs(t *testing.T) {
	for _, capacity := range []config.Capacity{config.Raise, config.Keep} {
		f := newFleet(t, capacity, "2", Nodes)
		foreign := func() { put(f.stored, "allocatable", "cpu", "63600m") }
		f.post(kubelet, "cpu:15900m/16")
		ours := f.show("cpu")
		for range 5 {
			foreign()
			f.echo(controller)
			f.want("another's echo of the foreign number", "cpu", ours)
			foreign()
			f.echo(kubelet)
			f.want("the kubelet's echo of the foreign number", "cpu", ours)
			foreign()
			f.post(kubelet, "cpu:15900m/16")
			f.want("the kubelet's own number", "cpu", ours)
		}
	}
}

func TestUsherWasAway(t *testing.T) {
	for _, capacity := range []config.Capacity{config.Raise, config.Keep} {
		f := newFleet(t, capacity, "2", Nodes)
		f.post(kubelet, "cpu:15900m/16")
		f.away = true
		f.post(kubelet, "cpu:17900m/18")
		f.want("away", "cpu", "17900m/18")
		f.away = false
		f.echo(kubelet) // unchanged for it, so not in its patch
		f.want("back", "cpu", map[config.Capacity]string{config.Raise: "35800m/35900m", config.Keep: "35800m/18"}[capacity])
	}
}

func TestHardwareGrowsToOurResult(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.post(kubelet, "cpu:/32") // allocatable is 31800m now, as stored: not in the kubelet's patch
	f.want("measured equals amplified", "cpu", "63600m/32")

	f = newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.post(kubelet, "cpu:/18") // a stale echo: 31800m does not fit 18 cores
	f.want("a stale echo", "cpu", "31800m/18")

	f = newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.away = true
	f.post(kubelet, "cpu:31800m/32")
	f.away = false
	f.echo(controller)
	f.echo(kubelet)
	f.want("measured equals amplified, while away: nobody can know", "cpu", "31800m/32")

	f = newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.post(controller, "cpu:/64") // not the kubelet's word
	f.echo(kubelet)
	f.want("another's capacity proves nothing", "cpu", "31800m/64")
}

// What a record on the node says must not make the node larger than it shows itself, whoever wrote the record.
func TestForgedRecordIsNotObeyed(t *testing.T) {
	for _, forged := range []string{
		`{"cpu":{"raw":{"allocatable":"1M"},"result":{"allocatable":"2M"},"ratio":"2","by":"x"}}`,
		`{"cpu":{"raw":{"allocatable":"1M","capacity":"16"},"result":{"allocatable":"2M"},"ratio":"2","by":"x"}}`,
	} {
		for _, writer := range []string{controller, kubelet} {
			f := newFleet(t, config.Keep, "2", Nodes)
			f.post(kubelet, "cpu:15900m/16")
			f.annotate(forged)
			f.echo(writer)
			f.want("forged "+forged, "cpu", "31800m/16")
			if len(f.troubles) == 0 {
				t.Error("nobody is told")
			}
			f.post(kubelet, "cpu:15900m/16")
			f.want("the kubelet mends it", "cpu", "31800m/16")
			f.annotate(forged)
			f.policy = nil
			f.echo(writer)
			f.want("the policy ends", "cpu", "31800m/16")
			f.post(kubelet, "cpu:15900m/16")
			f.want("the kubelet's own", "cpu", "15900m/16")
		}
	}
}

// usher was away while the machine shrank: another's echo must not bring back what it remembers of the larger one.
func TestShrunkWhileAway(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15/16")
	f.away = true
	f.post(kubelet, "cpu:7/8")
	f.away = false
	f.echo(controller)
	f.want("another's echo", "cpu", "7/8")
	f.echo(kubelet)
	f.want("the kubelet's", "cpu", "14/8")
}

// In keep mode a number above capacity is nobody's measurement, also when another sets it.
func TestAboveCapacityIsNoOriginal(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.post(controller, "cpu:62/")
	f.want("another's number above capacity", "cpu", "31800m/16")
}

// The result of a new ratio may be the number that stood there: the same request once more must not be taken for an echo of the
// old ratio.
func TestNewRatioGivesTheOldResult(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	f.post(kubelet, "cpu:15/16")
	f.ratios(config.Keep, map[string]string{"cpu": "3"})
	f.post(kubelet, "cpu:10/16") // × 3 is 30 again; write checks the reinvocation
	f.want("another ratio, the same result", "cpu", "30/16")
}

func TestCapacityModeChanges(t *testing.T) {
	f := newFleet(t, config.Raise, "2", Nodes)
	f.post(kubelet, "cpu:15900m/16")
	f.ratios(config.Keep, map[string]string{"cpu": "2"})
	f.echo(controller)
	f.want("raise to keep", "cpu", "31800m/16")
	f.ratios(config.Raise, map[string]string{"cpu": "2"})
	f.echo(controller)
	f.want("keep to raise", "cpu", "31800m/31900m")
}

func TestOddNodes(t *testing.T) {
	f := newFleet(t, config.Raise, "9999", Nodes)
	f.post(kubelet, "cpu:9E/9E")
	f.want("saturates", "cpu", "9E/9E")
	if len(f.troubles) == 0 {
		t.Error("saturation is not told")
	}
	for _, odd := range []string{"0", "-4", "nonsense", "1e9000000"} {
		f := newFleet(t, config.Raise, "2", Nodes)
		f.post(kubelet, "cpu:"+odd+"/16")
		f.want("not a size", "cpu", odd+"/16")
	}
	f = newFleet(t, config.Raise, "2", Nodes)
	f.post(kubelet, "cpu:4/")
	f.want("no capacity", "cpu", "8/<nil>")
	f = newFleet(t, config.Raise, "2", Nodes)
	f.write(kubelet, func(node object) { node["status"] = nil })
}

// TestRandomWriters lets chance choose who writes what. Whatever happens, allocatable never exceeds the largest original
// that the kubelet ever measured × ratio, and the kubelet's own post always brings the exact result.
func TestRandomWriters(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		capacity := []config.Capacity{config.Keep, config.Raise}[r.IntN(2)]
		f := newFleet(t, capacity, "2", Nodes)
		cores := int64(4 + r.IntN(60))
		largest := cores
		events := map[int]func(){
			0: func() { f.echo(controller) },
			1: func() { f.echo(kubelet) },
			2: func() { f.ratios(capacity, map[string]string{"cpu": []string{"2", "1.5", "1"}[r.IntN(3)]}) },
			3: func() { f.annotate([]string{"{", "{}", f.annotation()}[r.IntN(3)]); f.echo(controller) },
			4: func() { f.policy = nil },
			5: func() { cores = int64(4 + r.IntN(60)); largest = max(largest, cores) },
			6: func() { f.post(controller, fmt.Sprintf("memory:%dGi/", 1+r.IntN(9))) },
		}
		post := func() { f.post(kubelet, fmt.Sprintf("cpu:%dm/%d", cores*1000-100, cores), "memory:8Gi/8Gi") }
		for range 60 {
			events[r.IntN(len(events))]()
			if f.annotation() == "{" || f.annotation() == "{}" || f.annotation() == "" {
				post() // without memory and with capacity raised, the kubelet's next post decides: see docs/overcommit.md
			}
			got := resource.MustParse(f.stored["status"].(object)["allocatable"].(object)["cpu"].(string))
			if got.MilliValue() > 2*(largest*1000-100) {
				t.Fatalf("seed %d: compounded to %s of %d cores, memory %s", seed, got.String(), largest, f.annotation())
			}
		}
		f.ratios(capacity, map[string]string{"cpu": "2"})
		post()
		f.want(fmt.Sprintf("seed %d: kubelet posts", seed), "cpu", map[config.Capacity]string{
			config.Keep:  fmt.Sprintf("%s/%d", milli(2*(cores*1000-100)), cores),
			config.Raise: fmt.Sprintf("%s/%s", milli(2*(cores*1000-100)), milli(2*(cores*1000-100)+100)),
		}[capacity])
	}
}

func TestFirstMatchingPoolWins(t *testing.T) {
	f := newFleet(t, config.Keep, "2", Nodes)
	batch := config.Pool{Name: "batch", Ratios: map[corev1.ResourceName]string{}, Capacity: config.Keep}
	batch.Selector.MatchLabels = map[string]string{"pool": "batch"}
	batch.Ratios[corev1.ResourceCPU] = "4"
	f.policy.Pools = append([]config.Pool{batch}, f.policy.Pools...)
	f.post(kubelet, "cpu:4/4")
	f.want("the second pool", "cpu", "8/4")
	maps.Copy(f.stored["metadata"].(object), object{"labels": object{"pool": "batch"}})
	f.echo(controller)
	f.want("the first pool", "cpu", "16/4")
	if !strings.Contains(f.annotation(), "pool batch") {
		t.Error(f.annotation())
	}
}
