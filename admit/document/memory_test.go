package document

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"usher.dev/usher/admit/document/internal/json"
)

// TestMemoryOfValues: a document takes 24 bytes for each value, and up to 16 for each key of a large object, however it
// is made up. To scan it leaves little more than that as garbage, which is memory, too, until it is collected.
func TestMemoryOfValues(t *testing.T) {
	list := func(one string, n int) string { return "[" + one + strings.Repeat(","+one, n-1) + "]" }
	var large strings.Builder // objects with different keys, since how many of them collide depends on the seed of the hash
	for i := range 480_000 / (3 * json.ManyKeys) {
		large.WriteString("," + membersFrom(i*(json.ManyKeys+1), json.ManyKeys+1))
	}
	for name, test := range map[string]struct {
		raw  string
		most uint64 // bytes allocated for each value
	}{
		"numbers":               {list("0", 480_000), 32},
		"empty objects":         {list("{}", 480_000), 32},
		"one object":            {manyMembers(160_000), 160}, // half of its keys are unquoted whenever the table grows
		"large objects":         {"[" + large.String()[1:] + "]", 160},
		"two keys with escapes": {list(`{"\/":0,"a":0}`, 160_000), 80},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after, kept runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			d, err := Parse([]byte(test.raw))
			runtime.ReadMemStats(&after)
			runtime.GC()
			runtime.ReadMemStats(&kept)
			if err != nil {
				t.Fatal(err)
			}
			values := uint64(d.tape.Len())
			made := (after.TotalAlloc - before.TotalAlloc - uint64(len(test.raw))) / values
			keeps := (kept.HeapAlloc - before.HeapAlloc - uint64(len(test.raw))) / values
			if text := fmt.Sprintf("%d bytes allocated for each of %d values, %d kept", made, values, keeps); made > test.most || keeps > 40 {
				t.Error(text)
			} else {
				t.Log(text)
			}
			runtime.KeepAlive(d)
		})
	}
}

// TestAppendTextsMakesNoHandles: to look for an element of a large list, and to append others, takes no memory for those
// that are there. They are in the list nevertheless, also after an edit that was undone.
func TestAppendTextsMakesNoHandles(t *testing.T) {
	d := parse(t, `{"env":[{"name":"first"}`+strings.Repeat(`,{}`, 1000)+`]}`)
	env := d.Root().Get("env")
	undone := d.Try(func() error {
		env.AppendTexts(TextMember{"name", "undone"})
		return errors.New("undo it")
	})
	for _, name := range []string{"second", "third"} {
		if env.HasElement("name", name) {
			t.Errorf("there is %s", name)
		}
		env.AppendTexts(TextMember{"name", name})
	}
	for _, name := range []string{"first", "second", "third"} {
		if !env.HasElement("name", name) {
			t.Errorf("there is no %s", name)
		}
	}
	if n := len(d.memory.slabs); n != 1 || undone == nil {
		t.Errorf("%d slabs of handles", n)
	}
	same(t, "the patch", string(d.PatchJSON()), `[{"op":"add","path":"/env/-","value":{"name":"second"}},{"op":"add","path":"/env/-","value":{"name":"third"}}]`)
	if all := collect(env); len(all) != 1003 || all[1002].Get("name").Text() != "third" || env.HasElement("name", "undone") {
		t.Errorf("%d elements", len(all))
	}
}
