package quota

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/colocation/api"
	"usher.dev/usher/test/quotatest"
)

// podFrom returns a pod from the JSON of its spec's and status's members.
func podFrom(t *testing.T, meta, spec, status string) *Pod {
	t.Helper()
	var pod corev1.Pod
	if err := json.Unmarshal(fmt.Appendf(nil, `{"metadata":{%s},"spec":{%s},"status":{%s}}`, meta, spec, status), &pod); err != nil {
		t.Fatalf("%s %s %s: %v", meta, spec, status, err)
	}
	return PodOf(&pod.ObjectMeta, &pod.Spec, &pod.Status)
}

// containers returns the JSON of "c=2 s=1": each container with its request of cpu.
func containers(short string) string {
	var list []string
	for _, pair := range strings.Fields(short) {
		name, cpu, _ := strings.Cut(pair, "=")
		list = append(list, fmt.Sprintf(`{"name":%q,"resources":{"requests":{"cpu":%q}}}`, name, cpu))
	}
	return `"containers":[` + strings.Join(list, ",") + `]`
}

// statuses returns the JSON of "c=2/6": each container with the cpu that is allocated and that it was given; "-" for
// what is not reported.
func statuses(short string) string {
	var list []string
	for _, pair := range strings.Fields(short) {
		name, both, _ := strings.Cut(pair, "=")
		allocated, enacted, _ := strings.Cut(both, "/")
		one := fmt.Sprintf(`{"name":%q`, name)
		if allocated != "-" {
			one += fmt.Sprintf(`,"allocatedResources":{"cpu":%q}`, allocated)
		}
		if enacted != "-" {
			one += fmt.Sprintf(`,"resources":{"requests":{"cpu":%q}}`, enacted)
		}
		list = append(list, one+"}")
	}
	return `"containerStatuses":[` + strings.Join(list, ",") + `]`
}

// pending returns the JSON of the condition of a resize that waits.
func pending(reason string, generation int) string {
	return fmt.Sprintf(`,"conditions":[{"type":"Ready"},{"type":"PodResizePending","status":"True","reason":%q,"observedGeneration":%d}]`, reason, generation)
}

// TestUnreported: a node has reported when every container with requests has an allocation, and when it has observed the
// generation of the pod, if it reports which it has observed.
func TestUnreported(t *testing.T) {
	const (
		bound = `"nodeName":"n",`
		init  = `,"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}]`
		whole = `,"resources":{"requests":{"cpu":"4"}}`
	)
	for _, c := range []struct {
		what, spec, status string
		want               bool
		meta               string
	}{
		{"not bound", containers("c=2"), "", false, ""},
		{"bound", bound + containers("c=2"), "", true, ""},
		{"in part", bound + containers("c=2 d=1"), statuses("c=2/2 d=-/1"), true, ""},
		{"in full", bound + containers("c=2 d=1"), statuses("c=2/2 d=1/-"), false, ""},
		{"nothing is requested", bound + `"containers":[{"name":"c"}]`, statuses("c=-/-"), false, ""},
		{"an older generation", bound + containers("c=2"), statuses("c=2/2") + `,"observedGeneration":5`, true, `"generation":6`},
		{"the generation", bound + containers("c=2"), statuses("c=2/2") + `,"observedGeneration":6`, false, `"generation":6`},
		{"no generation", bound + containers("c=2"), statuses("c=2/2"), false, `"generation":6`},
		{"only its deletion is not observed", bound + containers("c=2"), statuses("c=2/2") + `,"observedGeneration":5`, false,
			`"generation":6,"deletionTimestamp":"2026-01-01T00:00:00Z"`},
		{"not the init container", bound + containers("c=2") + init, statuses("c=2/2"), true, ""},
		{"the init container too", bound + containers("c=2") + init, statuses("c=2/2") + `,"initContainerStatuses":[{"name":"i","allocatedResources":{"cpu":"1"}}]`, false, ""},
		{"not the whole pod", bound + containers("c=2") + whole, statuses("c=2/2") + `,"resources":{}`, true, ""},
		{"the whole pod too", bound + containers("c=2") + whole, statuses("c=2/2") + `,"resources":{},"allocatedResources":{"cpu":"4"}`, false, ""},
		{"nothing about whole pods", bound + containers("c=2") + whole, statuses("c=2/2"), false, ""},
		{"ended", bound + containers("c=2"), `"phase":"Failed"`, false, ""},
	} {
		if got := podFrom(t, c.meta, c.spec, c.status).Unreported; got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestHeld: what a pod counts for while a resize waits or is not carried out.
func TestHeld(t *testing.T) {
	const (
		generation5, generation6 = `"generation":5`, `"generation":6`
		deleted                  = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
		sidecar                  = `,"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]`
		init5                    = `,"initContainers":[{"name":"i","resources":{"requests":{"cpu":"5"}}}]`
		overhead                 = `,"overhead":{"cpu":"250m"}`
		replaced                 = `"annotations":{"` + api.AnnotationReplaceResources + `":"cpu:batch"}`
		devices                  = `,"nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"d","containers":["c"],"mapping":[{"name":"cpu","quantity":"3"}]}]`
	)
	whole := func(cpu string) string { return `,"resources":{"requests":{"cpu":"` + cpu + `"}}` }
	wholeStatus := func(cpu string) string { return `,"allocatedResources":{"cpu":"` + cpu + `"}` + whole(cpu) }
	all := Counting{Allocated: true}
	for _, c := range []struct {
		what, meta, spec, status string
		how                      Counting
		held, charge, off        string // off: with the gate off
	}{
		{"new", "", containers("c=2"), "", all, "nil", "cpu=2", "cpu=2"},
		{"idle", "", containers("c=2"), statuses("c=2/2"), all, "nil", "cpu=2", "cpu=2"},
		{"idle, written otherwise", "", containers("c=2"), statuses("c=2000m/2.0"), all, "nil", "cpu=2", "cpu=2"},
		{"a status without amounts", "", containers("c=2"), statuses("c=-/-"), all, "nil", "cpu=2", "cpu=2"},
		{"to less, not taken up", "", containers("c=2"), statuses("c=6/6"), all, "cpu=6", "cpu=6", "cpu=2"},
		{"to less, allocated", "", containers("c=2"), statuses("c=2/6"), all, "cpu=6", "cpu=6", "cpu=2"},
		{"to less, not reported in full", "", containers("c=2"), statuses("c=6/-"), all, "cpu=6", "cpu=6", "cpu=2"},
		{"to less, carried out", "", containers("c=2"), statuses("c=2/2"), all, "nil", "cpu=2", "cpu=2"},
		{"to more, deferred", generation5, containers("c=6"), statuses("c=2/2") + pending("Deferred", 5), all, "nil", "cpu=6", "cpu=6"},
		{"to more, allocated", "", containers("c=6"), statuses("c=6/2"), all, "nil", "cpu=6", "cpu=6"},
		{"infeasible", generation5, containers("c=100"), statuses("c=2/2") + pending("Infeasible", 5), all, "cpu=2", "cpu=2", "cpu=100"},
		{"infeasible, given more", generation5, containers("c=100"), statuses("c=2/3") + pending("Infeasible", 5), all, "cpu=3", "cpu=3", "cpu=100"},
		{"infeasible, resized again", generation6, containers("c=6"), statuses("c=2/2") + pending("Infeasible", 5), all,
			"cpu=2 unsettled", "cpu=6", "cpu=6"},
		{"infeasible, no generation", generation6, containers("c=6"), statuses("c=2/2") + pending("Infeasible", 0), all,
			"cpu=2 unsettled", "cpu=6", "cpu=6"},
		{"infeasible, then to less", generation6, containers("c=1"), statuses("c=2/2") + pending("Infeasible", 5), all,
			"cpu=2 unsettled", "cpu=2", "cpu=1"},
		{"infeasible, and another change", generation6, containers("c=100"), statuses("c=2/2") + pending("Infeasible", 5) + `,"observedGeneration":6`, all,
			"cpu=2", "cpu=2", "cpu=100"},
		{"infeasible, being deleted", generation6 + deleted, containers("c=100"), statuses("c=2/2") + pending("Infeasible", 5), all, "cpu=2", "cpu=2", "cpu=100"},
		{"infeasible, resized and being deleted", generation6 + deleted, containers("c=9"), statuses("c=2/2") + pending("Infeasible", 4), all,
			"cpu=2 unsettled", "cpu=9", "cpu=9"},
		{"infeasible, withdrawn", generation6, containers("c=2"), statuses("c=2/2") + pending("Infeasible", 5), all, "nil", "cpu=2", "cpu=2"},
		{"infeasible, no status of the container", generation5, containers("c=6"), statuses("") + pending("Infeasible", 5), all,
			" unsettled", "cpu=6", "cpu=6"},
		{"two in opposite directions", "", containers("a=3 b=1"), statuses("a=1/1 b=3/3"), all, "nil", "cpu=4", "cpu=4"},
		{"a sidecar", "", containers("c=1") + sidecar, statuses("c=1/-") + `,"initContainerStatuses":[{"name":"s","allocatedResources":{"cpu":"4"}}]`, all,
			"cpu=5", "cpu=5", "cpu=2"},
		{"below an init container", "", containers("c=2") + init5, statuses("c=4/4"), all, "nil", "cpu=5", "cpu=5"},
		{"the whole pod", "", containers("c=1") + whole("4"), statuses("c=1/1") + wholeStatus("8"), all, "cpu=8", "cpu=8", "cpu=4"},
		{"the whole pod, infeasible", generation5, containers("c=1") + whole("40"), statuses("c=1/1") + wholeStatus("8") + pending("Infeasible", 5), all,
			"cpu=8", "cpu=8", "cpu=40"},
		{"the status of the whole pod includes its overhead", "", containers("c=2") + overhead, statuses("c=2/2") + wholeStatus("2250m"), all,
			"nil", "cpu=2250m", "cpu=2250m"},
		{"overhead", "", containers("c=2") + overhead, statuses("c=6/6"), all, "cpu=6250m", "cpu=6250m", "cpu=2250m"},
		{"overhead ignored", "", containers("c=2") + overhead, statuses("c=6/6"), Counting{Allocated: true, IgnoreOverhead: true}, "cpu=6250m", "cpu=6", "cpu=2"},
		{"ended", "", containers("c=2"), statuses("c=6/6") + `,"phase":"Failed"`, all, "nil", "", ""},
		{"replaced", replaced, containers("c=2"), statuses("c=6/6"), Counting{Allocated: true, Replace: true}, "cpu=6 batch=6k", "batch=6k", "batch=2k"},
		{"replaced, gates off", replaced, containers("c=2"), statuses("c=6/6"), all, "cpu=6 batch=6k", "cpu=6", "cpu=2"},
		{"replaced for the whole pod", replaced, containers("c=1") + whole("4"), statuses("c=1/1") + wholeStatus("8"), Counting{Allocated: true, Replace: true},
			"cpu=8 batch=1k cpu=8", "batch=1k cpu=8", "batch=1k cpu=4"},
		{"an unknown container", "", containers("c=2"), statuses("c=2/2 x=99/99"), all, "nil", "cpu=2", "cpu=2"},
		{"devices", "", containers("c=2"), statuses("c=2/2") + devices, all, "nil", "cpu=2", "cpu=2"},
		{"less than nothing", generation5, containers("c=2"), statuses("c=-9/-9") + pending("Infeasible", 5), all, "cpu=0", "cpu=0", "cpu=2"},
	} {
		p := podFrom(t, c.meta, c.spec, strings.TrimPrefix(c.status, ","))
		held := "nil"
		if p.Held != nil {
			held = strings.TrimSpace(quotatest.InShort(p.Held.Requests) + " " + quotatest.InShort(p.Held.Replaced))
			if p.Held.Unsettled {
				held += " unsettled"
			}
		}
		off := c.how
		off.Allocated = false
		if charge, without := quotatest.InShort(c.how.Charge(p)), quotatest.InShort(off.Charge(p)); held != c.held || charge != c.charge || without != c.off {
			t.Errorf("%s: held %q, charged %q, with the gate off %q, want %q, %q, %q", c.what, held, charge, without, c.held, c.charge, c.off)
		}
		if asked := quotatest.InShort(c.how.Asked(p)); asked != c.off {
			t.Errorf("%s: asks %q, not %q", c.what, asked, c.off)
		}
	}
}

// TestNoStateCountsTooLittle: an usher that is started in any state of a resize counts at least the spec and what the
// node says that it holds. Only a node that has reported all allocations, and calls the current resize infeasible, makes
// a pod count for less than its spec.
func TestNoStateCountsTooLittle(t *testing.T) {
	const requested = 5 // the generation of the spec
	amounts, settled := []string{"-", "2", "6"}, 0
	for _, asked := range []string{"2", "6", "9"} {
		for i := range 3 * 3 * 3 * 3 * 3 {
			allocated, given, sidecar := amounts[i%3], amounts[i/3%3], amounts[i/9%3]
			condition, observed := 3+i/27%3, 3+i/81
			status := statuses("c="+allocated+"/"+given) + `,"initContainerStatuses":[` + strings.TrimSuffix(strings.TrimPrefix(
				statuses("s="+sidecar+"/-"), `"containerStatuses":[`), "]") + "]" + pending("Infeasible", condition) + fmt.Sprintf(`,"observedGeneration":%d`, observed)
			p := podFrom(t, fmt.Sprintf(`"generation":%d`, requested), `"nodeName":"n",`+containers("c="+asked)+
				`,"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]`, status)
			least := resource.MustParse(asked)
			least.Add(resource.MustParse("1"))
			if allocated != "-" && sidecar != "-" && max(condition, observed) >= requested {
				settled++
				least = resource.MustParse(allocated)
				least.Add(resource.MustParse(sidecar))
			}
			if got := (Counting{Allocated: true}).Charge(p)["cpu"]; got.Cmp(least) < 0 {
				t.Errorf("spec %s, status %s: %s counts, want at least %s", asked, status, got.String(), least.String())
			}
		}
	}
	if settled != 3*2*3*2*5 {
		t.Errorf("%d settled states", settled)
	}
}
