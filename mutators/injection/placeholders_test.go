package injection

import (
	"errors"
	"strings"
	"testing"
)

// named replaces each placeholder by its own name in angle brackets.
func named(p Placeholder) (string, error) { return "<" + string(p) + ">", nil }

func TestPlaceholders(t *testing.T) {
	cases := []struct{ name, text, want, problem string }{
		{"none", "plain", "plain", ""},
		{"empty", "", "", ""},
		{"one", "$(usher.namespace)", "<namespace>", ""},
		{"inside a text", "a$(usher.name)b$(usher.owner)", "a<name>b<owner>", ""},
		{"next to each other", "$(usher.name)$(usher.name)", "<name><name>", ""},
		{"a label", "--app=$(usher.labels['app.kubernetes.io/name'])", "--app=<labels/app.kubernetes.io/name>", ""},
		{"a reference of Kubernetes", "$(NODE_NAME)/$(usher.name)", "$(NODE_NAME)/<name>", ""},
		{"a command of a shell", "echo $(hostname) ${usher} $usher", "echo $(hostname) ${usher} $usher", ""},
		{"escaped as in Kubernetes", "$$(usher.name)", "$$(usher.name)", ""},
		{"an escaped dollar before a placeholder", "$$$(usher.name)", "$$<name>", ""},
		{"a dollar at the end", "5$", "5$", ""},
		{"unknown", "$(usher.nmae)", "", "$(usher.nmae) is not a placeholder"},
		{"empty name", "$(usher.)", "", "is not a placeholder"},
		{"not closed", "x$(usher.name", "", "$(usher.name is not closed by )"},
		{"a label without a key", "$(usher.labels[''])", "", "is not a placeholder"},
		{"a label with a bad key", "$(usher.labels['a b'])", "", "is not a placeholder"},
		{"a label without quotes", "$(usher.labels[app])", "", "is not a placeholder"},
		{"one placeholder in another", "$(usher.labels['$(usher.name)'])", "", "is not a placeholder"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			text, err := ParseText(c.text)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("the problem is %v, want %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := text.Expand(named); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if text.Constant() != (c.text == c.want) {
				t.Errorf("constant: %v", text.Constant())
			}
		})
	}
}

func TestExpandReturnsTheErrorOfAValue(t *testing.T) {
	text, err := ParseText("a$(usher.name)")
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad")
	if got, err := text.Expand(func(Placeholder) (string, error) { return "x", bad }); got != "" || !errors.Is(err, bad) {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzPlaceholders: a text that is accepted either has no placeholder, and is kept, or has values in the place of
// each, and nothing else has changed. Values are never read again.
func FuzzPlaceholders(f *testing.F) {
	for _, seed := range []string{"", "$", "$$", "$(usher.name)", "$$$(usher.owner)$", "$(usher.labels['a/b'])x", "$(usher.", "$(X)$(usher.namespace)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := ParseText(text)
		if err != nil {
			if !strings.Contains(text, placeholderStart) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		same, _ := parsed.Expand(func(p Placeholder) (string, error) { return written(p), nil })
		if same != text {
			t.Fatalf("%q becomes %q", text, same)
		}
		if again, err := ParseText(same); err != nil || again.Constant() != parsed.Constant() {
			t.Fatalf("%q: %v", same, err)
		}
	})
}

// written returns a placeholder as it is written in a policy.
func written(p Placeholder) string {
	if key, ok := p.Label(); ok {
		return placeholderStart + "labels['" + key + "'])"
	}
	return placeholderStart + string(p) + ")"
}
