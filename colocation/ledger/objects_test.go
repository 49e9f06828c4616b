package ledger

import "testing"

// TestObjectsReached: each call of the watch is signalled and raises the version, and an own write does neither.
func TestObjectsReached(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	q, _ := b.tree.Get("q")
	for _, c := range []struct {
		what   string
		how    func()
		want   string
		silent bool
	}{
		{"a list", func() { b.Quotas().Replace([]Seen{{Version: "3", Object: q}}, "4") }, "4", false},
		{"a change", func() { b.Quotas().Put(Seen{Version: "6", Object: q}) }, "6", false},
		{"one that does not decode", func() { b.Quotas().Put(Seen{Version: "7"}) }, "7", false},
		{"a bookmark", func() { b.Quotas().Reached("9") }, "9", false},
		{"an older one", func() { b.Quotas().Reached("8") }, "9", false},
		{"a write", func() { b.objects.update(Object{Quota: q, Version: "11"}) }, "9", true},
		{"a removal", func() { b.Quotas().Remove(Seen{Version: "12", Object: q}) }, "12", false},
	} {
		changed := b.objects.change()
		c.how()
		expect(t, c.what, b.objects.reached(), c.want)
		select {
		case <-changed:
			expect(t, c.what+": signalled", true, !c.silent)
		default:
			expect(t, c.what+": signalled", false, !c.silent)
		}
	}
}

// TestOverwrite: what was read after a failed write replaces the version that failed, also by an older one, but not what
// the watch has brought in the meantime.
func TestOverwrite(t *testing.T) {
	for _, c := range []struct{ known, failed, read, want string }{
		{"5", "5", "7", "7"}, {"5", "5", "4", "4"}, {"9", "5", "7", "9"}, {"6", "5", "7", "7"},
	} {
		b := lay(t, makeQuota("q", "", "cpu=9"))
		q, _ := b.tree.Get("q")
		b.objects.update(Object{Quota: q, Version: c.known})
		b.objects.overwrite(Object{Quota: q, Version: c.read}, c.failed)
		now, _ := b.objects.get(keyOf(q))
		expect(t, c.known+" read "+c.read, now.Version, c.want)
	}
}

// TestStaleList: a list from a cache that is older than a write of this replica does not replace what was written: others may
// still spend the grants in it. A list older than the watch comes from a store that was restored from a backup.
func TestStaleList(t *testing.T) {
	for _, c := range []struct{ list, want string }{{"4", "7"}, {"6", "7"}, {"7", "7"}, {"9", "9"}, {"3", "3"}} {
		b := lay(t, makeQuota("q", "", "cpu=9"))
		q, _ := b.tree.Get("q")
		b.Quotas().Reached("4")
		b.objects.update(Object{Quota: q, Version: "7", Record: `{}`})
		b.Quotas().Replace([]Seen{{Version: c.list, Object: q}}, c.list)
		now, _ := b.objects.get(keyOf(q))
		expect(t, "a list at "+c.list, now.Version, c.want)
	}
}

// TestListedTree: a list that lacks a quota is a change of the tree, and after a restore from a backup the quotas are known up to
// the list only.
func TestListedTree(t *testing.T) {
	b := lay(t, makeQuota("q", "", "cpu=9"))
	q, _ := b.tree.Get("q")
	b.Quotas().Replace([]Seen{{Version: "3", Object: q}}, "4")
	b.Quotas().Replace([]Seen{{Version: "3", Object: q}}, "6")
	expect(t, "the same", b.objects.treeVersion("9"), "3")
	b.Quotas().Replace(nil, "8")
	expect(t, "one less", b.objects.treeVersion("9"), "8")
	b.Quotas().Replace([]Seen{{Version: "3", Object: q}}, "5")
	expect(t, "restored", b.objects.reached(), "5")
}
