package document

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// shelf is a type with every kind of field that Record distinguishes. The documents of the tests have also fields x.
type shelf struct {
	Label   string                       `json:"label,omitempty"`
	Open    *bool                        `json:"open,omitempty"`
	Room    map[string]resource.Quantity `json:"room,omitempty"`
	Books   []book                       `json:"books,omitempty" patchMergeKey:"title"`
	Notes   []book                       `json:"notes,omitempty"`
	Words   []string                     `json:"words"`
	Owner   *book                        `json:"owner,omitempty"`
	Private string                       `json:"-"`
	book    `json:",inline"`
}

type book struct {
	Title string `json:"title"`
	Pages int    `json:"pages,omitempty"`
}

func TestRecord(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		change    func(*shelf)
		want      string
	}{
		{"nothing", `{"x":1,"books":[{"x":1}]}`, func(*shelf) {}, ``},
		{"nothing in place of nothing", `{"books":[],"room":null}`, func(s *shelf) { s.Books, s.Room = nil, map[string]resource.Quantity{} }, ``},
		{"scalar", `{}`, func(s *shelf) { s.Label = "a" }, `add /label "a"`},
		{"scalar emptied", `{"label":"a","x":1}`, func(s *shelf) { s.Label = "" }, `remove /label`},
		{"list emptied without omitempty", `{"words":["a"]}`, func(s *shelf) { s.Words = []string{} }, `replace /words []`},
		{"pointer to the zero value", `{}`, func(s *shelf) { s.Open = new(bool) }, `add /open false`},
		{"pointer to a struct", `{"owner":{"title":"a","x":1}}`, func(s *shelf) { s.Owner.Pages = 2 }, `add /owner/pages 2`},
		{"struct created", `{"owner":null}`, func(s *shelf) { s.Owner = &book{} }, `replace /owner {"title":""}`},
		{"struct removed", `{"owner":{"x":1}}`, func(s *shelf) { s.Owner = nil }, `remove /owner`},
		{"inline, and not encoded", `{}`, func(s *shelf) { s.Pages, s.Private = 3, "p" }, `add /pages 3`},
		{"map", `{"room":{"a":"1","b":"1Ki","c":"3"}}`, func(s *shelf) {
			s.Room = map[string]resource.Quantity{"a": resource.MustParse("1000m"), "b": resource.MustParse("2"), "d": resource.MustParse("4")}
		}, `remove /room/c; replace /room/b "2"; add /room/d "4"`},
		{"element changed", `{"books":[{"title":"a","x":1},{"title":"b","x":2}]}`,
			func(s *shelf) { s.Books[1].Pages = 1 }, `add /books/1/pages 1`},
		{"null element changed", `{"books":[null]}`, func(s *shelf) { s.Books[0].Pages = 1 }, `replace /books/0 {"pages":1}`},
		{"first of two with one key removed", `{"books":[{"title":"a","pages":1,"x":1},{"title":"a","pages":2,"x":2}]}`,
			func(s *shelf) { s.Books = s.Books[1:] }, `remove /books/0`},
		{"removed, changed and inserted", `{"books":[{"title":"a","x":1},{"title":"b","x":2},{"title":"c","x":3}]}`,
			func(s *shelf) { s.Books = []book{{"n", 1}, {"b", 7}, {"m", 2}, {"c", 0}, {"o", 3}} },
			`remove /books/0; add /books/0 {"title":"n","pages":1}; add /books/1/pages 7; add /books/2 {"title":"m","pages":2}; add /books/- {"title":"o","pages":3}`},
		{"order changed", `{"books":[{"title":"a","x":1},{"title":"b","x":2}]}`,
			func(s *shelf) { s.Books = []book{{"b", 5}, {"n", 0}, s.Books[0]} },
			`replace /books [{"title":"b","x":2,"pages":5},{"title":"n"},{"title":"a","x":1}]`},
		{"no key: changed in place", `{"notes":[{"title":"a","x":1},{"title":"b","x":2}]}`,
			func(s *shelf) { s.Notes[0].Title = "c" }, `replace /notes/0/title "c"`},
		{"no key: first removed", `{"notes":[{"title":"a","x":1},{"title":"b","x":2}]}`,
			func(s *shelf) { s.Notes = s.Notes[1:] }, `remove /notes/0`},
		{"plain values", `{"words":["a","b"]}`, func(s *shelf) { s.Words = []string{"x", "a", "b", ""} }, `add /words/0 "x"; add /words/- ""`},
		{"list replaced by the same", `{"words":["a"]}`, func(s *shelf) { s.Words = []string{"a"} }, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, test.raw)
			before, after := As[shelf](d.Root()), As[shelf](d.Root())
			test.change(&after)
			Record(d.Root(), before, after)
			if got := strings.ReplaceAll(patchText(d), "\n", "; "); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}
