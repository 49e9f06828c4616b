package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestChildRequests: each quota gets the sum of its own pods and its descendants', observed or reserved, and is written
// only if its annotation differs.
func TestChildRequests(t *testing.T) {
	b := lay(t, makeQuota("top", "", "cpu=10"), makeQuota("c", "top", "cpu=10"), makeQuota("idle", "top", "cpu=10"))
	b.Pods().Put(seenPod(shrinking("c/seen", "s", "cpu=1500m", "cpu=5"), 3)) // the scheduler expects the sum of the specs
	expect(t, "reserved", b.reserve(b.Ledger, ask(makePod("c/new", "n", "cpu=500m"))), "granted")
	var wrote []string
	write := func(_ context.Context, key types.NamespacedName, text string) error {
		wrote = append(wrote, key.Name+" "+text)
		object, _ := b.objects.get(key)
		object.ChildRequest = text
		b.objects.update(object)
		return nil
	}
	b.writeChildRequests(t.Context(), write)
	if want := []string{`c {"cpu":"2"}`, `top {"cpu":"2"}`}; !slices.Equal(wrote, want) {
		t.Errorf("wrote %v, not %v", wrote, want)
	}
	top, _ := b.tree.Get("top")
	said, _ := b.objects.get(keyOf(top))
	said.ChildRequest = `{"cpu":"2000m"}`
	b.objects.update(said)
	wrote = nil
	b.writeChildRequests(t.Context(), write)
	if len(wrote) > 0 {
		t.Errorf("wrote %v, although nothing has changed", wrote)
	}
	b.Pods().Remove(seenPod(makePod("c/seen", "s", "cpu=1500m"), 4))
	b.writeChildRequests(t.Context(), func(context.Context, types.NamespacedName, string) error { return errors.New("not now") })
	b.writeChildRequests(t.Context(), write)
	if want := []string{`c {"cpu":"500m"}`, `top {"cpu":"500m"}`}; !slices.Equal(wrote, want) {
		t.Errorf("wrote %v, not %v", wrote, want)
	}
}
