package colocation

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/internal/poll"
)

const newQuota = `{"apiVersion":"scheduling.sigs.k8s.io/v1alpha1","kind":"ElasticQuota","metadata":{"namespace":"quotas","name":"new"}}`

// quotasIn returns the quotas of a cluster in a directory, which is watched like an API server. Its tests run on synctest's
// clock, since await gives up after a moment.
func quotasIn(t *testing.T, dir string) *quotas {
	c, err := cluster.Files(dir, cluster.Options{Catalogue: collections.Catalogue(types.NamespacedName{}, types.NamespacedName{}),
		Needs: []string{api.CollectionElasticQuotas}, Poll: poll.Times{Every: 5 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	go c.Run(t.Context())
	return &quotas{watched: true, cluster: c}
}

// TestAwaitQuota: await waits for a quota that another replica has just admitted, and reads the tree again only after a
// change.
func TestAwaitQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		q := quotasIn(t, dir)
		asked := 0
		tree, err := q.await(t.Context(), "new", func() (*quota.Tree, error) {
			if asked++; asked == 1 {
				if err := os.WriteFile(filepath.Join(dir, "new.json"), []byte(newQuota), 0o600); err != nil {
					t.Error(err)
				}
				return quota.NewTree(nil), nil
			}
			return quota.NewTree([]*quota.Quota{{Name: "new"}}), nil
		})
		if err != nil || asked != 2 || tree.Len() != 1 {
			t.Errorf("asked %d times, %d quotas, %v", asked, tree.Len(), err)
		}
		if tree, err := q.tree(t.Context(), "new"); err != nil || tree.Len() != 1 {
			t.Errorf("what the cluster shows: %v, %v", tree, err)
		}
	})
}

// TestAwaitNoQuota: await gives up on a missing quota after a moment, when its caller does, and at once with files.
func TestAwaitNoQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := quotasIn(t, t.TempDir())
		asked := 0
		never := func() (*quota.Tree, error) { asked++; return quota.NewTree(nil), nil }
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for _, name := range []string{"", "koordinator-root-quota", "never"} {
			asked = 0
			if tree, err := q.await(ctx, name, never); err != nil || tree == nil || asked != 1 || (ctx.Err() != nil) != (name == "never") {
				t.Errorf("%q: asked %d times, %v, %v", name, asked, err, ctx.Err())
			}
		}
		if _, err := q.await(t.Context(), "never", never); err != nil {
			t.Error(err)
		}
		asked = 0
		if _, err := (&quotas{}).await(t.Context(), "never", never); err != nil || asked != 1 {
			t.Errorf("with files: asked %d times, %v", asked, err)
		}
	})
}

// TestAwaitAsks: await asks the API server for a quota that the watch has not shown, once, and does not wait for a
// missing one.
func TestAwaitAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		q := quotasIn(t, dir)
		var names []string
		there, failed := false, error(nil)
		q.exists = func(_ context.Context, name string) (bool, error) {
			names = append(names, name)
			other := strings.Replace(newQuota, `"new"`, fmt.Sprintf(`"other-%d"`, q.asked.Load()), 1) // a change while it waits
			if err := os.WriteFile(filepath.Join(dir, "other.json"), []byte(other), 0o600); err != nil {
				t.Error(err)
			}
			return there, failed
		}
		shown := quota.NewTree([]*quota.Quota{{Name: "shown"}})
		tree := func() (*quota.Tree, error) { return shown, nil }
		waits := func(name string) bool {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if found, err := q.await(ctx, name, tree); err != nil || found != shown {
				t.Errorf("%s: %v, %v", name, found, err)
			}
			return ctx.Err() != nil
		}
		for _, c := range []struct {
			name        string
			there       bool
			failed      error
			asks, waits bool
		}{
			{name: "shown"}, {name: ""}, {name: api.DefaultQuota}, {name: "typo", asks: true}, {name: "typo", asks: true},
			{name: "new", there: true, asks: true, waits: true}, {name: "new", failed: context.DeadlineExceeded, asks: true, waits: true},
		} {
			names, there, failed = nil, c.there, c.failed
			if waited := waits(c.name); waited != c.waits || (len(names) == 1 && names[0] == c.name) != c.asks || len(names) > 1 {
				t.Errorf("%+v: waited %v, asked for %q", c, waited, names)
			}
		}
		names = nil
		q.asking.Store(maxAsking)
		if !waits("typo") || len(names) > 0 || q.asking.Load() != maxAsking || q.asked.Load() != 4 {
			t.Errorf("with enough questions under way: asked for %q, %d in all", names, q.asked.Load())
		}
	})
}
