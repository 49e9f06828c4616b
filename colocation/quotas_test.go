package colocation

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/cluster"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/poll"
)

const newQuota = `{"apiVersion":"scheduling.sigs.k8s.io/v1alpha1","kind":"ElasticQuota","metadata":{"namespace":"quotas","name":"new"}}`

// quotasIn returns the quotas of a cluster in a directory, which is watched like an API server.
func quotasIn(t *testing.T, dir string) *quotas {
	c, err := cluster.Files(dir, cluster.Options{Catalogue: collections.Catalogue(types.NamespacedName{}, types.NamespacedName{}),
		Needs: []string{api.CollectionElasticQuotas}, Poll: poll.Times{Every: 5 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	go c.Run(t.Context())
	q := &quotas{watched: true}
	q.cluster.Store(c)
	return q
}

// TestAwaitQuota: await waits for a quota that another replica has just admitted, and reads the tree again only after a
// change.
func TestAwaitQuota(t *testing.T) {
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
}

// TestAwaitNoQuota: await gives up on a missing quota after a moment, when its caller does, and at once with files.
func TestAwaitNoQuota(t *testing.T) {
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
}
