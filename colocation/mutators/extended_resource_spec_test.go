package mutators

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gopkg.in/evanphx/json-patch.v4"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/colocation/api"

	"usher.dev/usher/test/seed"
)

// specPod returns a pod with the annotation, unless it is "-", and the spec.
func specPod(annotation, spec string) string {
	metadata := `{"name":"p"}`
	if annotation != "-" {
		encoded, _ := json.Marshal(map[string]string{"keep": "me", api.AnnotationExtendedResourceSpec: annotation})
		metadata = `{"name":"p","annotations":` + string(encoded) + `}`
	}
	return `{"metadata":` + metadata + `,"spec":` + spec + `}`
}

const (
	batchPod  = `{"containers":[{"name":"main","resources":{"limits":{"kubernetes.io/batch-cpu":"1000","kubernetes.io/batch-memory":"4Gi","unknown-resource":"1"},"requests":{"kubernetes.io/batch-cpu":"1000","kubernetes.io/batch-memory":"4Gi","unknown-resource":"1"}}}]}`
	batchText = `{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"4Gi"},"requests":{"kubernetes.io/batch-cpu":"1k","kubernetes.io/batch-memory":"4Gi"}}}}`
	plainPod  = `{"initContainers":[{"name":"i","resources":{}}],"containers":[{"name":"main","resources":{"limits":{"cpu":"1"}}},{"name":"bare"},{"name":"null","resources":null}]}`
)

func TestExtendedResourceSpec(t *testing.T) {
	cases := []struct {
		name, annotation, spec string
		want                   string // the annotation afterwards; "-": none
	}{
		{"only batch resources, of requests and limits", "-", batchPod, batchText},
		{"already there", batchText, batchPod, batchText},
		{"already there, written otherwise", strings.ReplaceAll(batchText, "1k", "1000"), batchPod, strings.ReplaceAll(batchText, "1k", "1000")},
		{"bare numbers", "-", `{"containers":[{"name":"c","resources":{"requests":{"kubernetes.io/batch-cpu":1500}}}]}`,
			`{"containers":{"c":{"requests":{"kubernetes.io/batch-cpu":"1500"}}}}`},
		{"sorted by container, lists that are empty left out", "-", `{"containers":[{"name":"z","resources":{"limits":{"kubernetes.io/batch-memory":"100M"},"requests":{}}},{"name":"a","resources":{"requests":{"kubernetes.io/batch-cpu":"2000"}}}]}`,
			`{"containers":{"a":{"requests":{"kubernetes.io/batch-cpu":"2k"}},"z":{"limits":{"kubernetes.io/batch-memory":"100M"}}}}`},
		{"init containers", "-", `{"initContainers":[{"name":"i","resources":{"limits":{"kubernetes.io/batch-cpu":"500"}}}],"containers":[{"name":"c"}]}`,
			`{"containers":{"i":{"limits":{"kubernetes.io/batch-cpu":"500"}}}}`},
		{"mid resources are none", "-", `{"containers":[{"name":"c","resources":{"requests":{"kubernetes.io/mid-cpu":"500"}}}]}`, "-"},
		{"an overhead has no place", "-", `{"overhead":{"kubernetes.io/batch-cpu":"500"},"containers":[{"name":"c"}]}`, "-"},
		{"what is no quantity is not there", "-", `{"containers":[{"name":"c","resources":{"requests":{"kubernetes.io/batch-cpu":"much","kubernetes.io/batch-memory":{}}}}]}`, "-"},
		{"empty text", "", batchPod, batchText},
		{"broken text", `{"containers":`, batchPod, batchText},
		{"another type", `[1]`, batchPod, batchText},
		{"a key twice", `{"containers":{},` + batchText[1:], batchPod, batchText},
		{"a quantity of years", strings.ReplaceAll(batchText, "1k", "1e-5000000"), batchPod, batchText},
		{"another amount", strings.ReplaceAll(batchText, "1k", "2k"), batchPod, batchText},
		{"another container", strings.ReplaceAll(batchText, "main", "mine"), batchPod, batchText},
		{"one container too many", strings.Replace(batchText, `"main"`, `"mine":{},"main"`, 1), batchPod, batchText},
		{"nothing to say", "-", plainPod, "-"},
		{"no spec", "-", `null`, "-"},
		{"no containers", "-", `{"containers":null}`, "-"},
		{"stale", batchText, plainPod, "-"},
		{"broken without batch resources", `{`, plainPod, "-"},
		{"empty without batch resources", ``, plainPod, "-"},
		{"an empty spec without batch resources says the same", `{}`, plainPod, `{}`},
	}
	for _, c := range cases {
		after := stepTwice(t, extendedResourceSpec(), specPod(c.annotation, c.spec))
		var pod struct {
			Metadata struct{ Annotations map[string]string }
			Spec     json.RawMessage
		}
		if err := json.Unmarshal([]byte(after), &pod); err != nil {
			t.Fatalf("%s: %s", c.name, after)
		}
		got, ok := pod.Metadata.Annotations[api.AnnotationExtendedResourceSpec]
		if !ok {
			got = "-"
		}
		if got != c.want || string(pod.Spec) != c.spec {
			t.Errorf("%s: %s\nspec %s\nwant %s", c.name, got, pod.Spec, c.want)
		}
		if c.annotation != "-" && pod.Metadata.Annotations["keep"] != "me" {
			t.Errorf("%s: another annotation is gone: %s", c.name, after)
		}
	}
}

// stepTwice returns the pod after a step, with the patch applied to what was sent, or the text of the error. The second
// run must change nothing.
func stepTwice(t testing.TB, step admit.Mutator[admit.Pod], raw string) string {
	t.Helper()
	after, err := stepOnce(t, step, raw)
	if err != nil {
		return err.Error()
	}
	if again, err := stepOnce(t, step, after); err != nil || again != after {
		t.Fatalf("the second run on %s: %s, %v", after, again, err)
	}
	return after
}

func stepOnce(t testing.TB, step admit.Mutator[admit.Pod], raw string) (string, error) {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := step.Run(t.Context(), &admit.Request{Object: d, Operation: "CREATE"}, admit.AsPod(d)); err != nil {
		return "", err
	}
	if d.Err() != nil {
		return "", d.Err()
	}
	ops := d.PatchJSON()
	if ops == nil {
		return raw, nil
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply([]byte(raw))
	if err != nil {
		t.Fatalf("%s does not apply to %s: %v", ops, raw, err)
	}
	return string(after), nil
}

func TestExtendedResourceSpecWrongType(t *testing.T) {
	for raw, want := range map[string]string{
		`{"spec":{"containers":[{"name":"c","resources":[]}]}}`:                                     "spec.containers[0].resources",
		`{"spec":{"containers":{}}}`:                                                                "spec.containers",
		`{"metadata":{"annotations":{"node.koordinator.sh/extended-resource-spec":{}}}}`:            "annotations",
		`{"spec":{"initContainers":[{"name":"c","resources":{"requests":"all of them"}}]}}`:         "spec.initContainers[0].resources.requests",
		`{"spec":{"containers":[{"name":7,"resources":{"limits":{"kubernetes.io/batch-cpu":1}}}]}}`: "spec.containers[0].name",
	} {
		if _, err := stepOnce(t, extendedResourceSpec(), raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// FuzzExtendedResourceSpec: whatever the annotation contains, after the step it matches the pod's requests, and the
// step neither fails nor changes it again.
func FuzzExtendedResourceSpec(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", batchText, `{"containers":null}`, `{"containers":{"main":{"limits":{"kubernetes.io/batch-cpu":"1e9999999"}}}}`,
		`{"containers":{"main":[]}}`, `{"containers":{"main":{"requests":null}},"x":1}`, `"text"`, "\x00", strings.Repeat("[", 1000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		after := stepTwice(t, extendedResourceSpec(), specPod(annotation, batchPod))
		var pod struct {
			Metadata struct{ Annotations map[string]string }
		}
		if err := json.Unmarshal([]byte(after), &pod); err != nil {
			t.Fatal(err)
		}
		got, err := api.ParseJSONText[api.ExtendedResourceSpec](pod.Metadata.Annotations[api.AnnotationExtendedResourceSpec])
		if err != nil || len(got.Containers) != 1 || len(got.Containers["main"].Limits) != 2 {
			t.Fatalf("%q: %v, %v", annotation, got, err)
		}
	})
}

// randomPod returns a pod whose containers request random resources of a kind; each object has an unknown field.
func randomPod(r *rand.Rand, names []string) string {
	list := func() string {
		var members []string
		for _, name := range names {
			if r.IntN(3) == 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, pick(r, `"100"`, `"200"`, `50`, `"1k"`, `"0"`, `"4Gi"`, `"150"`, `"x"`, `null`, `"1e3"`)))
			}
		}
		members = append(members, pick(r, `"cpu":"1"`, `"nvidia.com/other":"1"`))
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, ",") + "}"
	}
	containers := func(prefix string) string {
		var all []string
		for i := range r.IntN(4) {
			resources := []string{`"unknown":"r"`}
			if r.IntN(4) > 0 {
				resources = append(resources, `"requests":`+list())
			}
			if r.IntN(4) > 0 {
				resources = append(resources, `"limits":`+pick(r, list(), list(), list(), `null`))
			}
			all = append(all, fmt.Sprintf(`{"unknown":"%s%d","name":"%s%d","resources":%s}`, prefix, i, prefix, i,
				pick(r, "{"+strings.Join(resources, ",")+"}", "{"+strings.Join(resources, ",")+"}", "{"+strings.Join(resources, ",")+"}", "null")))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	annotation := pick(r, ``, `"annotations":null,`, `"annotations":{"node.koordinator.sh/extended-resource-spec":"{}"},`, `"annotations":{"node.koordinator.sh/extended-resource-spec":"{\"a"},`)
	return `{"unknown":"top","metadata":{` + annotation + `"unknown":"meta"},"spec":{"unknown":"spec","initContainers":` + containers("i") + `,"containers":` + containers("c") + `}}`
}

func pick(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

// TestRandomPods: the two steps either refuse a pod with a field error, or change it so that a second run changes
// nothing, and unknown fields stay where they are.
func TestRandomPods(t *testing.T) {
	r := seed.Random(t)
	steps := []struct {
		step  admit.Mutator[admit.Pod]
		names []string
	}{
		{extendedResourceSpec(), []string{"kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"}},
		{deviceResourceSpec(), []string{"koordinator.sh/gpu", "koordinator.sh/gpu.shared", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"}},
	}
	for range 500 {
		s := steps[r.IntN(2)]
		raw := randomPod(r, s.names)
		after := stepTwice(t, s.step, raw)
		if strings.HasPrefix(after, "{") && unknowns(t, raw) != unknowns(t, after) {
			t.Fatalf("%s:\n%s\nlost or moved a field:\n%s", s.step.Name, raw, after)
		}
	}
}

// unknowns lists the unknown fields with their paths.
func unknowns(t *testing.T, raw string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(raw), &tree); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range []string{"unknown", "nvidia.com/other", "cpu"} {
				if text, ok := v[key].(string); ok {
					fmt.Fprintln(&b, at, key, text)
				}
			}
			for _, key := range []string{"metadata", "spec", "initContainers", "containers", "resources", "requests", "limits"} {
				walk(at+"/"+key, v[key])
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprint(at, "/", i), e)
			}
		}
	}
	walk("", tree)
	return b.String()
}

// benchPod returns a pod of 2.9 KB with three containers whose resource lists contain the members.
func benchPod(members string) string {
	container := func(name string) string {
		return `{"name":"` + name + `","image":"registry.example.com/team/` + name + `@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",` +
			`"args":["--listen=:8080","--log-level=info"],"env":[{"name":"NODE_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}},{"name":"MODE","value":"production"}],` +
			`"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{` + members + `},"requests":{` + members + `}},` +
			`"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},` +
			`"volumeMounts":[{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],` +
			`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`
	}
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-5d4f8c7b6-x7k2p","namespace":"apps","labels":{"app":"web","pod-template-hash":"5d4f8c7b6"},"annotations":{"prometheus.io/scrape":"true"}},` +
		`"spec":{"containers":[` + container("app") + "," + container("proxy") + "," + container("log") + `],"restartPolicy":"Always","dnsPolicy":"ClusterFirst","schedulerName":"default-scheduler"}}`
}

func benchStep(b *testing.B, step admit.Mutator[admit.Pod], members string) {
	raw := []byte(benchPod(members))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		if err := step.Run(b.Context(), &admit.Request{Object: d}, admit.AsPod(d)); err != nil {
			b.Fatal(err)
		}
		d.PatchJSON()
		d.Release()
	}
}

const nativeMembers = `"cpu":"500m","memory":"1Gi"`

func BenchmarkExtendedResourceSpec(b *testing.B) {
	b.Run("parse only", func(b *testing.B) {
		benchStep(b, admit.Mutator[admit.Pod]{Run: func(context.Context, *admit.Request, *admit.Pod) error { return nil }}, nativeMembers)
	})
	b.Run("nothing to do", func(b *testing.B) { benchStep(b, extendedResourceSpec(), nativeMembers) })
	b.Run("at work", func(b *testing.B) {
		benchStep(b, extendedResourceSpec(), `"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"1Gi"`)
	})
}
