package sections

import (
	"strings"
	"testing"

	"usher.dev/usher/config"
)

func TestBindingProblems(t *testing.T) {
	cases := map[string][]string{
		`binding: {}`:                                 nil,
		`binding: {users: []}`:                        nil,
		`binding: {namespaces: ["*"]}`:                nil,
		`binding: {users: [bob], namespaces: []}`:     nil,
		`binding: {users: [bob], namespaces: [a, b]}`: nil,
		`binding: {users: [bob, "system:serviceaccount:kube-system:koord-scheduler", "system:serviceaccount:kube-system:*", "oidc:*",
		  jane@example.com], namespaces: ["*"], excludeNamespaces: [], bypassLabels: [a.example/b], bypassAnnotations: [c]}`: nil,

		`binding: {users: [bob]}`:                                            {`binding.namespaces: Required value: write ["*"]`},
		`binding: {users: [""], namespaces: []}`:                             {`binding.users[0]: Invalid value: "": must be the exact name`},
		`binding: {users: [" bob"], namespaces: []}`:                         {`binding.users[0]: Invalid value: " bob"`},
		`binding: {users: ["*"], namespaces: []}`:                            {`binding.users[0]: Invalid value: "*": "*" can only be`},
		`binding: {users: [":*"], namespaces: []}`:                           {`binding.users[0]: Invalid value: ":*"`},
		`binding: {users: ["sched*"], namespaces: []}`:                       {`binding.users[0]: Invalid value: "sched*": "*" can only be`},
		`binding: {users: ["a:sched*"], namespaces: []}`:                     {`binding.users[0]: Invalid value: "a:sched*"`},
		`binding: {users: ["a:*:b"], namespaces: []}`:                        {`binding.users[0]: Invalid value: "a:*:b"`},
		`binding: {users: ["a:*:*"], namespaces: []}`:                        {`binding.users[0]: Invalid value: "a:*:*"`},
		`binding: {users: ["system:serviceaccount:*"], namespaces: []}`:      {`must be system:serviceaccount:NAMESPACE:NAME`},
		`binding: {users: ["system:serviceaccount:ns"], namespaces: []}`:     {`must be system:serviceaccount:NAMESPACE:NAME`},
		`binding: {users: ["system:serviceaccount:ns:"], namespaces: []}`:    {`must be system:serviceaccount:NAMESPACE:NAME`},
		`binding: {users: ["system:serviceaccount:Ns:x"], namespaces: []}`:   {`must be system:serviceaccount:NAMESPACE:NAME`},
		`binding: {users: ["system:serviceaccount:ns:x:*"], namespaces: []}`: {`must be system:serviceaccount:NAMESPACE:NAME`},
		`binding: {users: [ok, "b*"], namespaces: ["*", a], excludeNamespaces: [B], bypassLabels: ["a b"], bypassAnnotations: ["/"], extra: 1}`: {
			`binding.extra: Forbidden: unknown field; the known fields are users, `, `binding.users[1]`, `binding.namespaces[0]: Invalid value: "*": stands for all`,
			`binding.excludeNamespaces[0]`, `binding.bypassLabels[0]`, `binding.bypassAnnotations[0]`},
		`binding: {excludeNamespaces: ["*"]}`: {`binding.excludeNamespaces[0]: Invalid value: "*"`},
	}
	for text, wants := range cases {
		parsed, problems := config.Parse([]byte(text), config.Schema{BindingSection, NodeAmplificationSection, QuotasSection})
		if (parsed == nil) != (len(wants) > 0) || len(problems) < len(wants) {
			t.Errorf("%s: %v", text, problems)
		}
		for _, want := range wants {
			if !mentioned(problems, want) {
				t.Errorf("%s: no problem says %q: %v", text, want, problems)
			}
		}
	}
}

// Fields that are not set have a default; empty lists are empty.
func TestBindingDefaults(t *testing.T) {
	for text, want := range map[string][2]int{`binding: {}`: {1, 1}, `binding: {excludeNamespaces: [], bypassLabels: []}`: {0, 0},
		`binding: {excludeNamespaces: [a, b], bypassLabels: [a, b]}`: {2, 2}, `binding: {excludeNamespaces: null, bypassLabels: null}`: {1, 1}} {
		parsed, problems := config.Parse([]byte(text), config.Schema{BindingSection, NodeAmplificationSection, QuotasSection})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		binding := config.SectionOf[*Binding](parsed)
		if got := [2]int{len(binding.Excluded()), len(binding.Bypassing())}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	none := &Binding{}
	if none.Excluded()[0] != "kube-system" || none.Bypassing()[0] != "koordinator.sh/binding-admission-bypass" {
		t.Errorf("%v, %v", none.Excluded(), none.Bypassing())
	}
}

func mentioned(problems []error, want string) bool {
	for _, p := range problems {
		if strings.Contains(p.Error(), want) {
			return true
		}
	}
	return false
}
