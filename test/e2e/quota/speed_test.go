package quota

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestSoakSpeed measures the cost of quotas: clients create pods without quotas, with the ledger, and in other ways.
// The ways alternate in one run, so that other load on the machine affects all of them; only the replicas of one way run
// at a time. The test prints a table, and asserts nothing about time: it fails if a pod is not admitted that fits, or if a quota
// ever held more than its limit. It takes less than 20 minutes on two cores with nothing else to do. USHER_SPEED=1s makes each
// measure that short and does it once, for a trial, and -run 'SoakSpeed/edge' selects rows.
func TestSoakSpeed(t *testing.T) {
	soakTime(t)
	s := newSpeed(cluster.Within(t, time.Hour), t)
	for _, clients := range []int{32, 128, 500} {
		t.Run(fmt.Sprintf("room-%d", clients), func(t *testing.T) { s.room(t, clients) })
	}
	for _, clients := range []int{32, 128, 500} {
		t.Run(fmt.Sprintf("edge-%d", clients), func(t *testing.T) { s.edge(t, "at the edge", crowdSize{clients, 4, 0}) })
	}
	t.Run("short-128", func(t *testing.T) { s.edge(t, "always full", crowdSize{128, 4, 96}) })
	t.Run("many-128", func(t *testing.T) { s.many(t, 500, 128) })
	fmt.Print(s.table.String())
}

// rowTime bounds the measures of one subtest.
const rowTime = 10 * time.Minute

// speed holds what the rows of TestSoakSpeed share.
type speed struct {
	without, alone *kubetest.Usher // as well as usher, with the ledger
	period         time.Duration   // of a measure, after its beginning
	rounds         int
	table          table
}

func newSpeed(ctx context.Context, t *testing.T) *speed {
	t.Helper()
	s := &speed{period: 5 * time.Second, rounds: 3}
	if text := os.Getenv("USHER_SPEED"); text != "" {
		var err error
		s.period, err = time.ParseDuration(text)
		stored(t, err)
		s.rounds = 1
	}
	s.without, s.alone = another(ctx, t, "usher-without", replicas(), ""), another(ctx, t, "usher-alone", 1, gates)
	t.Cleanup(func() { s.back(context.Background(), t) })
	return s
}

// all returns every usher.
func (s *speed) all() []*kubetest.Usher {
	return []*kubetest.Usher{usher, s.without, s.alone}
}

// back sends all reviews to the usher of the other tests.
func (s *speed) back(ctx context.Context, t *testing.T) {
	t.Helper()
	front.instead.Store(nil)
	stored(t, front.lead(usher))
	run(ctx, t, usher)
}

// room measures clients that create pods in one quota which is never full, in these ways and in the in-tree ResourceQuota.
func (s *speed) room(t *testing.T, clients int) {
	ctx, name := cluster.Within(t, rowTime), fmt.Sprintf("room-%d", clients)
	from := s.begin(ctx, t, name, "100000")
	in, free := homes(1, name, name+"-leaf"), homes(1, name+"-free", name+"-leaf")
	limited := newResourceQuota(ctx, t, name+"-intree")
	ways := []*way{
		{name: "without quotas", through: s.without, first: replicas(), in: free, counts: noLedger},
		{name: "ledger", through: usher, first: replicas(), in: in},
		{name: "in-tree ResourceQuota", through: s.without, first: replicas(), in: homes(1, limited.namespace, ""),
			before: limited.reset, after: limited.check, counts: limited.counts},
	}
	if clients == 32 {
		plain := newPlainLedgers(replicas(), name+"-free", name+"-plain")
		instead := plain.take
		ways = append(ways, &way{name: "ledger, one replica", through: s.alone, first: 1, in: in},
			&way{name: "one write for each pod", through: s.without, first: replicas(), in: free, instead: &instead, counts: plain.counts})
	}
	s.compare(ctx, t, crowdSize{clients: clients}, []home{{name, name + "-top"}}, ways)
	checkSince(ctx, t, from, name)
}

// edge measures clients that each hold some pods, together as many as the quota allows, and replace them: they delete the
// oldest, create the next, and try again if it is refused. If the quota is not short, there are never more pods, with those that are
// being created, than it allows: each fits from its first attempt on, so all the time that it waits longer than one without
// quotas is the fault of usher. Requests on their way hold no room yet, so there is often some left. If it is short, there is none:
// most clients wait for the pods of others, and how long a pod is refused is also a matter of luck.
func (s *speed) edge(t *testing.T, label string, size crowdSize) {
	ctx, name := cluster.Within(t, rowTime), fmt.Sprintf("edge-%d-%d", size.clients, size.short)
	from := s.begin(ctx, t, name, fmt.Sprintf("%dm", size.most()*milliPod))
	in := homes(1, name, name+"-leaf")
	s.compare(ctx, t, size, []home{{name, name + "-top"}}, []*way{
		{name: label + ", without quotas", through: s.without, first: replicas(), in: homes(1, name+"-free", name+"-leaf"), counts: noLedger},
		{name: label + ", ledger", through: usher, first: replicas(), in: in},
	})
	if told := checkSince(ctx, t, from, name); told.Fullest < 100 {
		t.Errorf("the quota was never full: at most %.1f%%", told.Fullest)
	}
}

// many measures clients that spread their pods over many namespaces, each with a quota of its own, below one at the top.
func (s *speed) many(t *testing.T, namespaces, clients int) {
	ctx := cluster.Within(t, rowTime)
	s.back(ctx, t)
	from := revision(ctx, t)
	in, free := homes(namespaces, "many", "many"), homes(namespaces, "many-free", "many")
	grow(ctx, t, "many-all", newQuota("many-all", "many-top", "", "100000", true))
	t.Cleanup(func() { emptied(context.Background(), t, in) })
	growMany(ctx, t, "many-top", in, free)
	t.Cleanup(func() { s.back(context.Background(), t) })
	label := fmt.Sprintf("%d namespaces, ", namespaces)
	s.compare(ctx, t, crowdSize{clients: clients}, []home{{"many-all", "many-top"}}, []*way{
		{name: label + "without quotas", through: s.without, first: replicas(), in: free, counts: noLedger},
		{name: label + "ledger", through: usher, first: replicas(), in: in},
	})
	names := []string{"many-all"}
	for _, h := range in {
		names = append(names, h.namespace)
	}
	checkSince(ctx, t, from, names...)
}

// begin creates a tree with one leaf, and a namespace for pods without quotas. It returns etcd's revision before.
func (s *speed) begin(ctx context.Context, t *testing.T, name, cpu string) (from int64) {
	t.Helper()
	s.back(ctx, t)
	from = revision(ctx, t)
	free := name + "-free"
	grow(ctx, t, free, newQuota(free, name+"-plain", "", "100000", false))
	grow(ctx, t, name, newQuota(name, name+"-top", "", cpu, true), newQuota(name, name+"-leaf", name+"-top", cpu, false))
	t.Cleanup(func() { s.back(context.Background(), t) }) // before the quotas are deleted
	return from
}

// growMany creates namespaces for pods with and without quotas, and a quota in each of the former.
func growMany(ctx context.Context, t *testing.T, top string, in, free []home) {
	t.Helper()
	together(t, len(in), func(i int) error {
		for _, name := range []string{in[i].namespace, free[i].namespace} {
			if _, err := cluster.Admin().Create(ctx, "/api/v1/namespaces", kubetest.Object{"metadata": kubetest.Object{"name": name}}); err != nil {
				return err
			}
		}
		_, err := cluster.Admin().Create(ctx, quotaPath(in[i].namespace, ""), newQuota(in[i].namespace, in[i].quota, top, "100000", false))
		return err
	})
	eventually(ctx, t, func(ctx context.Context) error {
		for i, r := range usher.Replicas {
			rows, err := report(ctx, i)
			if err != nil {
				return err
			}
			if q := find(rows, top); q == nil || len(q.Children) != len(in) {
				return fmt.Errorf("%s does not know the %d quotas", r.Name, len(in))
			}
		}
		return nil
	})
}

// emptied deletes the quotas of some namespaces.
func emptied(ctx context.Context, t *testing.T, in []home) {
	t.Helper()
	together(t, len(in), func(i int) error {
		_, err := cluster.Admin().Delete(ctx, quotaPath(in[i].namespace, in[i].quota))
		return err
	})
}
