package explain

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	applier "gopkg.in/evanphx/json-patch.v4"

	"usher.dev/usher/test/seed"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

const podJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"},"annotations":{"note":"n"}},"spec":{` +
	`"containers":[{"name":"app","image":"a","args":["-a","-b"],"env":[{"name":"LOG_LEVEL","value":"v"}],"volumeMounts":[{"name":"x","mountPath":"/x"}]},` +
	`{"name":"log","image":"b"}],"volumes":[{"name":"x","emptyDir":{}}],"tolerations":[{"key":"a","operator":"Exists"}],"priority":1}}`

// TestPhrases: what operations change, in words, for a known and an unknown object.
func TestPhrases(t *testing.T) {
	for _, c := range []struct {
		patch          string // one operation
		known, unknown string // separated by ;
	}{
		{`{"op":"add","path":"/spec/containers/1","value":{"name":"proxy","image":"p"}}`, "container proxy added", "container proxy added"},
		{`{"op":"add","path":"/spec/containers/-","value":{"name":"proxy"}}`, "container proxy added", "container proxy added"},
		{`{"op":"remove","path":"/spec/containers/0"}`, "container app removed", "containers[0] removed"},
		{`{"op":"replace","path":"/spec/containers/1/image","value":"c"}`, `image of container log set to "c"`, `image of containers[1] set to "c"`},
		{`{"op":"add","path":"/spec/initContainers","value":[{"name":"i"}]}`, "init container i added", "init container i added"},
		{`{"op":"replace","path":"/spec/containers","value":[{"name":"log","image":"b"}]}`, "container app removed", "spec.containers set"},
		{`{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"A","value":"v"}}`, "env A of container app added", "env A of containers[0] added"},
		{`{"op":"add","path":"/spec/containers/1/env","value":[{"name":"A"},{"name":"B"}]}`, "env A of container log added;env B of container log added",
			"env A of containers[1] added;env B of containers[1] added"},
		{`{"op":"replace","path":"/spec/containers/0/env/0/value","value":"w"}`, "env LOG_LEVEL of container app set", "env[0] of containers[0] set"},
		{`{"op":"add","path":"/spec/containers/0/volumeMounts/-","value":{"name":"y","mountPath":"/y"}}`, "volume mount /y of container app added",
			"volume mount /y of containers[0] added"},
		{`{"op":"add","path":"/spec/volumes/-","value":{"name":"y"}}`, "volume y added", "volume y added"},
		{`{"op":"add","path":"/spec/tolerations/-","value":{"key":"b","operator":"Exists","effect":"NoSchedule"}}`, "toleration b:Exists:NoSchedule added",
			"toleration b:Exists:NoSchedule added"},
		{`{"op":"add","path":"/metadata/labels/a.b~1c","value":"d"}`, `label a.b/c added: "d"`, `label a.b/c added: "d"`},
		{`{"op":"replace","path":"/metadata/labels/app","value":"x"}`, `label app set to "x"`, `label app set to "x"`},
		{`{"op":"replace","path":"/metadata/labels","value":{"b":"1"}}`, `label app removed;label b added: "1"`, "metadata.labels set"},
		{`{"op":"add","path":"/metadata/annotations/k","value":"v"}`, "annotation k added", "annotation k added"},
		{`{"op":"replace","path":"/metadata/annotations/note","value":"v"}`, "annotation note set", "annotation note set"},
		{`{"op":"replace","path":"/spec/priority","value":2}`, "spec.priority set to 2", "spec.priority set to 2"},
		{`{"op":"add","path":"/spec/nodeSelector","value":{"disk":"ssd"}}`, `spec.nodeSelector[disk] added: "ssd"`, `spec.nodeSelector[disk] added: "ssd"`},
		{`{"op":"add","path":"/spec/containers/0/resources","value":{"limits":{"cpu":"1"}}}`, "resources of container app added",
			"resources of containers[0] added"},
		{`{"op":"add","path":"/spec/containers/0/args/0","value":"-c"}`, `args[0] of container app added: "-c"`, `args[0] of containers[0] added: "-c"`},
		{`{"op":"replace","path":"/spec/containers","value":[{"name":"log","image":"b"},` + containerApp + `]}`, "order of spec.containers changed",
			"spec.containers set"},
		{`{"op":"move","from":"/spec/containers/0","path":"/spec/containers/1"}`, "order of spec.containers changed",
			"containers[0] removed;containers[1] set"},
		{`{"op":"copy","from":"/metadata/name","path":"/metadata/labels/name"}`, `label name added: "web"`, "label name set"},
	} {
		t.Run(c.patch[:min(len(c.patch), 60)], func(t *testing.T) {
			for document, want := range map[string]string{podJSON: c.known, "": c.unknown} {
				if got := strings.Join(phrasesOf(document, "["+c.patch+"]"), ";"); got != want {
					t.Errorf("with %.10s: %q, want %q", document, got, want)
				}
			}
		})
	}
}

const containerApp = `{"name":"app","image":"a","args":["-a","-b"],"env":[{"name":"LOG_LEVEL","value":"v"}],"volumeMounts":[{"name":"x","mountPath":"/x"}]}`

// phrasesOf returns what is said of a patch; without a document, as of a request with the verb patch.
func phrasesOf(document, patch string) []string {
	return Of(eventOf(document, patch), Options{}).Calls[0].Changes
}

// eventOf makes an event of a creation, or without a document of a patch.
func eventOf(document string, patches ...string) *Event {
	e := &Event{Verb: "create", Level: "Request", ResponseStatus: status{Code: 201}, Annotations: map[string]string{}}
	if document == "" {
		e.Verb = "patch"
	} else {
		e.RequestObject = json.RawMessage(document)
	}
	for i, patch := range patches {
		e.Annotations[fmt.Sprintf("%sround_0_index_%d", mutationPrefix, i)] = fmt.Sprintf(`{"configuration":"c","webhook":"w%d","mutated":true}`, i)
		e.Annotations[fmt.Sprintf("%sround_0_index_%d", patchPrefix, i)] =
			fmt.Sprintf(`{"configuration":"c","webhook":"w%d","patch":%s,"patchType":"JSONPatch"}`, i, patch)
	}
	return e
}

// TestBlame: the last writer of a field, and those before, also where one field is a part of the other.
func TestBlame(t *testing.T) {
	for _, c := range []struct {
		name    string
		patches []string
		want    string
	}{
		{"one", []string{`[{"op":"add","path":"/metadata/labels/a","value":"1"}]`}, "metadata.labels[a]: w0"},
		{"of the request", []string{`[{"op":"add","path":"/metadata/labels/app","value":"1"}]`}, "metadata.labels[app]: w0 the request"},
		{"two", []string{`[{"op":"add","path":"/metadata/labels/a","value":"1"}]`, `[{"op":"add","path":"/metadata/labels/a","value":"2"}]`},
			"metadata.labels[a]: w1 w0"},
		{"a part", []string{`[{"op":"add","path":"/spec/containers/0","value":{"name":"p","image":"x"}}]`,
			`[{"op":"replace","path":"/spec/containers/0/image","value":"y"}]`},
			"spec.containers[p]: w0; spec.containers[p].image: w1 w0"},
		{"the whole", []string{`[{"op":"replace","path":"/spec/containers/1/image","value":"y"}]`, `[{"op":"remove","path":"/spec/containers/1"}]`},
			"spec.containers[log]: w1 w0 the request"},
		{"another place", []string{`[{"op":"replace","path":"/spec/containers/1/image","value":"y"}]`,
			`[{"op":"add","path":"/spec/containers/0","value":{"name":"p"}},` +
				`{"op":"replace","path":"/spec/containers/2/image","value":"z"}]`}, "spec.containers[log].image: w1 w0 the request; spec.containers[p]: w1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, b := range Of(eventOf(podJSON, c.patches...), Options{Blame: true}).Blame {
				text := b.Field + ": " + b.By.Webhook
				for _, w := range b.Former {
					text += " " + w.Webhook
				}
				got = append(got, text)
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("%s\nwant\n%s", text, c.want)
			}
		})
	}
}

// TestExact: a document is exact only if it equals what was stored, in every field.
func TestExact(t *testing.T) {
	patch := `[{"op":"add","path":"/metadata/labels/a","value":"1"}]`
	stored := strings.Replace(podJSON, `{"app":"web"}`, `{"app":"web","a":"1"}`, 1)
	for _, c := range []struct {
		name, stored string
		known        string
		differs      string
	}{
		{"equal", stored, "exact", ""},
		{"another order of keys", strings.Replace(stored, `{"app":"web","a":"1"}`, `{"a":"1","app":"web"}`, 1), "exact", ""},
		{"a uid", strings.Replace(stored, `"name":"web",`, `"name":"web","uid":"u",`, 1), "rebuilt", "metadata.uid"},
		{"a null", strings.Replace(stored, `"name":"web",`, `"name":"web","creationTimestamp":null,`, 1), "rebuilt", "metadata.creationTimestamp"},
		{"another number", strings.Replace(stored, `"priority":1`, `"priority":10`, 1), "rebuilt", "spec.priority"},
		{"another list", strings.Replace(stored, `"volumes":[`, `"volumes":[{"name":"token"},`, 1), "rebuilt", "spec.volumes[token]"},
		{"without managedFields", stored, "rebuilt", ""},
		{"not recorded", "", "rebuilt", ""},
		{"a status", `{"kind":"Status","apiVersion":"v1"}`, "rebuilt", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := eventOf(managed(podJSON), patch)
			e.ResponseObject = json.RawMessage(managed(c.stored))
			if c.name == "without managedFields" {
				e = eventOf(podJSON, patch)
				e.ResponseObject = json.RawMessage(c.stored)
			}
			r := Of(e, Options{})
			if got := r.Calls[0].Known; got != c.known {
				t.Errorf("%s, want %s", got, c.known)
			}
			if text := textOf([]report.Report{r}); c.differs != "" && !strings.Contains(text, "not in the event: "+c.differs+"\n") {
				t.Errorf("lacks %s\n%s", c.differs, text)
			}
		})
	}
	dry := eventOf(managed(podJSON), patch)
	dry.ResponseObject, dry.RequestURI = json.RawMessage(managed(stored)), "/api/v1/namespaces/a/pods?dryRun=All"
	if got := Of(dry, Options{}).Calls[0].Known; got != "rebuilt" {
		t.Errorf("a dry run stores nothing, and is called %s", got)
	}
}

// managed adds managedFields, which every stored object has.
func managed(object string) string {
	return strings.Replace(object, `"name":"web",`, `"name":"web","managedFields":[{"manager":"kubectl"}],`, 1)
}

// TestRebuilt: for random patches, the object after each webhook equals the result of the API server's applier, and all
// changes together are the difference between the first and the last.
func TestRebuilt(t *testing.T) {
	random := seed.Random(t)
	for range 200 {
		document := []byte(podJSON)
		var patches []string
		var want []any
		for range 1 + random.IntN(3) {
			text := "[" + strings.Join(randomOperations(random, document), ",") + "]"
			patch, err := applier.DecodePatch([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if document, err = patch.Apply(document); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			after, _ := requests.DecodeJSON(document)
			patches, want = append(patches, text), append(want, after)
		}
		r := Of(eventOf(podJSON, patches...), Options{ShowValues: true})
		before, _ := requests.DecodeJSON([]byte(podJSON))
		for i, call := range r.Calls {
			got, _ := requests.DecodeJSON(call.After)
			if call.Known != "rebuilt" || !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("%v\n%s\nwant\n%s", patches, call.After, encode(want[i]))
			}
			if changed := !reflect.DeepEqual(before, want[i]); changed == (call.Changes[0] == "nothing: the patch sets what was there") {
				t.Fatalf("%v: %v", patches, call.Changes)
			}
			before = want[i]
		}
	}
}

// randomOperations returns operations that apply one after the other.
func randomOperations(random *rand.Rand, document []byte) (all []string) {
	for range 1 + random.IntN(4) {
		value, _ := requests.DecodeJSON(document)
		pointers := append(pointersOf("", value), "/kind")
		at := pointers[random.IntN(len(pointers))]
		text := []string{
			fmt.Sprintf(`{"op":"add","path":"/metadata/labels/l%d","value":"%d"}`, random.IntN(3), random.IntN(3)),
			fmt.Sprintf(`{"op":"replace","path":%q,"value":"r%d"}`, at, random.IntN(3)),
			fmt.Sprintf(`{"op":"remove","path":%q}`, at),
			fmt.Sprintf(`{"op":"copy","from":%q,"path":"/metadata/labels/c"}`, at),
			fmt.Sprintf(`{"op":"add","path":"/spec/containers/0","value":{"name":"n%d"}}`, random.IntN(3)),
		}[random.IntN(5)]
		patch, err := applier.DecodePatch([]byte("[" + text + "]"))
		if err != nil {
			continue
		}
		if after, err := patch.Apply(document); err == nil {
			document, all = after, append(all, text)
		}
	}
	if len(all) == 0 {
		return []string{`{"op":"add","path":"/status","value":{}}`}
	}
	return all
}

// pointersOf returns the pointers of all fields below metadata.labels and spec.
func pointersOf(at string, value any) (all []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if at != "" || key == "spec" || key == "metadata" {
				all = append(all, at+"/"+key)
				all = append(all, pointersOf(at+"/"+key, member)...)
			}
		}
	case []any:
		for i, element := range v {
			all = append(all, fmt.Sprintf("%s/%d", at, i))
			all = append(all, pointersOf(fmt.Sprintf("%s/%d", at, i), element)...)
		}
	}
	slices.Sort(all)
	return all
}
