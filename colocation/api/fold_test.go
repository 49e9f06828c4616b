package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// TestParseFolded: what encoding/json decodes, and at which places other readers would see something else.
func TestParseFolded(t *testing.T) {
	const terms = `"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[`
	for text, want := range map[string][]string{
		`{"name":"a","later":{"X":1,"x":2}}`:                                nil,
		`{"NAME":"a"}`:                                                      {"at.NAME: is read, but should be written name"},
		`{"name":"a","name":"b"}`:                                           {"at.name: is there twice, and the last one counts; remove the others"},
		`{"name":"a","Name":"b"}`:                                           {"at.Name: is read", "at.Name: is there twice"},
		`{"Name":"a","name":"b"}`:                                           {"at.Name: is read", "at.name: is there twice"},
		`{"reservationSelector":{"k":"1","K":"2"}}`:                         nil,
		`{"reservationSelector":{"k":"1","k":"2"}}`:                         {"at.reservationSelector.k: is there twice"},
		`{"reservationselector":{"k":"1"}}`:                                 {"at.reservationselector: is read"},
		`{` + terms + `{"matchexpressions":[{"KEY":"a"}]}]}}`:               {"[0].matchexpressions: is read", "[0].matchexpressions[0].KEY: is read"},
		`{"reservationSelector":{"a":"1"},"reservationSelector":{"b":"2"}}`: {"is there twice"},
		`{"tolerations":[{"tolerationSeconds":9007199254740993,"tolerationseconds":9007199254740995}]}`: {"is read", "is there twice"},
		`{"name":"<&>","name":"<&>"}`: {"is there twice"},
		`null`:                        nil,
	} {
		got, warnings, err := ParseFolded[ReservationAffinity](field.NewPath("at"), text)
		var other ReservationAffinity
		if wrong := json.Unmarshal([]byte(text), &other); wrong != nil || err != nil {
			t.Fatalf("%s: %v, %v", text, wrong, err)
		}
		if diff := cmp.Diff(other, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if !slices.EqualFunc(warnings, want, strings.Contains) {
			t.Errorf("%s: warnings %q, want %q", text, warnings, want)
		}
	}
	for _, text := range []string{``, `{`, `{} x`, `[]`, `{"name":5}`, `{"NAME":5}`, "{\"name\":\"\xff\"}", strings.Repeat("[", 20_000),
		`{"NAME":"a","x":[` + strings.Repeat("0,", document.MaxDecoded) + `0]}`} {
		if got, warnings, err := ParseFolded[ReservationAffinity](field.NewPath("at"), text); err == nil || !cmp.Equal(got, ReservationAffinity{}) {
			t.Errorf("%.30s: %+v, %q", text, got, warnings)
		}
	}
}
