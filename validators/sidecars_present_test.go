package validators

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/injection"
	"usher.dev/usher/test/configtest"
)

func TestSidecarsPresent(t *testing.T) {
	const (
		both    = `initContainers: [{name: p, image: "p:1", restartPolicy: Always}], containers: [{name: x, image: "x:1"}]`
		present = `"initContainers":[{"name":"p","image":"p:1","restartPolicy":"Always","x":1}],"containers":[{"name":"a"},{"name":"x","image":"x:1"}]`
	)
	notReady := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespaces: %w", admit.ErrNotReady)
	}}
	cases := []struct {
		name, policy, pod string
		operation         admissionv1.Operation
		ask               admit.Questions
		want              []string // what each problem says
		err               error
	}{
		{"present", both, `{"spec":{` + present + `}}`, admissionv1.Create, admit.Questions{}, nil, nil},
		{"both are missing", both, `{"spec":{"containers":[{"name":"a"}]}}`, admissionv1.Create, admit.Questions{},
			[]string{`spec.initContainers: Required value: the container p of injection one is missing`, `spec.containers: Required value: the container x`}, nil},
		{"another image", both, `{"spec":{` + strings.Replace(present, "x:1", "x:2", 1) + `}}`, admissionv1.Create, admit.Questions{},
			[]string{`spec.containers[1].image: Invalid value: "x:2": injection one names the image x:1`}, nil},
		{"no longer native", both, `{"spec":{` + strings.Replace(present, `"Always"`, "null", 1) + `}}`, admissionv1.Create, admit.Questions{},
			[]string{`spec.initContainers[0].restartPolicy: Required value: injection one has a native sidecar: write Always`}, nil},
		{"in the other list", `containers: [{name: p, image: "p:1"}]`, `{"spec":{` + present + `}}`, admissionv1.Create, admit.Questions{},
			[]string{`spec.containers: Required value`}, nil},
		{"an update", both, `{"spec":{}}`, admissionv1.Update, admit.Questions{}, nil, nil},
		{"another pod", `podSelector: {matchLabels: {a: b}}, ` + both, `{"spec":{}}`, admissionv1.Create, admit.Questions{}, nil, nil},
		{"a pod for Windows", both, `{"spec":{"os":{"name":"windows"}}}`, admissionv1.Create, admit.Questions{}, nil, nil},
		{"opted out", `optOutAnnotation: a/b, ` + both, `{"metadata":{"annotations":{"a/b":"true"}}}`, admissionv1.Create, admit.Questions{}, nil, nil},
		{"opted out in other words", `optOutAnnotation: a/b, ` + both, `{"metadata":{"annotations":{"a/b":"yes"}}}`, admissionv1.Create, admit.Questions{},
			[]string{`metadata.annotations[a/b]: Unsupported value: "yes"`}, nil},
		{"only volumes", `volumes: [{name: v}]`, `{"spec":{}}`, admissionv1.Create, admit.Questions{}, nil, nil},
		{"the namespace is not seen yet", `namespaceSelector: {matchLabels: {a: b}}, ` + both, `{}`, admissionv1.Create, notReady, nil, admit.ErrNotReady},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			policy := configtest.Parse(t, "sidecars: [{name: one, "+c.policy+"}]", injection.Section)
			d, err := document.Parse([]byte(c.pod))
			if err != nil {
				t.Fatal(err)
			}
			problems, err := sidecarsPresent(config.SectionOf[injection.Sidecars](policy), nil, c.ask).Run(t.Context(), &admit.Request{Object: d, Operation: c.operation}, admit.AsPod(d))
			if !errors.Is(err, c.err) || len(problems) != len(c.want) {
				t.Fatalf("%v, %v", problems, err)
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("%v, want %s", problems[i], want)
				}
			}
		})
	}
}

// TestSidecarsPresentOnUpdate: an image may be changed only to the one of the policy.
func TestSidecarsPresentOnUpdate(t *testing.T) {
	const policy = `sidecars: [{name: one, optOutAnnotation: a/b, initContainers: [{name: p, image: "p:1", restartPolicy: Always}], containers: [{name: x, image: "x:1"}]}]`
	pod := func(annotation, p, x, app string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{"a/b":%q}},"spec":{"initContainers":[{"name":"p","image":%q}],"containers":[{"name":"a","image":%q},{"name":"x","image":%q}]}}`,
			annotation, p, app, x)
	}
	for _, c := range []struct {
		name, old, now string
		want           []string
	}{
		{"another image", pod("false", "p:1", "x:1", "a"), pod("false", "evil", "evil", "a"), []string{
			`spec.initContainers[0].image: Invalid value: "evil": injection one names the image p:1; set that one, or keep the stored one`, `spec.containers[1].image`}},
		{"that of the policy", pod("false", "p:0", "x:0", "a"), pod("false", "p:1", "x:1", "a"), nil},
		{"an old one is kept", pod("false", "p:0", "x:0", "a"), pod("false", "p:0", "x:0", "b"), nil},
		{"it lacks them", `{"spec":{"containers":[{"name":"a","image":"a"}]}}`, `{"spec":{"containers":[{"name":"a","image":"b"}]}}`, nil},
		{"opted out", pod("true", "p:1", "x:1", "a"), pod("true", "p:2", "x:2", "a"), nil},
		{"an unreadable annotation, and the same images", pod("yes", "p:1", "x:1", "a"), pod("yes", "p:1", "x:1", "a"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed := configtest.Parse(t, policy, injection.Section)
			req := request(t, c.old, c.now)
			problems, err := sidecarsPresent(config.SectionOf[injection.Sidecars](parsed), nil, admit.Questions{}).Run(t.Context(), req, admit.AsPod(req.Object))
			wantProblems(t, problems, err, c.want)
		})
	}
}
