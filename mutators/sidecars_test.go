package mutators

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/test/configtest"
	"usher.dev/usher/test/seed"
)

// sidecarPolicy reads the section of a policy.
func sidecarPolicy(t testing.TB, text string) injection.Sidecars {
	t.Helper()
	return config.SectionOf[injection.Sidecars](configtest.Parse(t, "sidecars:\n"+text, injection.Section))
}

// teamA answers that every namespace has the label team: a.
var teamA = admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
	return admit.Namespace{Labels: map[string]string{"team": "a"}}, true, nil
}}

// injectInto runs the step on a new pod in namespace ns. It returns the pod, the warnings and the number of edits.
func injectInto(t testing.TB, policy injection.Sidecars, ask admit.Questions, raw string) (after string, warnings []string, edits int, err error) {
	t.Helper()
	d, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	req := &admit.Request{Object: d, Operation: admissionv1.Create, Namespace: "ns"}
	err = d.Try(func() error { return sidecars(policy, nil, ask).Run(t.Context(), req, admit.AsPod(d)) })
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return string(d.Bytes()), req.Warnings(), d.Edits(), err
}

// namesOf returns the names of a pod's init containers and containers, such as "i | a b".
func namesOf(t testing.TB, raw string) string {
	t.Helper()
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(raw), &pod); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	names = append(names, "|")
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

func TestSidecarsPosition(t *testing.T) {
	const pod = `{"spec":{"initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"a"},{"name":"b"}]}}`
	cases := []struct{ name, policy, pod, want string }{
		{"by default", `initContainers: [{name: x, image: i}, {name: w, image: i}], containers: [{name: z, image: i}]`, pod, "x w i j | a b z"},
		{"first and last", `initContainers: [{name: x, image: i}], initPosition: last, containers: [{name: w, image: i}, {name: z, image: i}], position: first`,
			pod, "i j x | w z a b"},
		{"before", `initContainers: [{name: x, image: i}], initPosition: {before: j}, containers: [{name: w, image: i}], position: {before: a}`, pod, "i x j | w a b"},
		{"after", `initContainers: [{name: x, image: i}], initPosition: {after: i}, containers: [{name: w, image: i}, {name: z, image: i}], position: {after: b}`,
			pod, "i x j | a b w z"},
		{"next to none", `initContainers: [{name: x, image: i}], initPosition: {before: none}, containers: [{name: w, image: i}], position: {after: none}`,
			pod, "x i j | a b w"},
		{"the pod has one of two", `containers: [{name: b, image: i}, {name: z, image: i}], position: first`, pod, "i j | z a b"},
		{"no lists", `initContainers: [{name: x, image: i}], containers: [{name: w, image: i}], position: first`, `{}`, "x | w"},
		{"in the other list", `initContainers: [{name: a, image: i}], containers: [{name: j, image: i}]`, pod, "i j | a b"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			policy := sidecarPolicy(t, "- {name: one, "+c.policy+"}")
			after, _, _, err := injectInto(t, policy, admit.Questions{}, c.pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := namesOf(t, after); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if _, _, edits, err := injectInto(t, policy, admit.Questions{}, after); err != nil || edits > 0 {
				t.Errorf("the second run has %d edits, %v", edits, err)
			}
		})
	}
}

func TestSidecarsSelection(t *testing.T) {
	const inject = `containers: [{name: x, image: i}]`
	notReady := fmt.Errorf("namespaces: %w", admit.ErrNotReady)
	answer := func(labels map[string]string, known bool, err error) admit.Questions {
		return admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) { return admit.Namespace{Labels: labels}, known, err }}
	}
	cases := []struct {
		name, selection string
		ask             admit.Questions
		want            string
		err             error
	}{
		{"all, without a question", ``, admit.Questions{}, "| a x", nil},
		{"by the pod", `podSelector: {matchLabels: {app: web}},`, admit.Questions{}, "| a x", nil},
		{"another pod, without a question", `podSelector: {matchLabels: {app: db}}, namespaceSelector: {matchLabels: {team: a}},`, admit.Questions{}, "| a", nil},
		{"by the namespace", `namespaceSelector: {matchLabels: {team: a}},`, teamA, "| a x", nil},
		{"another namespace", `namespaceSelector: {matchLabels: {team: b}},`, teamA, "| a", nil},
		{"an unknown namespace has no labels", `namespaceSelector: {matchLabels: {team: a}},`, answer(nil, false, nil), "| a", nil},
		{"not seen yet", `namespaceSelector: {matchLabels: {team: a}},`, answer(nil, false, notReady), "", admit.ErrNotReady},
		{"not opted out", `optOutAnnotation: example.com/out,`, admit.Questions{}, "| a x", nil},
		{"opted out", `optOutAnnotation: example.com/no,`, admit.Questions{}, "| a", nil},
		{"an annotation that the policy does not name", `optOutAnnotation: example.com/never,`, admit.Questions{}, "| a x", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			policy := sidecarPolicy(t, "- {name: one, "+c.selection+inject+"}")
			after, _, _, err := injectInto(t, policy, c.ask,
				`{"metadata":{"labels":{"app":"web"},"annotations":{"example.com/no":"true","example.com/out":"false"}},"spec":{"containers":[{"name":"a"}]}}`)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if got := namesOf(t, after); err == nil && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestSidecarsRefuse(t *testing.T) {
	job := func(api, kind string, controller bool) string {
		return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":"j","controller":%v}]},"spec":{"restartPolicy":"Never","containers":[{"name":"a"}]}}`,
			api, kind, controller)
	}
	many := `{"spec":{"containers":[` + strings.Repeat(`{"name":"a"},`, admit.MaxContainers-1) + `{"name":"a"}]}}`
	const plain, native = `containers: [{name: x, image: i}]`, `initContainers: [{name: x, image: i, restartPolicy: Always}]`
	cases := []struct{ name, policy, pod, want string }{
		{"a Job's pod", plain, job("batch/v1", "Job", true), "spec.containers: Forbidden: injection one adds the container x, which never ends"},
		{"a Job's pod, natively", native, job("batch/v1", "Job", true), ""},
		{"another kind of Job", plain, job("example.com/v1", "Job", true), ""},
		{"a Job that does not control it", plain, job("batch/v1", "Job", false), ""},
		{"a Job's pod that has it", plain, strings.Replace(job("batch/v1", "Job", true), `{"name":"a"}`, `{"name":"x","image":"i"}`, 1), ""},
		{"too many", plain, many, "spec.containers: Too many: 501"},
		{"no more room, and none needed", `env: [{name: A}]`, many, ""},
		{"a volume that nothing has", `containers: [{name: x, image: i, volumeMounts: [{name: v, mountPath: /v}]}]`, `{"spec":{"containers":[{"name":"a"}]}}`,
			"spec.volumes: Required value: container x uses the volume v because of injection one, and neither the pod nor the injection has it; add it to the pod"},
		{"a device that nothing has", `initContainers: [{name: x, image: i, volumeDevices: [{name: v, devicePath: /v}]}]`, `{"spec":{"containers":[{"name":"a"}]}}`, "container x uses the volume v"},
		{"a volume of a variable that nothing has", `env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]`, `{"spec":{"containers":[{"name":"a"}]}}`, "container a uses the volume v"},
		{"a volume of the pod", `volumeMounts: [{name: v, mountPath: /v}]`, `{"spec":{"containers":[{"name":"a"}],"volumes":[{"name":"v"}]}}`, ""},
		{"a volume of a later injection", `volumeMounts: [{name: v, mountPath: /v}]}
- {name: two, volumes: [{name: v}]`, `{"spec":{"containers":[{"name":"a"}]}}`, ""},
		{"a volume that the pod's own container does not use", `containers: [{name: x, image: i, volumeMounts: [{name: v, mountPath: /v}]}]`, `{"spec":{"containers":[{"name":"x"}]}}`, ""},
		{"opted out in other words", `optOutAnnotation: a/b, ` + plain, `{"metadata":{"annotations":{"a/b":""}}}`, `metadata.annotations[a/b]: Unsupported value: ""`},
		{"an owner's name, which is not validated", `containers: [{name: x, image: i, args: [$(usher.owner)]}]`,
			`{"metadata":{"ownerReferences":[{"kind":"X","name":"$(TOKEN)","controller":true}]}}`, `metadata.ownerReferences: Invalid value: "$(TOKEN)"`},
		{"a label that looks like an option", `env: [{name: A, value: "$(usher.labels['x'])"}]`, `{"metadata":{"labels":{"x":"--y"}}}`, `metadata.labels[x]: Invalid value`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, err := injectInto(t, sidecarPolicy(t, "- {name: one, "+c.policy+"}"), admit.Questions{}, c.pod)
			if problem, ok := errors.AsType[*field.Error](err); c.want == "" && err != nil || c.want != "" && (!ok || !strings.Contains(problem.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestSidecarsKeepMounts: a mount of the pod stays, however its path is written.
func TestSidecarsKeepMounts(t *testing.T) {
	policy := sidecarPolicy(t, `- {name: one, volumes: [{name: logs}], volumeMounts: [{name: logs, mountPath: /var/log/app}]}`)
	for _, path := range []string{"/var/log/app", "/var/log/app/", "/var//log/./app", "var/log/app"} {
		pod := fmt.Sprintf(`{"spec":{"containers":[{"name":"a","volumeMounts":[{"name":"data","mountPath":%q}]}],"volumes":[{"name":"data"}]}}`, path)
		after, warnings, _, err := injectInto(t, policy, admit.Questions{}, pod)
		if err != nil || strings.Contains(after, `"name":"logs","mountPath"`) || strings.Count(after, "mountPath") != 1 {
			t.Errorf("%s: %s, %v", path, after, err)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "volume mount /var/log/app in container a is in the pod already, and stays") {
			t.Errorf("%s: %q", path, warnings)
		}
	}
}

func TestSidecarsPlaceholders(t *testing.T) {
	policy := sidecarPolicy(t, `- {name: one, containers: [{name: x, image: i, command: [run, $(usher.namespace)], args: ["$(usher.name)/$(usher.owner)", $(POD)],
		env: [{name: A, value: "$(usher.labels['app'])-$(usher.labels['none'])"}]}], env: [{name: NS, value: $(usher.namespace)}]}`)
	for pod, want := range map[string]string{
		`{"metadata":{"name":"p","generateName":"q-","labels":{"app":"web"},"ownerReferences":[{"name":"other"},{"name":"rs","controller":true}]},"spec":{"containers":[{"name":"a"}]}}`: "[run ns] [p/rs $(POD)] web-",
		`{"metadata":{"generateName":"q-"},"spec":{"containers":[{"name":"a"}]}}`:                                                                                                        "[run ns] [q-/ $(POD)] -",
	} {
		after, _, _, err := injectInto(t, policy, admit.Questions{}, pod)
		var got corev1.Pod
		if err = errors.Join(err, json.Unmarshal([]byte(after), &got)); err != nil {
			t.Fatal(err)
		}
		a, x := got.Spec.Containers[0], got.Spec.Containers[1]
		if text := fmt.Sprint(x.Command, " ", x.Args, " ", x.Env[0].Value); text != want || fmt.Sprint(a.Env[0].Value, len(x.Env)) != "ns1" {
			t.Errorf("%s, want %s; %v", text, want, a.Env)
		}
	}
}

func TestSidecarsOnlyOnCreate(t *testing.T) {
	d, _ := document.Parse([]byte(`{"spec":{"containers":[{"name":"a"}]}}`))
	req := &admit.Request{Object: d, Operation: admissionv1.Update}
	err := sidecars(sidecarPolicy(t, "- {name: one, containers: [{name: x, image: i}]}"), nil, admit.Questions{}).Run(t.Context(), req, admit.AsPod(d))
	if err != nil || d.Edits() > 0 {
		t.Errorf("%v, %d edits", err, d.Edits())
	}
}

// TestSidecarsSettle: usher and another injector, which always moves its container to the front or to the end and adds
// to all containers, settle: from the third run on usher edits nothing, its containers stay where they are, and it warns
// about nothing that it did not warn about in the first run.
func TestSidecarsSettle(t *testing.T) {
	r := seed.Random(t)
	for range 200 {
		text := randomInjections(r)
		policy := sidecarPolicy(t, text)
		pod := randomPod(r)
		after, first, _, err := injectInto(t, policy, teamA, pod)
		if err != nil {
			t.Fatalf("%s: %v", pod, err)
		}
		again, second, edits, err := injectInto(t, policy, teamA, after)
		if err != nil || edits > 0 || !subset(second, first) {
			t.Fatalf("%s\n%s\n%s\nat once: %d edits, %v, warnings %q, and first %q", text, pod, after, edits, err, second, first)
		}
		front := r.IntN(2) == 0
		for run := range 4 {
			between := foreign(t, again, front)
			if again, second, edits, err = injectInto(t, policy, teamA, between); err != nil || !subset(second, first) {
				t.Fatalf("%s\n%s\n%s\nrun %d: %v, warnings %q, and first %q", text, pod, between, run, err, second, first)
			}
			if names := namesOf(t, between); namesOf(t, again) != names || run > 0 && edits > 0 {
				t.Fatalf("%s\n%s\n%s\nrun %d: %d edits, %s before, %s after", text, pod, again, run, edits, names, namesOf(t, again))
			}
		}
	}
}

// subset reports whether all holds some, apart from warnings about the container of the other injector.
func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) && !strings.Contains(s, "in container foreign") })
}

// randomInjections returns the section of a policy with one to three injections, whose names may meet.
func randomInjections(r *rand.Rand) string {
	pick := func(options ...string) string { return options[r.IntN(len(options))] }
	positions := []string{"first", "last", "{before: a}", "{after: a}", "{before: x}", "{after: none}"}
	var b strings.Builder
	for i := range 1 + r.IntN(3) {
		fmt.Fprintf(&b, `- {name: one-%d, %s initPosition: %s, position: %s, containers: [{name: x%s, image: %s}], initContainers: [%s],
			volumes: [{name: v, %s}], env: [{name: %s, value: %s}], volumeMounts: [{name: v, mountPath: /%s}], imagePullSecrets: [{name: %s}]}
`, i, pick("", "podSelector: {matchLabels: {app: web}},", "namespaceSelector: {matchLabels: {team: a}},"), pick(positions...), pick(positions...),
			pick("", "", fmt.Sprint(i)), pick("i", `"j:2"`), pick("", "{name: w, image: i, restartPolicy: Always, args: [$(usher.name)]}", "{name: z, image: i}"),
			pick("emptyDir: {}", "configMap: {name: c}"), pick("A", "B"), pick(`"1"`, "\"$(usher.labels['app'])\""), pick("v", "w"), pick("s", "t"))
	}
	return b.String()
}

func randomPod(r *rand.Rand) string {
	pod := corev1.Pod{}
	pod.Name, pod.Labels = "p", map[string]string{"app": []string{"web", "db"}[r.IntN(2)]}
	for _, name := range []string{"a", "b", "x", "w"} {
		c := corev1.Container{Name: name, Image: "i"}
		if r.IntN(3) == 0 {
			c.Env = []corev1.EnvVar{{Name: "A", Value: "own"}}
		}
		switch r.IntN(5) {
		case 0, 1:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		case 2:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
	}
	raw, _ := json.Marshal(pod)
	return string(raw)
}

// foreign is another injector, and what the API server does between two webhooks.
func foreign(t *testing.T, raw string, front bool) string {
	t.Helper()
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(raw), &pod); err != nil {
		t.Fatal(err)
	}
	own := corev1.Container{Name: "foreign", Image: "f"}
	pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		if c.Name == own.Name {
			own = c
		}
		return c.Name == own.Name
	})
	if front {
		pod.Spec.Containers = slices.Insert(pod.Spec.Containers, 0, own)
	} else {
		pod.Spec.Containers = append(pod.Spec.Containers, own)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			c.ImagePullPolicy, c.TerminationMessagePath = corev1.PullAlways, "/dev/termination-log"
			if !slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "FOREIGN" }) {
				c.Env = append([]corev1.EnvVar{{Name: "FOREIGN", Value: "1"}}, c.Env...)
			}
		}
	}
	changed, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

// BenchmarkSidecars injects the sidecars of the sample policy into a pod of 20 KB, and then finds that they are there.
func BenchmarkSidecars(b *testing.B) {
	review, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	var parsed admissionv1.AdmissionReview
	if err := json.Unmarshal(review, &parsed); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile("../samples/policies/sidecars.yaml")
	if err != nil {
		b.Fatal(err)
	}
	policy := config.SectionOf[injection.Sidecars](configtest.Parse(b, string(text), injection.Section))
	for i := range policy {
		policy[i].PodSelector = nil
	}
	raw := string(parsed.Request.Object.Raw)
	after, _, _, err := injectInto(b, policy, teamA, raw)
	if err != nil {
		b.Fatal(err)
	}
	for name, object := range map[string]string{"inject": raw, "again": after} {
		step := sidecars(policy, nil, teamA)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, _ := document.Parse([]byte(object))
				req := &admit.Request{Object: d, Operation: admissionv1.Create, Namespace: "ns"}
				if err := step.Run(b.Context(), req, admit.AsPod(d)); err != nil {
					b.Fatal(err)
				}
				if name == "inject" {
					d.PatchJSON()
				}
				d.Release()
			}
		})
	}
}
