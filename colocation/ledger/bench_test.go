package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/colocation/quota"
)

// crowd is a ledger in memory with quotas, ten below each top, and pods in them.
func crowd(quotas, pods int) (*Ledger, *quota.Tree) {
	var all []*quota.Quota
	for i := range quotas {
		parent := ""
		if i%10 > 0 {
			parent = fmt.Sprintf("q%d", i-i%10)
		}
		all = append(all, makeQuota(fmt.Sprintf("q%d", i), parent, "cpu=1G memory=1P"))
	}
	tree := quota.NewTree(all)
	l := New(Options{Tree: func(context.Context, string) (*quota.Tree, error) { return tree, nil }})
	seen := make([]Seen, pods)
	for i := range seen {
		seen[i] = seenPod(makePod(fmt.Sprintf("q%d/p%d", i%quotas, i), fmt.Sprintf("u%d", i), "cpu=100m memory=1Gi"), i+1)
	}
	l.Pods().Replace(seen, fmt.Sprint(pods))
	return l, tree
}

// sizes are the sizes over which the cost of a pod must not grow.
func sizes(b *testing.B, run func(b *testing.B, quotas, pods int)) {
	for _, quotas := range []int{10, 1_000, 10_000} {
		for _, pods := range []int{0, 1_000, 100_000} {
			b.Run(fmt.Sprintf("quotas=%d/pods=%d", quotas, pods), func(b *testing.B) { run(b, quotas, pods) })
		}
	}
}

func podIn(tree *quota.Tree, i int) *quota.Pod {
	return makePod(fmt.Sprintf("q%d/new%d", i%tree.Len(), i), fmt.Sprintf("n%d", i), "cpu=100m memory=1Gi")
}

func askIn(tree *quota.Tree, i int) quota.Request { return ask(podIn(tree, i)) }

func BenchmarkJudge(b *testing.B) {
	sizes(b, func(b *testing.B, quotas, pods int) {
		l, tree := crowd(quotas, pods)
		ask := askIn(tree, 5)
		b.ReportAllocs()
		for b.Loop() {
			if v, err := l.Judge(context.Background(), ask); v.Excess != nil || err != nil {
				b.Fatal(v, err)
			}
		}
	})
}

// BenchmarkReserve admits a pod and then observes it, the usual case: the next write drops its reservation.
func BenchmarkReserve(b *testing.B) {
	sizes(b, func(b *testing.B, quotas, pods int) {
		l, tree := crowd(quotas, pods)
		arriving, asks := make([]*quota.Pod, 1000), make([]quota.Request, 1000)
		for i := range asks {
			arriving[i] = podIn(tree, i%10)
			arriving[i].Name = fmt.Sprintf("new%d", i)
			asks[i] = ask(arriving[i])
		}
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			ask := asks[i%len(asks)]
			if v, err := l.Reserve(context.Background(), ask); v.Excess != nil || err != nil {
				b.Fatal(v, err)
			}
			l.Pods().Put(seenPod(arriving[i%len(asks)], pods+i+1))
			i++
		}
	})
}

// BenchmarkWaiting is one decision while reservations are held: the cost during a burst of pods that are not observed
// yet.
func BenchmarkWaiting(b *testing.B) {
	for _, waiting := range []int{0, 100, 1000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			l, tree := crowd(10, 1000)
			for i := range waiting {
				pod := podIn(tree, i)
				pod.UID = types.UID(fmt.Sprintf("w%d", i))
				if _, err := l.Reserve(context.Background(), ask(pod)); err != nil {
					b.Fatal(err)
				}
			}
			ask := askIn(tree, 5)
			b.ReportAllocs()
			for b.Loop() {
				if v, err := l.Judge(context.Background(), ask); v.Excess != nil || err != nil {
					b.Fatal(v, err)
				}
			}
		})
	}
}

// BenchmarkPut is one change of a pod among many.
func BenchmarkPut(b *testing.B) {
	l, tree := crowd(1000, 100_000)
	if _, err := l.Judge(context.Background(), askIn(tree, 5)); err != nil {
		b.Fatal(err)
	}
	small, big := makePod("q55/p55", "u55", "cpu=100m memory=1Gi"), makePod("q55/p55", "u55", "cpu=200m memory=1Gi")
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		p := small
		if i%2 == 0 {
			p = big
		}
		l.Pods().Put(seenPod(p, 100_000+i))
	}
}

// BenchmarkChangedQuota is the first decision after a change of a quota, among many with pods and records.
func BenchmarkChangedQuota(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, change := range []string{"none", "limits", "parent"} {
			b.Run(fmt.Sprintf("quotas=%d/%s", n, change), func(b *testing.B) {
				_, tree := crowd(n, 0)
				l := lay(b)
				var objects, pods []Seen
				for i, name := range tree.Names() {
					q, _ := tree.Get(name)
					objects = append(objects, Seen{Key: "quotas/" + name, Version: "1", Object: q, Record: `{"by":"r"}`})
					pods = append(pods, seenPod(makePod(name+"/p", name, "cpu=1 memory=1Gi"), i+1))
				}
				l.Quotas().Replace(objects, "1")
				l.Pods().Replace(pods, "1")
				changed := *objects[n/2].Object.(*quota.Quota)
				switch change {
				case "limits":
					changed.Max = amounts("cpu=1")
				case "parent":
					changed.Parent = "q20"
				}
				trees := []*quota.Tree{tree, tree.With(map[types.NamespacedName]*quota.Quota{changed.Identity(): &changed})}
				ask, i := askIn(tree, 5), 0
				b.ReportAllocs()
				for b.Loop() {
					i++
					l.known.Store(trees[i%2])
					if v, err := l.Judge(context.Background(), ask); v.Excess != nil || err != nil {
						b.Fatal(v, err)
					}
				}
			})
		}
	}
}

// The cost of a decision does not depend on the number of pods or quotas. A factor of ten is allowed for a busy
// machine.
func TestCostDoesNotGrow(t *testing.T) {
	cost := func(quotas, pods int) time.Duration {
		l, tree := crowd(quotas, pods)
		ask := askIn(tree, 5)
		best := time.Hour
		for range 50 {
			start := time.Now()
			if _, err := l.Judge(context.Background(), ask); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	if few, many := cost(10, 0), cost(1_000, 20_000); many > 10*few {
		t.Errorf("%s among few, %s among many", few, many)
	}
}
