package mutators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/views"
)

// quotas are the quotas of the tests: a parent in a tree, and one in none.
func quotas(context.Context, string) (*quota.Tree, error) {
	return quota.NewTree([]*quota.Quota{
		{Namespace: "n", Name: "in-tree", Parent: api.RootQuota, IsParent: true, TreeID: "tree-1"},
		{Namespace: "n", Name: "no-tree", Parent: api.RootQuota, IsParent: true},
	}), nil
}

// afterQuotaSteps runs the steps on a quota and returns the result or the refusal. A second run must change nothing.
func afterQuotaSteps(t *testing.T, tree quotaTree, object, old string) (after, refusal string) {
	t.Helper()
	chain := admit.Mutate(views.AsElasticQuota, ElasticQuotas(tree, nil))
	for _, again := range []bool{false, true} {
		req := &admit.Request{Operation: admissionv1.Create, Object: parsedQuota(t, object)}
		if old != "" {
			req.Operation, req.OldObject = admissionv1.Update, parsedQuota(t, old)
		}
		result, err := chain.Run(t.Context(), req, nil)
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		if len(result.Problems) > 0 {
			return "", result.Problems[0].Step + ": " + result.Problems[0].Error.Error()
		}
		ops := req.Object.PatchJSON()
		if again && ops != nil {
			t.Errorf("the second run on %s gives %s", object, ops)
		}
		if ops != nil {
			patch, err := jsonpatch.DecodePatch(ops)
			if err != nil {
				t.Fatal(err)
			}
			patched, err := patch.Apply([]byte(object))
			if err != nil {
				t.Fatalf("%s: %v", ops, err)
			}
			object = string(patched)
		}
	}
	return object, ""
}

func parsedQuota(t *testing.T, raw string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return d
}

// quotaJSON returns a quota with a parent, a shared weight (- for none) and a max.
func quotaJSON(parent, tree, weight, most string) string {
	labels, annotations := map[string]string{"keep": "me"}, map[string]string{}
	if parent != "-" {
		labels[api.LabelQuotaParent] = parent
	}
	if tree != "" {
		labels[api.LabelQuotaTreeID] = tree
	}
	if weight != "-" {
		annotations[api.AnnotationQuotaSharedWeight] = weight
	}
	meta, _ := json.Marshal(map[string]any{"name": "q", "labels": labels, "annotations": annotations})
	return fmt.Sprintf(`{"metadata":%s,"spec":{"max":%s,"future":[1]},"future":{}}`, meta, most)
}

// tellQuota describes what the step sets: parent, tree id, weight.
func tellQuota(t *testing.T, raw string) string {
	t.Helper()
	q := views.AsElasticQuota(parsedQuota(t, raw))
	weight, has := q.Annotation(api.AnnotationQuotaSharedWeight)
	if !has {
		weight = "-"
	}
	if !strings.Contains(raw, `"future":[1]`) || !strings.Contains(raw, `"future":{}`) || strings.Contains(raw, "status") {
		t.Errorf("the step touched what it does not know: %s", raw)
	}
	return strings.TrimSpace(strings.TrimPrefix(q.Label(api.LabelQuotaParent), "koordinator-") + " " + q.Label(api.LabelQuotaTreeID) + " " + weight)
}

// A new quota.
func TestQuotaDefaults(t *testing.T) {
	const both = `{"cpu":120,"memory":"1048576"}`
	for _, c := range []struct{ about, object, want string }{
		{"nothing set", quotaJSON("-", "", "-", both), `root-quota  {"cpu":"120","memory":"1048576"}`},
		{"empty parent and weight", quotaJSON("", "", "", both), `root-quota  {"cpu":"120","memory":"1048576"}`},
		{"a child outside of trees", quotaJSON("no-tree", "", "-", both), `no-tree  {"cpu":"120","memory":"1048576"}`},
		{"a child in a tree", quotaJSON("in-tree", "", "-", both), `in-tree tree-1 {"cpu":"120","memory":"1048576"}`},
		{"another tree id", quotaJSON("in-tree", "own", "-", both), `in-tree own {"cpu":"120","memory":"1048576"}`},
		{"a tree id, and an unknown parent", quotaJSON("lost", "own", "-", both), `lost own {"cpu":"120","memory":"1048576"}`},
		{"below the root, with a tree id", quotaJSON("koordinator-root-quota", "own", "-", both), `root-quota own {"cpu":"120","memory":"1048576"}`},
		{"weight of zero", quotaJSON("-", "", `{"cpu":0,"memory":"0"}`, both), `root-quota  {"cpu":0,"memory":"0"}`},
		{"weight in another order, with blanks", quotaJSON("-", "", ` {"memory": "1Gi", "cpu": "1000m"}`, both), `root-quota   {"memory": "1Gi", "cpu": "1000m"}`},
		{"weight has too much", quotaJSON("-", "", `{"cpu":"0","memory":"0"}`, `{"memory":1}`), `root-quota  {"memory":"0"}`},
		{"weight lacks one", quotaJSON("-", "", `{"cpu":"0"}`, both), `root-quota  {"cpu":"0","memory":"1048576"}`},
		{"weight has another one", quotaJSON("-", "", `{"cpu":"0"}`, `{"memory":"1048576"}`), `root-quota  {"memory":"1048576"}`},
		{"no max", quotaJSON("-", "", "-", "null"), `root-quota  {}`},
		{"empty max", quotaJSON("-", "", "-", "{}"), `root-quota  {}`},
		{"weight without max", quotaJSON("-", "", `{"cpu":"1"}`, "null"), `root-quota  {}`},
		{"the text null", quotaJSON("-", "", "null", both), `root-quota  {"cpu":"120","memory":"1048576"}`},
		{"the text null without max", quotaJSON("-", "", "null", "null"), `root-quota  {}`},
		{"canonical", quotaJSON("-", "", "-", `{"memory":"1024Mi","cpu":"1000m"}`), `root-quota  {"cpu":"1","memory":"1Gi"}`},
		{"the default quota", strings.Replace(quotaJSON("-", "", "-", both), `"q"`, `"koordinator-default-quota"`, 1), `root-quota  {"cpu":"120","memory":"1048576"}`},
		{"the root quota", strings.Replace(quotaJSON("-", "", "-", both), `"q"`, `"koordinator-root-quota"`, 1), `-`},
	} {
		after, refusal := afterQuotaSteps(t, quotas, c.object, "")
		if refusal != "" {
			t.Errorf("%s: %s", c.about, refusal)
		} else if got := tellQuota(t, after); got != c.want {
			t.Errorf("%s: %s, want %s", c.about, got, c.want)
		}
	}
	const least = `{"metadata":{"annotations":{"quota.scheduling.koordinator.sh/shared-weight":"{}"},"labels":{"quota.scheduling.koordinator.sh/parent":"koordinator-root-quota"}}}`
	if after, refusal := afterQuotaSteps(t, quotas, `{}`, ""); refusal != "" || !jsonpatch.Equal([]byte(after), []byte(least)) {
		t.Error(after, refusal)
	}
}

func TestQuotaDefaultsRefuse(t *testing.T) {
	for _, c := range []struct{ object, want string }{
		{quotaJSON("lost", "", "-", "{}"), `quota-defaults: metadata.labels[quota.scheduling.koordinator.sh/parent]: Invalid value: "lost": there is no such quota; create the parent first`},
		{quotaJSON("-", "", `{"cpu":`, "{}"), `quota-defaults: metadata.annotations[quota.scheduling.koordinator.sh/shared-weight]: Invalid value: "{\"cpu\":": `},
		{quotaJSON("-", "", `{"cpu":"1e-5000000"}`, "{}"), `cpu: not a quantity`},
		{quotaJSON("-", "", `{"cpu":"1","cpu":"2"}`, "{}"), `shared-weight]: Invalid value`},
		{quotaJSON("-", "", "-", `{"cpu":"lots"}`), `quota-defaults: spec.max`},
	} {
		if _, refusal := afterQuotaSteps(t, quotas, c.object, ""); !strings.Contains(refusal, c.want) {
			t.Errorf("%s: %s, want %s", c.object, refusal, c.want)
		}
	}
	broken := errors.New("not synced")
	chain := admit.Mutate(views.AsElasticQuota, ElasticQuotas(func(context.Context, string) (*quota.Tree, error) { return nil, broken }, nil))
	for parent, want := range map[string]error{"in-tree": broken, "-": nil} { // a quota that needs no tree does not wait for it
		req := &admit.Request{Operation: admissionv1.Create, Object: parsedQuota(t, quotaJSON(parent, "", "-", "{}"))}
		if _, err := chain.Run(t.Context(), req, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", parent, err)
		}
	}
}

// On update only the weight follows max; everything else is unchanged.
func TestQuotaDefaultsOnUpdate(t *testing.T) {
	const one, both = `{"cpu":"2"}`, `{"cpu":"4","memory":"1Gi"}`
	for _, c := range []struct{ about, object, old, want string }{
		{"max gets one more", quotaJSON("-", "", `{"cpu":"7"}`, both), quotaJSON("-", "", `{"cpu":"7"}`, one), `{"cpu":"7","memory":"1Gi"}`},
		{"max loses one", quotaJSON("-", "", `{"cpu":"7","memory":"7"}`, one), quotaJSON("-", "", `{"cpu":"7","memory":"7"}`, both), `{"cpu":"7"}`},
		{"max goes", quotaJSON("-", "", `{"cpu":"7"}`, "null"), quotaJSON("-", "", `{"cpu":"7"}`, one), `{}`},
		{"max comes, and the text was null", quotaJSON("-", "", "null", one), quotaJSON("-", "", "null", "null"), `{"cpu":"2"}`},
		{"max comes, and there was no weight", quotaJSON("-", "", "-", one), quotaJSON("-", "", "-", "null"), `{"cpu":"2"}`},
		{"max has other amounts", quotaJSON("-", "", `{"x":"7"}`, `{"cpu":"3"}`), quotaJSON("-", "", `{"x":"7"}`, one), `{"x":"7"}`},
		{"nothing changes", quotaJSON("-", "", `{"x":"7"}`, one), quotaJSON("-", "", `{"x":"7"}`, one), `{"x":"7"}`},
		{"nothing changes, and it does not parse", quotaJSON("-", "", `{`, one), quotaJSON("-", "", `{`, one), `{`},
		{"max changes, and it does not parse", quotaJSON("-", "", `{`, both), quotaJSON("-", "", `{`, one), `{`},
		{"the weight loses one", quotaJSON("-", "", `{"cpu":"7"}`, both), quotaJSON("-", "", `{"cpu":"7","memory":"1"}`, both), `{"cpu":"7","memory":"1Gi"}`},
		{"the weight goes", quotaJSON("-", "", `-`, one), quotaJSON("-", "", `{"cpu":"7"}`, one), `{"cpu":"2"}`},
		{"the weight and max get one more", quotaJSON("-", "", ` {"memory":"5","cpu":"7"}`, both), quotaJSON("-", "", `{"cpu":"7"}`, one), `{"memory":"5","cpu":"7"}`},
		{"the stored one is unreadable", quotaJSON("-", "", `{"x":"7"}`, one), quotaJSON("-", "", `{"x":"7"}`, `{"cpu":"lots"}`), `{"cpu":"2"}`},
		{"both are unreadable", quotaJSON("-", "", `{"x":"7"}`, `{"cpu":"lots"}`), quotaJSON("-", "", `{"x":"7"}`, `{"cpu":"lots"}`), `{"x":"7"}`},
		{"the root quota", strings.Replace(quotaJSON("-", "", `{"cpu":"7"}`, both), `"q"`, `"koordinator-root-quota"`, 1), quotaJSON("-", "", `{"cpu":"7"}`, one), `{"cpu":"7"}`},
	} {
		after, refusal := afterQuotaSteps(t, quotas, c.object, c.old)
		if refusal != "" {
			t.Errorf("%s: %s", c.about, refusal)
		} else if got := tellQuota(t, after); got != c.want {
			t.Errorf("%s: %s, want %s", c.about, got, c.want)
		}
	}
	if _, refusal := afterQuotaSteps(t, quotas, quotaJSON("-", "", `{`, one), quotaJSON("-", "", "-", one)); !strings.Contains(refusal, "shared-weight]: Invalid value") {
		t.Errorf("a weight that does not parse comes: %s", refusal)
	}
	req := &admit.Request{Operation: admissionv1.Update, Object: parsedQuota(t, quotaJSON("-", "", "-", both))}
	if _, err := admit.Mutate(views.AsElasticQuota, ElasticQuotas(quotas, nil)).Run(t.Context(), req, nil); err != nil || req.Object.Edits() > 0 {
		t.Errorf("an update without the stored quota: %v, %s", err, req.Object.PatchJSON())
	}
}

// Only the ledger writes its record.
func TestQuotaReservations(t *testing.T) {
	object := func(annotations string) string {
		return `{"metadata":{"name":"koordinator-root-quota","annotations":` + annotations + `},"spec":{}}`
	}
	const text, other = `{"usher.dev/reservations":"[1]","a":"b"}`, `{"usher.dev/reservations":"[2]","a":"b"}`
	for _, c := range []struct{ about, object, old, want string }{
		{"a new quota with a record", object(text), "", object(`{"a":"b"}`)},
		{"a new quota", object(`null`), "", object(`null`)},
		{"kept", object(text), object(text), object(text)},
		{"another one", object(other), object(text), object(text)},
		{"lost", object(`{"a":"b"}`), object(text), object(`{"a":"b","usher.dev/reservations":"[1]"}`)},
		{"lost with all others", object(`null`), object(text), object(`{"usher.dev/reservations":"[1]"}`)},
		{"made up", object(text), object(`{"a":"b"}`), object(`{"a":"b"}`)},
		{"emptied", object(`{"usher.dev/reservations":""}`), object(text), object(`{"usher.dev/reservations":"[1]"}`)},
		{"stored empty", object(text), object(`{"usher.dev/reservations":""}`), object(`{"a":"b","usher.dev/reservations":""}`)},
	} {
		after, refusal := afterQuotaSteps(t, quotas, c.object, c.old)
		if refusal != "" || !jsonpatch.Equal([]byte(after), []byte(c.want)) {
			t.Errorf("%s: %s %s, want %s", c.about, after, refusal, c.want)
		}
	}
}

// The record of a quota that moves says from which version.
func TestQuotaReservationsOfMoved(t *testing.T) {
	object := func(annotations, parent string) string {
		return `{"metadata":{"name":"q","resourceVersion":"7","annotations":` + annotations + `,"labels":{"quota.scheduling.koordinator.sh/parent":"` + parent + `"}}}`
	}
	moving := func(record, version string) string { return record + "from " + version }
	empty := func(record, _ string) string { return record }
	const namespaces = `"quota.scheduling.koordinator.sh/namespaces":"[]"`
	for _, c := range []struct{ about, object, old, want string }{
		{"moves, and nothing is to be noted", object(`{}`, "q"), object(`{}`, "p"), object(`{}`, "q")},
		{"stays", object(`{"a":"b"}`, "p"), object(`{"a":"c"}`, "p"), object(`{"a":"b"}`, "p")},
		{"loses the label", object(`{}`, ""), object(`{}`, "koordinator-root-quota"), object(`{}`, "")},
		{"moves, without a record", object(`{}`, "q"), object(`{}`, "p"), object(`{"usher.dev/reservations":"from 7"}`, "q")},
		{"moves, with a record", object(`{"usher.dev/reservations":"?"}`, "q"), object(`{"usher.dev/reservations":"!"}`, "p"), object(`{"usher.dev/reservations":"!from 7"}`, "q")},
		{"gets namespaces", object(`{`+namespaces+`}`, "p"), object(`{}`, "p"), object(`{`+namespaces+`,"usher.dev/reservations":"from 7"}`, "p")},
	} {
		req := &admit.Request{Operation: admissionv1.Update, Object: parsedQuota(t, c.object), OldObject: parsedQuota(t, c.old)}
		step := quotaReservations(moving)
		if strings.Contains(c.about, "nothing is to be noted") {
			step = quotaReservations(empty)
		}
		if err := step.Run(t.Context(), req, views.AsElasticQuota(req.Object)); err != nil {
			t.Fatal(err)
		}
		after := c.object
		if ops := req.Object.PatchJSON(); ops != nil {
			patch, err := jsonpatch.DecodePatch(ops)
			if err != nil {
				t.Fatal(err)
			}
			patched, err := patch.Apply([]byte(after))
			if err != nil {
				t.Fatal(err)
			}
			after = string(patched)
		}
		if !jsonpatch.Equal([]byte(after), []byte(c.want)) {
			t.Errorf("%s: %s, want %s", c.about, after, c.want)
		}
	}
}
