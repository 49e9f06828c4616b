package mutators

import (
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/amplifytest"
)

// A step of a sequence: the ratios from now on, and one write.
type chapter struct {
	ratios string // the ratio annotation; empty: unchanged; "none": removed
	by     string // the writer
	posts  string // "cpu:allocatable/capacity" each, separated by spaces; empty: an echo
	away   bool   // usher is not running
	cpu    string // the wanted allocatable/capacity; empty: not checked
	memory string
}

// A kubelet that writes one new number has measured all of them: a number that equals our result was measured, and
// stays the node's true size when the ratio is lowered or removed at that moment.
func TestMeasuredEqualsOurResult(t *testing.T) {
	before := []chapter{
		{ratios: `{"cpu":2,"memory":1.2}`, by: amplifytest.Kubelet, posts: "cpu:15900m/16 memory:50Gi/64Gi", cpu: "31800m/16", memory: "60Gi/64Gi"},
		{by: amplifytest.Kubelet, posts: "cpu:15900m/16 memory:50Gi/64Gi", cpu: "31800m/16", memory: "60Gi/64Gi"},
	}
	for _, test := range []struct {
		name string
		then []chapter
	}{
		{"another resource is new", []chapter{
			{by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "31/16", memory: "72Gi/64Gi"},
			{by: amplifytest.Kubelet, posts: "cpu:15500m/16 memory:60Gi/64Gi", cpu: "31/16", memory: "72Gi/64Gi"},
			{by: amplifytest.Controller, cpu: "31/16", memory: "72Gi/64Gi"}}},
		{"both, and the ratio rises", []chapter{
			{ratios: `{"cpu":2,"memory":1.5}`, by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "31/16", memory: "90Gi/64Gi"}}},
		{"both, and the ratio falls", []chapter{
			{ratios: `{"cpu":2,"memory":1.1}`, by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "31/16", memory: "66Gi/64Gi"}}},
		{"both, and the ratio goes", []chapter{
			{ratios: `{"cpu":2}`, by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "31/16", memory: "60Gi/64Gi"},
			{by: amplifytest.Controller, cpu: "31/16", memory: "60Gi/64Gi"}}},
		{"both, and all ratios go", []chapter{
			{ratios: "none", by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "15500m/16", memory: "60Gi/64Gi"}}},
		{"the number does not fit: a partial write", []chapter{
			{ratios: `{"cpu":2,"memory":1.5}`, by: amplifytest.Controller, memory: "75Gi/64Gi"},
			{by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "31/16", memory: "75Gi/64Gi"}}},
		{"the same original again proves nothing", []chapter{
			{by: amplifytest.Kubelet, posts: "cpu:15900m/16", cpu: "31800m/16", memory: "60Gi/64Gi"}}},
		{"nor does another capacity", []chapter{
			{by: amplifytest.Kubelet, posts: "cpu:15900m/17", cpu: "31800m/17", memory: "60Gi/64Gi"}}},
		{"nor a resource that is not amplified", []chapter{
			{ratios: `{"memory":1.2}`, by: amplifytest.Kubelet, posts: "cpu:15900m/16", cpu: "15900m/16", memory: "60Gi/64Gi"},
			{by: amplifytest.Kubelet, posts: "cpu:15500m/16", cpu: "15500m/16", memory: "60Gi/64Gi"}}},
		{"nor does another's write", []chapter{
			{by: amplifytest.Controller, posts: "cpu:15500m/16", cpu: "31/16", memory: "60Gi/64Gi"},
			{by: "system:node:n2", posts: "cpu:15400m/16", cpu: "30800m/16", memory: "60Gi/64Gi"}}},
		{"nor does the kubelet without a number", []chapter{
			{by: amplifytest.Kubelet, cpu: "31800m/16", memory: "60Gi/64Gi"},
			{ratios: `{"memory":1.2}`, by: amplifytest.Kubelet, cpu: "15900m/16", memory: "60Gi/64Gi"}}},
		{"nor what was written while usher was away", []chapter{
			{by: amplifytest.Kubelet, posts: "cpu:15500m/16", away: true},
			{by: amplifytest.Kubelet, cpu: "31/16", memory: "60Gi/64Gi"}}},
	} {
		t.Run(test.name, func(t *testing.T) { play(t, append(slices.Clone(before), test.then...)) })
	}
}

func play(t *testing.T, story []chapter) {
	t.Helper()
	k := newKoordinated(t, "")
	for _, c := range story {
		if c.ratios != "" {
			k.mark(ratioKey, strings.TrimPrefix(c.ratios, "none"))
		}
		k.Away = c.away
		k.Post(c.by, strings.Fields(c.posts)...)
		for name, want := range map[string]string{"cpu": c.cpu, "memory": c.memory} {
			if want != "" {
				k.Want(c.by+" posts "+c.posts, name, want)
			}
		}
	}
}

// The machine doubles while capacity is amplified: both numbers are the stored ones, and only the other resource shows
// it.
func TestMachineDoublesWithCapacityRaised(t *testing.T) {
	f := amplifytest.NewNode(t, amplify.Raise, "2", mutators.Nodes)
	f.Ratios(amplify.Raise, map[string]string{"cpu": "2", "memory": "1.5"})
	f.Post(amplifytest.Kubelet, "cpu:16/16", "memory:60Gi/64Gi")
	f.Want("before", "cpu", "32/32")
	f.Post(amplifytest.Kubelet, "cpu:32/32", "memory:124Gi/128Gi")
	f.Want("doubled", "cpu", "64/64")
	f.Want("doubled", "memory", "186Gi/190Gi")
	f.Post(amplifytest.Kubelet, "cpu:32/32", "memory:124Gi/128Gi")
	f.Want("and stays", "cpu", "64/64")
	f.Policy = nil
	f.Post(amplifytest.Kubelet, "cpu:64/64", "memory:250Gi/256Gi")
	f.Want("doubled once more, and the policy goes", "cpu", "64/64")
}

// A number without an explanation that fits into capacity may be the true size: only the kubelet may lower it.
func TestUnexplainedNumberIsNotLowered(t *testing.T) {
	for _, capacity := range []amplify.Capacity{amplify.Raise, amplify.Keep} {
		f := amplifytest.NewNode(t, capacity, "2", mutators.Nodes)
		f.Post(amplifytest.Kubelet, "cpu:15/16")
		f.Away = true
		f.Post(amplifytest.Kubelet, "cpu:40/42")
		f.Away = false
		for range 2 {
			f.Echo(amplifytest.Controller)
			f.Want("another's echo", "cpu", "40/42")
		}
		f.Echo(amplifytest.Kubelet)
		f.Want("the kubelet's", "cpu", map[amplify.Capacity]string{amplify.Raise: "80/82", amplify.Keep: "80/42"}[capacity])
	}
}

// A new ratio takes effect with the next write of any client if the original is known.
func TestNewRatioWithAnybodysWrite(t *testing.T) {
	k := newKoordinated(t, "")
	k.measure()
	k.mark(ratioKey, `{"cpu":2}`)
	k.Echo(amplifytest.Controller)
	k.Want("the first ratio", "cpu", "31800m/16")
	k.wantRaw("the first ratio", bothRaw)
	k.mark(ratioKey, `{"cpu":3,"memory":1.05}`)
	k.Echo(amplifytest.Controller)
	k.Want("another resource", "memory", "63Gi/64Gi")
	k.Echo(amplifytest.Controller)
	k.Want("and again", "cpu", "47700m/16")
	k.Want("and again", "memory", "63Gi/64Gi")
	k.mark(ratioKey, "")
	k.Echo(amplifytest.Controller)
	k.Want("none", "memory", "60Gi/64Gi")

	f := amplifytest.NewNode(t, amplify.Keep, "1", mutators.Nodes)
	f.Post(amplifytest.Kubelet, "cpu:15900m/16", "memory:60Gi/64Gi")
	f.Ratios(amplify.Keep, map[string]string{"cpu": "2", "memory": "1.05"})
	for range 3 {
		f.Echo(amplifytest.Controller)
		f.Want("a pool's ratio", "cpu", "31800m/16")
		f.Want("a pool's ratio", "memory", "63Gi/64Gi")
	}
}

// On a node without traces of an amplifier, a number that cannot have been measured is not taken for an original.
func TestOriginalThatNobodyKnows(t *testing.T) {
	for _, test := range []struct {
		name, cpu, raw, Annotation, want string
		touch                            string // the change made by the write itself
	}{
		{"above capacity", "31800m/16", "", "", "31800m/16", ""},
		{"no capacity", "15900m/", "", "", "15900m/<nil>", ""},
		{"this write changes it", "15900m/16", "", "", "15/16", "cpu:15/"},
		{"this write changes capacity", "15900m/16", "", "", "15900m/17", "cpu:/17"},
		{"the memory is damaged", "15900m/16", "", "{", "15900m/16", ""},
		{"another original is noted", "12/16", `{"cpu":"15900m"}`, "", "12/16", ""},
	} {
		k := newKoordinated(t, "")
		k.Away = true
		k.Post(amplifytest.Kubelet, "cpu:"+test.cpu)
		k.Away = false
		k.mark(ratioKey, `{"cpu":2}`)
		k.mark(rawKey, test.raw)
		k.mark(amplify.AnnotationKey, test.Annotation)
		k.Post(amplifytest.Controller, strings.Fields(test.touch)...)
		k.Want(test.name, "cpu", test.want)
		if !slices.Contains(k.Tolerated, "original-unknown") {
			t.Errorf("%s: no trouble is reported: %v", test.name, k.Tolerated)
		}
	}
}

// The ratio changed after Koordinator's webhook had written last: its list of originals is used where the number cannot
// have been measured.
func TestRatioChangedSinceKoordinator(t *testing.T) {
	for _, test := range []struct {
		name, Annotation, raw, ratio, want string
		known                              bool
	}{
		{"up", "75Gi/64Gi", "50Gi", "2", "100Gi/64Gi", true},
		{"down", "75Gi/64Gi", "50Gi", "1.2", "60Gi/64Gi", true},
		{"from one that fits: it may be the true size", "60Gi/64Gi", "50Gi", "1.5", "60Gi/64Gi", false},
		{"the list is of a larger machine", "30Gi/32Gi", "50Gi", "2", "30Gi/32Gi", false},
		{"the list is no original", "75Gi/64Gi", "70Gi", "2", "75Gi/64Gi", false},
	} {
		for _, user := range []string{amplifytest.Controller, amplifytest.Kubelet} {
			k := newKoordinated(t, `{"memory":`+test.ratio+`}`)
			k.Away = true
			k.Post(amplifytest.Kubelet, "memory:"+test.Annotation)
			k.Away = false
			k.mark(rawKey, `{"memory":"`+test.raw+`"}`)
			if user == amplifytest.Kubelet && !test.known && test.raw == "50Gi" {
				continue // it fits into capacity and was written by the kubelet: measured
			}
			for range 3 {
				k.Echo(user)
				k.Want(test.name+" by "+user, "memory", test.want)
			}
			if known := !slices.Contains(k.Tolerated, "original-unknown"); known != test.known {
				t.Errorf("%s: known %t, %v", test.name, known, k.Tolerated)
			}
		}
	}
}

// What a write omits keeps its entry, also next to a known resource.
func TestMemoryOfTheUnexplainedStays(t *testing.T) {
	f := amplifytest.NewNode(t, amplify.Keep, "2", mutators.Nodes)
	f.Ratios(amplify.Keep, map[string]string{"cpu": "2", "memory": "1.2"})
	f.Post(amplifytest.Kubelet, "cpu:15900m/16", "memory:50Gi/64Gi")
	amplifytest.Put(f.Stored, "allocatable", "memory", "61Gi") // by another amplifier, and it fits
	for range 5 {
		f.Echo(amplifytest.Controller)
		f.Want("another's number", "memory", "61Gi/64Gi")
		f.Want("beside it", "cpu", "31800m/16")
	}
	f.Post(amplifytest.Kubelet, "cpu:15900m/16", "memory:50Gi/64Gi")
	f.Want("the kubelet's", "memory", "60Gi/64Gi")

	cpu, _, _ := strings.Cut(f.Annotation(), `,"memory"`)
	f.Annotate(cpu + `,"memory":{"raw":7}}`)
	for range 3 {
		f.Echo(amplifytest.Controller)
		f.Want("memory's record is damaged", "memory", "60Gi/64Gi")
		f.Want("memory's record is damaged", "cpu", "31800m/16")
	}
}
