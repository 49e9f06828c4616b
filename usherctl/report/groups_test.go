package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// refusedPod returns the report of a pod of an owner that a step refuses.
func refusedPod(owner, name, why string) Report {
	id := "id-of-" + name
	return Report{Subject: Subject{Source: "dump.json:1", Kind: "Pod", Namespace: "shop", Name: name, Operation: "CREATE", Owner: owner}, Verdict: Denied,
		Before: json.RawMessage(`{"a":1}`), After: json.RawMessage(`{"a":"` + name + `"}`),
		Sections: Sections{Calls: []Call{{Path: "/validate-pods", Outcome: "denied", Refusal: id, Message: fmt.Sprintf("denied-names: %s %s (refusal %s)", name, why, id)}}}}
}

// TestGroups: pods of one owner of which the same is said are one group, whatever their names are; others are not.
func TestGroups(t *testing.T) {
	var g Groups
	var again []bool
	for _, r := range []Report{
		refusedPod("Deployment shop/web", "web-1", "is denied"),
		refusedPod("Deployment shop/web", "web-2", "is denied"),
		refusedPod("Deployment shop/web", "web-3", "is too long"),
		refusedPod("Job shop/web", "web-4", "is denied"),
		refusedPod("", "web-5", "is denied"),
		refusedPod("", "web-6", "is denied"),
		refusedPod("Deployment shop/web", "web-7", "is denied"),
	} {
		again = append(again, g.Add(r))
	}
	if want := []bool{false, true, false, false, false, false, true}; !slices.Equal(again, want) {
		t.Errorf("%v, want %v", again, want)
	}
	var text bytes.Buffer
	g.Text(&text, Style{}, func(r Report) bool { return r.Exit() != Fine })
	want := "denied  Deployment shop/web: 3 pods: denied-names: web-1 is denied (refusal id-of-web-1); one is web-1 (dump.json:1)\n\n"
	if text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	text.Reset()
	if g.Text(&text, Style{}, func(Report) bool { return false }); text.Len() > 0 {
		t.Errorf("groups that are not shown: %q", text.String())
	}
}

// TestLight: a report without its objects and steps has the same summary, exit code and reason.
func TestLight(t *testing.T) {
	r := refusedPod("", "web-1", "is denied")
	r.Calls[0].Steps = []Step{{Name: "denied-names"}}
	light := Light(r)
	if light.Before != nil || light.After != nil || light.Calls[0].Steps != nil || r.Calls[0].Steps == nil {
		t.Errorf("%+v of %+v", light, r)
	}
	full, _ := r.reason()
	if got, _ := light.reason(); got != full || light.Exit() != r.Exit() || Summary([]Report{light}) != Summary([]Report{r}) {
		t.Errorf("%s, %d, %s", got, light.Exit(), Summary([]Report{light}))
	}
}

// TestWriteOneByOne: reports are written as they come, as the list that they are.
func TestWriteOneByOne(t *testing.T) {
	all := []Report{refusedPod("Job a/b", "web-1", "no"), refusedPod("", "web-2", "no")}
	for n := range len(all) + 1 {
		var whole, single bytes.Buffer
		if err := WriteJSON(&whole, all[:n]); err != nil {
			t.Fatal(err)
		}
		seen := 0
		err := Write(&single, "json", "", func(yield func(Report) bool) {
			for _, r := range all[:n] {
				if strings.Count(single.String(), `"source"`) != seen || !yield(r) {
					t.Error("a report is not written before the next one is asked for")
				}
				seen++
			}
		})
		if err != nil || single.String() != whole.String() {
			t.Errorf("%v\n%s\nwant\n%s", err, single.String(), whole.String())
		}
	}
}
