package mutators

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/amplifytest"
	"usher.dev/usher/test/seed"
)

// cluster models a node's kubelet with its cache, and the other writers of the status. The kubelet patches the
// difference between its cache, which may lag, and its measurements. It measures again only when it starts, with a
// freshly listed cache (k8s.io/kubernetes/pkg/kubelet: tryUpdateNodeStatus, GetCachedMachineInfo). All numbers are
// milli-units.
type cluster struct {
	*amplifytest.Node
	random   *rand.Rand
	measured map[string]pair // the true size of the machine
	told     map[string]pair // what the kubelet wrote last
	cache    map[string]pair
	ratio    map[string]string
	ask      func(ratios map[string]string) // applies the ratios
}

type pair struct{ allocatable, capacity int64 }

var modelled = []string{"cpu", "memory"}

func (c *cluster) pick(list ...string) string { return list[c.random.IntN(len(list))] }

// stand returns what is stored.
func (c *cluster) stand(name string) pair {
	status := c.Stored["status"].(amplifytest.Object)
	value := func(list string) int64 {
		q := resource.MustParse(fmt.Sprint(orZero(status[list].(amplifytest.Object)[name])))
		return q.MilliValue()
	}
	return pair{value("allocatable"), value("capacity")}
}

func (c *cluster) readCache() {
	for _, name := range modelled {
		c.cache[name] = c.stand(name)
	}
}

// grow changes the size of the machine and starts the kubelet. By chance memory becomes exactly usher's result: the
// reserved part shrank, or the machine grew.
func (c *cluster) grow() {
	for _, name := range modelled {
		old := c.stand(name)
		allocatable := 1000 * (1 + 2*c.random.Int64N(100_000))
		c.measured[name] = pair{allocatable, allocatable + 1000*c.random.Int64N(allocatable/1000)}
		if twin := name == "memory" && c.random.IntN(2) == 0 && c.amplified("cpu") && c.amplified(name); twin && !c.Away {
			c.measured[name] = pair{old.allocatable, max(old.allocatable, c.told[name].capacity)}
		}
	}
	c.readCache()
	c.heartbeat()
}

// amplified reports whether usher's own result is stored.
func (c *cluster) amplified(name string) bool {
	Annotation, _ := amplify.ReadAnnotation(c.Annotation(), true)
	r := Annotation[corev1.ResourceName(name)]
	return r != nil && r.Result.Allocatable.MilliValue() == c.stand(name).allocatable && r.Raw.Allocatable.MilliValue() == c.told[name].allocatable
}

// heartbeat patches what differs from the cache.
func (c *cluster) heartbeat() {
	var numbers []string
	for _, name := range modelled {
		is, was, text := c.measured[name], c.cache[name], [2]string{}
		if is.allocatable != was.allocatable {
			text[0] = fmt.Sprintf("%dm", is.allocatable)
		}
		if is.capacity != was.capacity {
			text[1] = fmt.Sprintf("%dm", is.capacity)
		}
		numbers = append(numbers, name+":"+text[0]+"/"+text[1])
		c.told[name] = is
	}
	c.Post(amplifytest.Kubelet, numbers...)
}

func (c *cluster) changeRatios() {
	for _, name := range modelled {
		c.ratio[name] = c.pick("1", "1.05", "1.2", "2", "3")
	}
	c.ask(c.ratio)
}

func (c *cluster) largest(name string) int64 {
	ratio, err := quantity.ParseRatio(c.ratio[name])
	if err != nil {
		c.T.Fatal(err)
	}
	result, _ := ratio.Amplify(*resource.NewMilliQuantity(c.told[name].allocatable, resource.DecimalSI), corev1.ResourceName(name))
	return result.MilliValue()
}

// check is called after every write that usher saw: the number is never below the true size and never above true size ×
// ratio, and equals that after a write of a kubelet whose cache does not lag.
func (c *cluster) check(n, step int, what string, exact bool) {
	c.T.Helper()
	for _, name := range modelled {
		got, least, most := c.stand(name).allocatable, c.told[name].allocatable, c.largest(name)
		if exact {
			least = most
		}
		if !c.Away && (got < least || got > most) {
			c.T.Fatalf("case %d, step %d, %s: %s is %d, want %d to %d; measured %v, ratio %s\n%s", n, step, what, name, got, least, most,
				c.told[name], c.ratio[name], c.Annotation())
		}
	}
}

// TestAmplifierModel chooses at random what happens to a node, and who writes its status.
func TestAmplifierModel(t *testing.T) {
	random := seed.Random(t)
	for n := range 40 {
		for _, suite := range []string{"overcommit, keep", "overcommit, raise", "node-amplification"} {
			c := newCluster(t, suite, random)
			c.changeRatios()
			c.grow()
			for step := range 50 {
				c.step(n, step, suite)
			}
			c.Away = false
			c.readCache()
			c.heartbeat()
			c.check(n, 50, suite+": at last", true)
		}
	}
}

func newCluster(t *testing.T, suite string, random *rand.Rand) *cluster {
	c := &cluster{random: random, measured: map[string]pair{}, told: map[string]pair{}, cache: map[string]pair{}, ratio: map[string]string{}}
	if suite == "node-amplification" {
		k := newKoordinated(t, "")
		c.Node, c.ask = k.Node, func(ratios map[string]string) {
			numbers := map[string]json.Number{}
			for name, text := range ratios {
				numbers[name] = json.Number(text)
			}
			text, _ := json.Marshal(numbers)
			k.mark(ratioKey, string(text))
		}
		return c
	}
	capacity := amplify.Keep
	if suite == "overcommit, raise" {
		capacity = amplify.Raise
	}
	c.Node = amplifytest.NewNode(t, capacity, "1", mutators.Nodes)
	c.ask = func(ratios map[string]string) { c.Ratios(capacity, ratios) }
	return c
}

func (c *cluster) step(n, step int, suite string) {
	c.T.Helper()
	switch c.random.IntN(9) {
	case 0, 1:
		c.Echo(amplifytest.Controller)
		c.check(n, step, suite+": another's write", false)
	case 2, 3:
		c.readCache()
		c.heartbeat()
		c.check(n, step, suite+": heartbeat", true)
	case 4:
		c.heartbeat() // the cache lags
		c.check(n, step, suite+": heartbeat with an old cache", false)
	case 5:
		c.changeRatios()
		c.Echo(amplifytest.Controller)
		c.check(n, step, suite+": new ratios", false)
	case 6:
		c.changeRatios()
		c.grow()
		c.check(n, step, suite+": new ratios and sizes", true)
	case 7:
		c.grow()
		c.check(n, step, suite+": new sizes", true)
	default:
		c.Away = !c.Away
	}
}
