package strategic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/admit/document"

	"usher.dev/usher/test/seed"
)

// TestMerge: each case is a pod, a patch, the operations and the result. A second merge must change nothing.
func TestMerge(t *testing.T) {
	cases := []struct{ name, raw, merge, patch, want string }{
		{"labels, one of them there", `{"metadata":{"labels":{"a":"1","b":"2"}}}`, `{"metadata":{"labels":{"a":"1","b":"3","c":"4"}}}`,
			"replace /metadata/labels/b \"3\"\nadd /metadata/labels/c \"4\"", `{"metadata":{"labels":{"a":"1","b":"3","c":"4"}}}`},
		{"no labels yet", `{"metadata":null}`, `{"metadata":{"labels":{"a":"1"}}}`,
			`replace /metadata {"labels":{"a":"1"}}`, `{"metadata":{"labels":{"a":"1"}}}`},
		{"null removes", `{"spec":{"nodeName":"n","x":null}}`, `{"spec":{"nodeName":null,"hostname":null,"x":null}}`,
			`remove /spec/nodeName`, `{"spec":{"x":null}}`},
		{"a new container goes before, unknown fields stay on theirs",
			`{"spec":{"containers":[{"name":"c","futureField":1,"image":"i"}]}}`, `{"spec":{"containers":[{"name":"side","image":"s","new":{"y":null}}]}}`,
			`add /spec/containers/0 {"image":"s","name":"side","new":{}}`,
			`{"spec":{"containers":[{"name":"side","image":"s","new":{}},{"name":"c","futureField":1,"image":"i"}]}}`},
		{"new elements around one that is merged", `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2},{"name":"c"}]}}`,
			`{"spec":{"containers":[{"name":"b","image":"i"},{"name":"x"},{"name":"y"}]}}`,
			"add /spec/containers/1/image \"i\"\nadd /spec/containers/2 {\"name\":\"x\"}\nadd /spec/containers/3 {\"name\":\"y\"}",
			`{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2,"image":"i"},{"name":"x"},{"name":"y"},{"name":"c"}]}}`},
		{"elements change places", `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2}]}}`,
			`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"b","image":"i"}]}}`,
			`replace /spec/containers [{"name":"b","u":2,"image":"i"},{"name":"a","u":1}]`,
			`{"spec":{"containers":[{"name":"b","u":2,"image":"i"},{"name":"a","u":1}]}}`},
		{"an order alone", `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2}]}}`,
			`{"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}]}}`, ``, `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2}]}}`},
		{"an element is deleted", `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2}]}}`,
			`{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`, `remove /spec/containers/0`, `{"spec":{"containers":[{"name":"b","u":2}]}}`},
		{"a list is replaced by directive", `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2}]}}`,
			`{"spec":{"containers":[{"name":"a"},{"$patch":"replace"}]}}`, `replace /spec/containers [{"name":"a"}]`, `{"spec":{"containers":[{"name":"a"}]}}`},
		{"a list without a key is replaced", `{"spec":{"tolerations":[{"key":"a"}]}}`, `{"spec":{"tolerations":[{"key":"b"}]}}`,
			`replace /spec/tolerations [{"key":"b"}]`, `{"spec":{"tolerations":[{"key":"b"}]}}`},
		{"plain values are merged", `{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"finalizers":["c","b"]}}`,
			`replace /metadata/finalizers ["c","a","b"]`, `{"metadata":{"finalizers":["c","a","b"]}}`},
		{"plain values are deleted", `{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}`,
			`replace /metadata/finalizers ["b"]`, `{"metadata":{"finalizers":["b"]}}`},
		{"a map is replaced by directive", `{"spec":{"nodeSelector":{"a":"1","b":"2"}}}`, `{"spec":{"nodeSelector":{"$patch":"replace","a":"1"}}}`,
			`replace /spec/nodeSelector {"a":"1"}`, `{"spec":{"nodeSelector":{"a":"1"}}}`},
		{"keys are retained", `{"spec":{"volumes":[{"name":"u"},{"name":"v","emptyDir":{},"unknown":1}]}}`,
			`{"spec":{"volumes":[{"$retainKeys":["name","hostPath"],"name":"v","hostPath":{"path":"/x"}}]}}`,
			"remove /spec/volumes/1/emptyDir\nremove /spec/volumes/1/unknown\nadd /spec/volumes/1/hostPath {\"path\":\"/x\"}",
			`{"spec":{"volumes":[{"name":"u"},{"name":"v","hostPath":{"path":"/x"}}]}}`},
		{"two ports of one number are two", `{"spec":{"containers":[{"name":"c","ports":[{"containerPort":53,"protocol":"UDP","u":1},{"containerPort":53,"protocol":"TCP","u":2}]}]}}`,
			`{"spec":{"containers":[{"name":"c","ports":[{"containerPort":53,"name":"dns"}]}]}}`,
			`add /spec/containers/0/ports/0/name "dns"`,
			`{"spec":{"containers":[{"name":"c","ports":[{"containerPort":53,"protocol":"UDP","u":1,"name":"dns"},{"containerPort":53,"protocol":"TCP","u":2}]}]}}`},
		{"unknown objects are merged, unknown lists replaced", `{"spec":{"future":{"a":{"b":1,"c":[{"name":"x"}]}}}}`,
			`{"spec":{"future":{"a":{"c":[{"name":"y"}],"d":2}}}}`,
			"replace /spec/future/a/c [{\"name\":\"y\"}]\nadd /spec/future/a/d 2", `{"spec":{"future":{"a":{"b":1,"c":[{"name":"y"}],"d":2}}}}`},
		{"directives do not leak into what is new", `{}`,
			`{"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"name":"c","env":[{"name":"A","$patch":"delete"},{"name":"B"}],"image":null}]}}`,
			`add /spec {"containers":[{"env":[{"name":"B"}],"name":"c"}]}`, `{"spec":{"containers":[{"name":"c","env":[{"name":"B"}]}]}}`},
		{"nor into an element that is new", `{"spec":{"containers":[{"name":"c"}]}}`,
			`{"spec":{"containers":[{"name":"d","env":[{"name":"A","$patch":"delete"},{"name":"B","value":null}],"resources":{"$patch":"replace"}}]}}`,
			`add /spec/containers/0 {"env":[{"name":"B"}],"name":"d","resources":{}}`, `{"spec":{"containers":[{"name":"d","env":[{"name":"B"}],"resources":{}},{"name":"c"}]}}`},
		{"what is replaced keeps its content in an element that is new", `{"spec":{"containers":[{"name":"c"}]}}`,
			`{"spec":{"containers":[{"name":"d","resources":{"$patch":"replace","limits":{"$patch":"replace","cpu":"1"}},"securityContext":{"capabilities":{"$patch":"delete","add":["X"]},"$patch":"replace","runAsUser":1}}]}}`,
			`add /spec/containers/0 {"name":"d","resources":{"limits":{"cpu":"1"}},"securityContext":{"runAsUser":1}}`,
			`{"spec":{"containers":[{"name":"d","resources":{"limits":{"cpu":"1"}},"securityContext":{"runAsUser":1}},{"name":"c"}]}}`},
		{"in a list that is new, the source of a volume", `{"spec":{}}`, `{"spec":{"volumes":[{"name":"v","$retainKeys":["name","emptyDir"],"emptyDir":{"$patch":"replace"}}]}}`,
			`add /spec/volumes [{"emptyDir":{},"name":"v"}]`, `{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}`},
		{"in an object that is absent", `{"spec":{"nodeSelector":null,"containers":[{"name":"c"}]}}`,
			`{"metadata":{"labels":{"$patch":"replace","a":"1"}},"spec":{"nodeSelector":{"$patch":"replace","b":"2"},"containers":[{"name":"c","lifecycle":{"preStop":{"$patch":"replace","sleep":{"seconds":1}}}}]}}`,
			"add /metadata {\"labels\":{\"a\":\"1\"}}\nadd /spec/containers/0/lifecycle {\"preStop\":{\"sleep\":{\"seconds\":1}}}\nreplace /spec/nodeSelector {\"b\":\"2\"}",
			`{"metadata":{"labels":{"a":"1"}},"spec":{"nodeSelector":{"b":"2"},"containers":[{"name":"c","lifecycle":{"preStop":{"sleep":{"seconds":1}}}}]}}`},
		{"in an element of a list without a key", `{"spec":{"tolerations":[{"key":"a"}]}}`, `{"spec":{"tolerations":[{"$patch":"replace","key":"b"},{"$patch":"replace"},{"key":"c","$patch":"delete"}]}}`,
			`replace /spec/tolerations [{"key":"b"}]`, `{"spec":{"tolerations":[{"key":"b"}]}}`},
		{"an element that replaces stays in the list", `{"spec":{"containers":[{"name":"a","u":1},{"name":"b","u":2}]}}`, `{"spec":{"containers":[{"name":"b","$patch":"replace","image":"i"}]}}`,
			`replace /spec/containers [{"image":"i","name":"b"}]`, `{"spec":{"containers":[{"name":"b","image":"i"}]}}`},
		{"and in a list that is new", `{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"a","env":[{"name":"A","$patch":"replace","value":"v"},{"$patch":"replace","value":"nameless"}]}]}}`,
			`add /spec/containers/0/env [{"name":"A","value":"v"}]`, `{"spec":{"containers":[{"name":"a","env":[{"name":"A","value":"v"}]}]}}`},
		{"what is both added and deleted is deleted", `{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"finalizers":["a","c"],"$deleteFromPrimitiveList/finalizers":["a"]}}`,
			`replace /metadata/finalizers ["c","b"]`, `{"metadata":{"finalizers":["c","b"]}}`},
		{"and not added where there was none", `{"metadata":{}}`, `{"metadata":{"finalizers":["a"],"$deleteFromPrimitiveList/finalizers":["a"]}}`, ``, `{"metadata":{}}`},
		{"nor to a list that is replaced", `{"spec":{"containers":[{"name":"c","args":["x","y","z"]}]}}`,
			`{"spec":{"containers":[{"name":"c","args":["x","y"],"$deleteFromPrimitiveList/args":["x"]},{"name":"d","args":["x","y"],"$deleteFromPrimitiveList/args":["x"]}]}}`,
			"replace /spec/containers/0/args [\"y\"]\nadd /spec/containers/- {\"args\":[\"y\"],\"name\":\"d\"}",
			`{"spec":{"containers":[{"name":"c","args":["y"]},{"name":"d","args":["y"]}]}}`},
		{"numbers keep their digits", `{"spec":{"volumes":[{"name":"a"}],"priority":5}}`, `{"spec":{"priority":7,"big":123456789012345678901234567890}}`,
			"add /spec/big 123456789012345678901234567890\nreplace /spec/priority 7",
			`{"spec":{"volumes":[{"name":"a"}],"priority":7,"big":123456789012345678901234567890}}`},
		{"one element twice in the patch", `{"spec":{"containers":[{"name":"a","u":[null]},{"name":"b"}]}}`,
			`{"spec":{"containers":[{"name":"a","image":"i"},{"name":"a","tty":true}]}}`,
			"add /spec/containers/0/image \"i\"\nadd /spec/containers/0/tty true", `{"spec":{"containers":[{"name":"a","u":[null],"image":"i","tty":true},{"name":"b"}]}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := parsePatch(t, c.merge)
			d := parse(t, c.raw)
			if err := Merge(d.Root(), p); err != nil {
				t.Fatal(err)
			}
			if got := patchText(d); got != c.patch {
				t.Errorf("patch:\n got %s\nwant %s", got, c.patch)
			}
			after := patched(t, d, c.raw)
			same(t, "result", after, c.want)
			same(t, "what the document reads", string(d.Bytes()), after)
			again := parse(t, after)
			if err := Merge(again.Root(), p); err != nil || again.Edits() > 0 {
				t.Errorf("merged again: %v, %s", err, patchText(again))
			}
		})
	}
}

func TestMergeSeesEarlierEdits(t *testing.T) {
	raw := `{"spec":{"containers":[{"name":"a"},{"name":"b","u":1}]}}`
	d := parse(t, raw)
	containers := d.Root().At("spec", "containers")
	elements := collect(containers)
	containers.InsertBefore(elements[0], object{"name": "first"})
	elements[0].Remove()
	for _, p := range []string{`{"spec":{"containers":[{"name":"first","image":"f"},{"name":"b","image":"i"}]}}`, `{"spec":{"containers":[{"name":"x"}]}}`} {
		if err := Merge(d.Root(), parsePatch(t, p)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "result", patched(t, d, raw), `{"spec":{"containers":[{"name":"x"},{"name":"first","image":"f"},{"name":"b","u":1,"image":"i"}]}}`)
}

func TestMergeRefuses(t *testing.T) {
	for raw, merge := range map[string]string{
		`{"spec":{"containers":[{"image":"nameless"}]}}`: `{"spec":{"containers":[{"name":"c"}]}}`,
		`{"spec":{"containers":[null]}}`:                 `{"spec":{"containers":[{"name":"c"}]}}`,
	} {
		if err := Merge(parse(t, raw).Root(), parsePatch(t, merge)); err == nil {
			t.Errorf("%s into %s: no error", merge, raw)
		}
	}
	for raw, want := range map[string]string{
		`{"spec":"text"}`:               "spec: Invalid value: must be an object, not a string",
		`{"spec":{"containers":"c"}}`:   "spec.containers: Invalid value: must be an array, not a string",
		`{"spec":{"containers":{}}}`:    "spec.containers: Invalid value: must be an array, not an object",
		`{"metadata":[],"spec":"text"}`: "",
	} {
		d := parse(t, raw)
		err := Merge(d.Root(), parsePatch(t, `{"spec":{"containers":[{"name":"c"}]}}`))
		if err != nil || d.Err() == nil || want != "" && d.Err().Error() != want {
			t.Errorf("%s: %v, %v, want %s", raw, err, d.Err(), want)
		}
		if d.Patch() != nil {
			t.Errorf("%s was edited", raw)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:                                     "ends too early",
		`[]`:                                   "is an array, not an object",
		`"x"`:                                  "is a string, not an object",
		`null`:                                 "is null, not an object",
		`{"a":1,"a":2}`:                        "duplicate key",
		`{"$patch":"delete"}`:                  "has $patch at its top",
		`{"spec":"x"}`:                         "string",
		`{"metadata":{"labels":{"a":1}}}`:      "number",
		`{"spec":{"containers":{"name":"x"}}}`: "object",
		`{"spec":{"containers":[{"image":"x"}]}}`:                                              "name",
		`{"spec":{"containers":[{"name":"x","$patch":"drop"}]}}`:                               "drop",
		`{"spec":{"nodeSelector":{"$patch":"drop"}}}`:                                          "drop",
		`{"spec":{"volumes":[{"name":"v","$retainKeys":["name"],"emptyDir":{}}]}}`:             "retain",
		`{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"b"}]}}`:  "order",
		`{"spec":{"containers":[{"name":{}},{"name":{}}]}}`:                                    "",
		`{"spec":{"overhead":{"cpu":"1e500"}}}`:                                                `has the quantity "1e500"`,
		`{"spec":{"overhead":{"cpu":"much"}}}`:                                                 "",
		`{"spec":{"securityContext":{"$patch":"replace","seLinuxOptions":{"$patch":"drop"}}}}`: "spec.securityContext.seLinuxOptions has $patch: drop",
		`{"spec":{"containers":[{"name":"x","resources":{"$patch":"merge"}}]}}`:                "spec.containers[0].resources has $patch: merge",
		`{"metadata":{"finalizers":["a"],"$deleteFromPrimitiveList/finalizers":null}}`:         "metadata[$deleteFromPrimitiveList/finalizers] is not a list of plain values",
		`{"spec":{"$deleteFromPrimitiveList/hostname":"x"}}`:                                   "spec[$deleteFromPrimitiveList/hostname] is not a list of plain values",
		`{"spec":{"$deleteFromPrimitiveList/containers":[{"name":"x"}]}}`:                      "spec[$deleteFromPrimitiveList/containers] is not a list of plain values",
	} {
		if _, err := Parse([]byte(raw), corev1.Pod{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestPatchTells(t *testing.T) {
	p := parsePatch(t, `{"metadata":{"labels":{"b":"1","a":null}},"spec":{"contaners":[{"name":"x"}],"priority":7,"nodeName":null}}`)
	if got := p.Members("metadata", "labels"); fmt.Sprint(got) != "[a b]" {
		t.Error(got)
	}
	if !p.Sets("spec", "priority") || p.Sets("spec", "nodeName") || p.Sets("spec", "x") || p.Sets("spec", "priority", "x") {
		t.Error("Sets is wrong")
	}
	if got := p.UnknownFields(corev1.Pod{}); len(got) != 1 || !strings.Contains(got[0], "spec.contaners") {
		t.Error(got)
	}
}

// TestMergeDoesWhatKubernetesDoes: after the patch the document decodes to the result of the merge of Kubernetes on the
// whole typed pod; a second merge changes nothing; unknown fields stay in place.
func TestMergeDoesWhatKubernetesDoes(t *testing.T) {
	first := seed.Value(t)
	for i := range uint64(1000) {
		r := rand.New(rand.NewPCG(first, i))
		raw, merge := string(encode(randomTree(r, true))), string(encode(randomTree(r, false)))
		name := fmt.Sprintf("USHER_SEED=%d, case %d: %s into %s", first, i, merge, raw)
		p, err := Parse([]byte(merge), corev1.Pod{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := parse(t, raw)
		if err := Merge(d.Root(), p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := patched(t, d, raw)
		compareWithKubernetes(t, name, raw, merge, after)
		if before, left := strings.Count(raw, `"unknown":`), strings.Count(after, `"unknown":`); left != before-removedUnknown(raw, after) {
			t.Fatalf("%s: %d of %d unknown fields are left in %s", name, left, before, after)
		}
		again := parse(t, after)
		if err := Merge(again.Root(), p); err != nil || again.Edits() > 0 {
			t.Fatalf("%s, merged again: %v, %s", name, err, patchText(again))
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

func compareWithKubernetes(t *testing.T, name, raw, merge, after string) {
	t.Helper()
	var typed, got, want corev1.Pod
	if err := json.Unmarshal([]byte(raw), &typed); err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(encode(typed), []byte(merge), corev1.Pod{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := json.Unmarshal(merged, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(after), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-kubernetes +document):\n%s", name, diff)
	}
}

// removedUnknown counts the unknown fields of removed elements; each has its element's name as its value.
func removedUnknown(raw, after string) (gone int) {
	var before, now corev1.Pod
	_ = json.Unmarshal([]byte(raw), &before)
	_ = json.Unmarshal([]byte(after), &now)
	left := map[string]bool{}
	for _, c := range now.Spec.Containers {
		left[c.Name] = true
	}
	for _, c := range before.Spec.Containers {
		if !left[c.Name] {
			gone++
		} else if !strings.Contains(after, `"unknown":"`+c.Name+`"`) {
			gone = -1000 // moved or lost
		}
	}
	return gone
}

// randomTree returns a random pod, or a patch for one.
func randomTree(r *rand.Rand, pod bool) object {
	meta, spec := object{}, object{}
	if r.IntN(2) == 0 {
		meta["labels"] = randomMap(r, pod)
	}
	if r.IntN(3) == 0 {
		meta["finalizers"] = randomTexts(r)
	}
	if r.IntN(3) == 0 {
		spec["nodeSelector"] = randomMap(r, pod)
	}
	if r.IntN(4) == 0 {
		spec["tolerations"] = []any{object{"key": randomName(r)}}
	}
	if r.IntN(4) == 0 {
		spec["priority"] = r.IntN(3)
	}
	if r.IntN(6) > 0 {
		spec["containers"] = randomContainers(r, pod)
	}
	if r.IntN(4) == 0 && !pod {
		spec["$setElementOrder/volumes"] = []any{object{"name": "b"}, object{"name": "a"}}
	} else if r.IntN(3) > 0 {
		spec["volumes"] = randomVolumes(r, pod)
	}
	return object{"metadata": meta, "spec": spec}
}

func randomName(r *rand.Rand) string { return string(rune('a' + r.IntN(4))) }

func randomTexts(r *rand.Rand) []any {
	texts := []any{}
	for range r.IntN(3) {
		texts = append(texts, randomName(r))
	}
	return uniqueTexts(texts)
}

func uniqueTexts(texts []any) []any {
	seen, unique := map[any]bool{}, []any{}
	for _, text := range texts {
		if !seen[text] {
			unique = append(unique, text)
		}
		seen[text] = true
	}
	return unique
}

// randomMap is never empty in a pod: the typed pod has no empty maps.
func randomMap(r *rand.Rand, pod bool) object {
	m := object{}
	if pod {
		m["z"] = "z"
	}
	for range r.IntN(4) {
		m[randomName(r)] = randomName(r)
		if !pod && r.IntN(4) == 0 {
			m[randomName(r)] = nil
		}
	}
	return m
}

func randomContainers(r *rand.Rand, pod bool) []any {
	list := []any{}
	for _, i := range r.Perm(5)[:r.IntN(5)] {
		c := object{"name": string(rune('a' + i))}
		if r.IntN(2) == 0 {
			c["image"] = randomName(r)
		}
		if pod {
			c["unknown"] = c["name"]
		} else if r.IntN(6) == 0 {
			list = append(list, object{"name": c["name"], "$patch": "delete"})
			continue
		}
		if r.IntN(2) == 0 {
			c["env"] = randomEnv(r)
		}
		if r.IntN(3) == 0 {
			c["resources"] = object{"limits": object{"cpu": fmt.Sprint(1 + r.IntN(3))}}
		}
		if r.IntN(3) == 0 {
			c["args"] = randomTexts(r)
		}
		if r.IntN(3) == 0 {
			c["ports"] = []any{object{"containerPort": 80 + r.IntN(2), "protocol": "TCP"}}
		}
		list = append(list, c)
	}
	return list
}

func randomEnv(r *rand.Rand) []any {
	list := []any{}
	for _, i := range r.Perm(4)[:r.IntN(4)] {
		list = append(list, object{"name": string(rune('A' + i)), "value": randomName(r)})
	}
	return list
}

func randomVolumes(r *rand.Rand, pod bool) []any {
	list := []any{}
	for _, i := range r.Perm(3)[:r.IntN(4)] {
		v := object{"name": string(rune('a' + i))}
		source := []string{"emptyDir", "hostPath"}[r.IntN(2)]
		v[source] = map[string]any{"emptyDir": object{"medium": "Memory"}, "hostPath": object{"path": "/" + randomName(r)}}[source]
		if !pod {
			v["$retainKeys"] = []any{"name", source}
		}
		list = append(list, v)
	}
	return list
}

// FuzzMerge: no patch and no pod causes a panic, the resulting patch applies, and the result is deterministic.
func FuzzMerge(f *testing.F) {
	f.Add(`{"spec":{"containers":[{"name":"c","future":1}]}}`, `{"spec":{"containers":[{"name":"s"}]}}`)
	f.Add(`{"spec":{"containers":[{"name":{}}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"s"}]}}`)
	f.Add(`{"spec":{"volumes":[{"name":"v"},{"name":1}]}}`, `{"spec":{"volumes":[{"name":"v","$retainKeys":["name"]},{"name":"w","$patch":"delete"}]}}`)
	f.Add(`{"metadata":null,"spec":[]}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"labels":{"$patch":"replace"}}}`)
	f.Add(`{"a":{"b":[[1]]}}`, `{"a":{"b":[[2],{"$patch":"replace"}],"":{"$retainKeys":[""]}}}`)
	f.Add(`{"metadata":{"finalizers":["a","b"]}}`, `{"metadata":{"finalizers":["a","c"],"$deleteFromPrimitiveList/finalizers":["a","b"],"$setElementOrder/finalizers":["a","c"]}}`)
	f.Add(`{"spec":{"containers":[{"name":"c"}]}}`, `{"spec":{"containers":[{"name":"d","resources":{"$patch":"replace","limits":{"cpu":"1"}},"env":[{"name":"A","$patch":"delete"}]},{"name":"c","$patch":"replace"}]}}`)
	f.Fuzz(func(t *testing.T, raw, merge string) {
		p, err := Parse([]byte(merge), corev1.Pod{})
		d, wrong := document.Parse([]byte(raw))
		if err != nil || wrong != nil {
			return
		}
		if Merge(d.Root(), p) != nil || d.Err() != nil || d.Root().Kind() != document.Object {
			return
		}
		same(t, "the patch gives", patched(t, d, raw), string(d.Bytes()))
		for range 4 {
			other := parse(t, raw)
			if err := Merge(other.Root(), p); err != nil {
				t.Fatal(err)
			}
			same(t, "merged once more", string(other.Bytes()), string(d.Bytes()))
		}
	})
}
