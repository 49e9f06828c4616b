package validators

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

func imagePolicy(t testing.TB, text string) ImageRules {
	t.Helper()
	policy := configtest.Parse(t, "imageRules: ["+text+"]", imageRulesSection)
	return config.SectionOf[ImageRules](policy)
}

// checkImages runs the step on a pod, and on an update if old is not empty.
func checkImages(t testing.TB, policy ImageRules, ask admit.Questions, pod, old string) ([]string, error) {
	t.Helper()
	req := &admit.Request{Operation: admissionv1.Create, Namespace: "ns"}
	var err, oldErr error
	req.Object, err = document.Parse([]byte(pod))
	if old != "" {
		req.Operation = admissionv1.Update
		req.OldObject, oldErr = document.Parse([]byte(old))
	}
	if err = errors.Join(err, oldErr); err != nil {
		t.Fatal(err)
	}
	problems, err := imageRules(policy, ask).Run(t.Context(), req, admit.AsPod(req.Object))
	if req.Object.Err() != nil {
		t.Fatal(req.Object.Err())
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return texts, err
}

func TestImageRules(t *testing.T) {
	const (
		digest = "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		rules  = `{name: one, repositories: ["r.example.com/**", docker.io/library/*], refusedTags: [latest, "*-dev"], digests: [docker.io/**]}`
		tags   = `{name: tags, refusedTags: [latest]}`
	)
	app := func(image string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"a","image":%q}]}}`, image)
	}
	all := func(image string) string {
		return fmt.Sprintf(`{"spec":{"initContainers":[{"name":"a","image":%[1]q}],"containers":[{"name":"a","image":%[1]q},{"name":"b","image":"r.example.com/b:1"}],
			"ephemeralContainers":[{"name":"a","image":%[1]q}],"volumes":[{"name":"e","emptyDir":{}},{"name":"a","image":{"reference":%[1]q}}]}}`, image)
	}
	cases := []struct {
		name, rules, pod, old string
		want                  []string // what each problem says
	}{
		{"allowed", rules, app("r.example.com/team/app:1"), "", nil},
		{"allowed with a digest", rules, app("nginx" + digest), "", nil},
		{"the tag does not matter with a digest", rules, app("nginx:latest" + digest), "", nil},
		{"another repository", rules, app("quay.io/a:1"), "", []string{`spec.containers[0].image: Invalid value: "quay.io/a:1": rule one: the repository quay.io/a is not allowed; allowed are r.example.com/**`}},
		{"no tag, and no digest", rules, app("nginx"), "", []string{"the tag latest is refused, which stands for no tag", "a digest is required; write docker.io/library/nginx@sha256:..."}},
		{"longer than a reference", rules, app("r.example.com/" + strings.Repeat("a", 1<<10)), "", []string{"is not a reference to an image (it has 1038 bytes, more than any reference)"}},
		{"the same, written out", rules, app("docker.io/library/nginx:latest"), "", []string{"the tag latest is refused; write", "a digest is required"}},
		{"a pattern of tags", rules, app("r.example.com/a:2-dev"), "", []string{"the tag 2-dev is refused"}},
		{"an excepted repository", `{name: one, refusedTags: ["*"], refusedTagsExcept: ["r.example.com/tools/*", docker.io/library/nginx]}`, app("nginx"), "", nil},
		{"the tags of another one", `{name: one, refusedTags: ["*"], refusedTagsExcept: ["r.example.com/tools/*"]}`, app("r.example.com/tool/a"), "", []string{"the tag latest is refused"}},
		{"an excepted one in another rule", tags + `, {name: two, refusedTags: [latest], refusedTagsExcept: ["**"]}`, app("nginx"), "", []string{"rule tags: the tag latest is refused"}},
		{"only the tag is excepted", `{name: one, refusedTags: [latest], refusedTagsExcept: ["**"], digests: ["**"]}`, app("nginx"), "", []string{"a digest is required"}},
		{"a tag in capitals is another one", tags, app("nginx:LATEST"), "", nil},
		{"not a reference", rules, app("r.example.com/A:1"), "", []string{`spec.containers[0].image: Invalid value: "r.example.com/A:1": is not a reference to an image`}},
		{"an ID of an image on the node", `{name: one, repositories: [docker.io/library/*]}`, app(digest[1:]), "", []string{`is not a reference to an image (it is the ID of an image`}},
		{"a digest that is none", rules, app("nginx@sha256:12"), "", []string{`is not a reference`}},
		{"every place", tags, all("r.example.com/a"), "", []string{"spec.initContainers[0].image", "spec.containers[0].image", "spec.ephemeralContainers[0].image", "spec.volumes[1].image.reference"}},
		{"an update that changes none", tags, all("r.example.com/a"), all("r.example.com/a"), nil},
		{"an update that changes all", tags, all("r.example.com/a"), all("r.example.com/a:1"), []string{"spec.init", "spec.containers[0]", "spec.ephemeral", "spec.volumes[1]"}},
		{"an update by which a rule selects the pod", `{name: one, podSelector: {matchLabels: {app: web}}, refusedTags: [latest]}`, app("nginx"),
			strings.Replace(app("nginx"), "web", "db", 1), []string{`spec.containers[0].image: Invalid value: "nginx": rule one: the tag latest`}},
		{"an update of labels that the rule does not need", `{name: one, podSelector: {matchLabels: {app: web}}, refusedTags: [latest]}`, app("nginx"),
			strings.Replace(app("nginx"), `"app"`, `"x":"y","app"`, 1), nil},
		{"an update by the same in other words", tags, app("nginx:latest"), app("nginx"), []string{"the tag latest is refused"}},
		{"an ephemeral container is added", tags, `{"spec":{"containers":[{"name":"a","image":"nginx"}],"ephemeralContainers":[{"name":"d","image":"busybox"}]}}`, app("nginx"),
			[]string{`spec.ephemeralContainers[0].image: Invalid value: "busybox"`}},
		{"the same name in another list", tags, `{"spec":{"ephemeralContainers":[{"name":"a","image":"nginx"}]}}`, app("nginx"), []string{"spec.ephemeralContainers[0]"}},
		{"all rules", rules + "," + tags, app("quay.io/a"), "", []string{"rule one: the repository", "rule one: the tag", "rule tags: the tag"}},
		{"another pod", `{name: one, podSelector: {matchLabels: {app: db}}, digests: ["**"]}`, app("nginx"), "", nil},
		{"the namespace", `{name: one, namespaceSelector: {matchLabels: {team: a}}, digests: ["**"]}`, app("nginx"), "", []string{"a digest is required"}},
		{"another namespace", `{name: one, namespaceSelector: {matchLabels: {team: b}}, digests: ["**"]}`, app("nginx"), "", nil},
		{"no image", rules, `{"spec":{"containers":[{"name":"a"}],"volumes":[{"name":"v","image":{}}]}}`, "", nil},
		{"no spec", rules, `{}`, "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := checkImages(t, imagePolicy(t, c.rules), teamA, c.pod, c.old)
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("%q, %v", got, err)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%s, want %s", got[i], want)
				}
			}
		})
	}
}

// teamA answers that every namespace has the label team: a.
var teamA = admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
	return admit.Namespace{Labels: map[string]string{"team": "a"}}, true, nil
}}

// TestImageRulesAskLate: a namespace that is not seen yet is our failure, unless no image has changed.
func TestImageRulesAskLate(t *testing.T) {
	policy := imagePolicy(t, `{name: one, namespaceSelector: {matchLabels: {team: a}}, digests: ["**"]}`)
	notReady := admit.Questions{Namespace: func(string) (admit.Namespace, bool, error) {
		return admit.Namespace{}, false, fmt.Errorf("namespaces: %w", admit.ErrNotReady)
	}}
	const pod = `{"spec":{"containers":[{"name":"a","image":"nginx"}]}}`
	if problems, err := checkImages(t, policy, notReady, pod, ""); !errors.Is(err, admit.ErrNotReady) || problems != nil {
		t.Errorf("%v, %v", problems, err)
	}
	if problems, err := checkImages(t, policy, notReady, pod, pod); err != nil || problems != nil {
		t.Errorf("an update that changes nothing: %v, %v", problems, err)
	}
}

// BenchmarkImageRules checks a pod of 20 KB.
func BenchmarkImageRules(b *testing.B) {
	review, err := os.ReadFile("../samples/reviews/mutate-pods/production-pod.json")
	if err != nil {
		b.Fatal(err)
	}
	var parsed admissionv1.AdmissionReview
	if err := json.Unmarshal(review, &parsed); err != nil {
		b.Fatal(err)
	}
	step := imageRules(imagePolicy(b, `{name: one, repositories: ["**"], refusedTags: [none], digests: [none.example.com/**]}`), admit.Questions{})
	b.ReportAllocs()
	for b.Loop() {
		d, _ := document.Parse(parsed.Request.Object.Raw)
		if problems, err := step.Run(b.Context(), &admit.Request{Object: d}, admit.AsPod(d)); err != nil || len(problems) > 0 {
			b.Fatal(problems, err)
		}
		d.Release()
	}
}
