package ledger

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"usher.dev/usher/colocation/api"
)

func TestRecordText(t *testing.T) {
	r := record{Seen: "12", Pods: []reservation{
		{UID: "u1", Pod: "a/p", Quota: "q", Request: api.ResourceList(amounts("cpu=500m memory=1Gi")), At: 1700000000123, By: "r1"},
		{Pod: "a/\"p\"", Quota: "q", Request: api.ResourceList(amounts("")), Update: true, By: "r2"},
	}}
	text := recordOf(t, r.Seen, r.Pods...)
	expect(t, "text", text, `{"seen":"12","pods":[{"uid":"u1","pod":"a/p","quota":"q","request":{"cpu":"500m","memory":"1Gi"},"at":1700000000123,"by":"r1"},`+
		`{"pod":"a/\"p\"","quota":"q","request":{},"update":true,"at":0,"by":"r2"}]}`)
	back, err := parseRecord(text)
	if err != nil || back.text() != text || len(back.Pods) != 2 || !equality.Semantic.DeepEqual(back.Pods[0].Request, r.Pods[0].Request) {
		t.Errorf("read back as %+v, %v", back, err)
	}
	if text := (record{By: "r1"}).text(); text != "" {
		t.Errorf("nothing to tell is %q", text)
	}
	if empty, err := parseRecord(""); err != nil || len(empty.Pods) != 0 || empty.Seen != "" {
		t.Errorf("no text is %+v, %v", empty, err)
	}
}

// TestRecordOfChanges: the parts of a record that concern the tree are written before the reservations.
func TestRecordOfChanges(t *testing.T) {
	r := record{Seen: "12", Tree: "9", By: "r1", Changes: []change{{Quota: "ns/q", From: "8", In: []string{"q", "top"}, At: 5, By: "r2"}}}
	text := r.text()
	expect(t, "text", text, `{"seen":"12","tree":"9","by":"r1","changes":[{"quota":"ns/q","from":"8","in":["q","top"],"at":5,"by":"r2"}],"pods":[]}`)
	if back, err := parseRecord(text); err != nil || back.text() != text {
		t.Errorf("read back as %+v, %v", back, err)
	}
	expect(t, "the tree alone", record{Tree: "9"}.text(), `{"tree":"9","pods":[]}`)
}

// A damaged record is replaced by an empty one, and the observed pods still count.
func TestDamagedRecord(t *testing.T) {
	for _, text := range []string{"{", `{"pods":3}`, "nonsense", `{"pods":[{"request":{"cpu":"many"}}]}`, `{"seen":"1","seen":"2"}`} {
		b := lay(t, makeQuota("q", "", "cpu=3"))
		b.Pods().Put(seenPod(makePod("q/there", "u0", "cpu=1"), 5))
		if _, err := parseRecord(text); err == nil {
			t.Errorf("%s parses", text)
		}
		made, err := b.plan(t, text, ask(makePod("q/p", "u1", "cpu=2")), ask(makePod("q/p2", "u2", "cpu=1")))
		if err != nil || made.verdicts[0].held == nil || made.verdicts[1].Excess == nil {
			t.Errorf("%s: %+v, %v", text, made, err)
		}
		if !strings.Contains(made.next.text(), `"q/p"`) {
			t.Errorf("%s becomes %s", text, made.next.text())
		}
	}
}
