package playground

import "testing"

// TestLineOf: a field is found in YAML and in JSON, in the object of a review, behind an anchor and in the second
// document; of what is not there, the deepest part is.
func TestLineOf(t *testing.T) {
	const pod = "kind: Pod\nmetadata:\n  name: p\n  labels:\n    acme.com/tier: gold\nspec:\n  containers:\n  - name: a\n    env: &env\n    - name: A\n  - name: b\n    env: *env\n"
	const review = "{\n \"kind\": \"AdmissionReview\",\n \"request\": {\n  \"userInfo\": {\n   \"username\": \"jane\"},\n  \"object\": {\n   \"metadata\": {\n    \"name\": \"p\"}}}}"
	for _, c := range []struct {
		text   string
		begins int
		path   string
		line   int
	}{
		{pod, 1, "metadata.name", 3},
		{pod, 1, "metadata.labels[acme.com/tier]", 5},
		{pod, 1, "spec.containers[1].name", 11},
		{pod, 1, "spec.containers[1].env[0].name", 10},
		{pod, 1, "spec.containers[0].image", 8},
		{pod, 1, "spec.containers[7].image", 7},
		{pod, 1, "spec.nodeSelector[disk]", 6},
		{pod, 1, "status.phase", 1},
		{"a: 1\n---\n" + pod, 3, "metadata.name", 5},
		{review, 1, "metadata.name", 8},
		{review, 1, "request.userInfo.username", 5},
		{"\t: not YAML", 1, "metadata.name", 1},
		{"", 1, "metadata.name", 1},
	} {
		if line := newPlaces(c.text, c.begins).lineOf(c.path); line != c.line {
			t.Errorf("%s of %q from line %d: %d, want %d", c.path, c.text, c.begins, line, c.line)
		}
	}
}

// TestYAMLLike: keys are in the order in which they were typed, with new ones behind them except a kind, and text that Kubernetes would take for
// true or false is quoted.
func TestYAMLLike(t *testing.T) {
	const sent = "metadata: {name: p}\nspec:\n  containers:\n  - name: b\n    image: i\n  - image: i\n    name: a\n"
	const object = `{"kind": "Pod", "metadata": {"labels": {"y": "No"}, "name": "p"}, "spec": {"containers": [
		{"args": ["off", "other"], "image": "i", "name": "a"}, {"env": [{"name": "A", "value": "1"}], "image": "i", "name": "b"}]}}`
	const want = "kind: Pod\nmetadata:\n  name: p\n  labels:\n    \"y\": \"No\"\nspec:\n  containers:\n  - image: i\n    name: a\n    args:\n    - \"off\"\n    - other\n" +
		"  - name: b\n    image: i\n    env:\n    - name: A\n      value: \"1\"\n"
	if got := yamlLike([]byte(object), newPlaces(sent, 1).sent(false)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzLineOf(f *testing.F) {
	f.Add("a: [1, {b: *x}]\n", 1, "a[1].b[c.d]")
	f.Add("a: &a [*a]\n", 9, "a[0][0][0]")
	f.Fuzz(func(t *testing.T, text string, begins int, path string) {
		if line := newPlaces(text, begins).lineOf(path); line < 1 {
			t.Errorf("line %d", line)
		}
	})
}
