package command

import (
	"strings"
	"testing"
)

// TestCallerFlags: flags that contradict each other are refused with what to do.
func TestCallerFlags(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags callerFlags
		plain bool
		want  string // "" for no error
	}{
		{"off", callerFlags{auth: "off"}, false, ""},
		{"a CA", callerFlags{auth: "enforce", clientCA: "ca", names: []string{"a"}}, false, ""},
		{"tokens", callerFlags{auth: "log", tokenFile: "t"}, false, ""},
		{"tokens without TLS", callerFlags{auth: "enforce", tokenFile: "t"}, true, ""},
		{"both", callerFlags{auth: "enforce", tokenFile: "t", clientCA: "ca"}, false, ""},
		{"a typo", callerFlags{auth: "on"}, false, `--auth is "on": must be off, log or enforce`},
		{"nothing to enforce", callerFlags{auth: "enforce"}, false, "--auth=enforce accepts no one: add --client-ca or --bearer-token-file"},
		{"a CA for nothing", callerFlags{auth: "off", clientCA: "ca"}, false, "do nothing with --auth=off: add --auth=log"},
		{"tokens for nothing", callerFlags{auth: "off", tokenFile: "t"}, false, "do nothing with --auth=off: add --auth=log"},
		{"names for nothing", callerFlags{auth: "off", names: []string{"a"}}, false, "do nothing with --auth=off: add --auth=log"},
		{"names without a CA", callerFlags{auth: "log", tokenFile: "t", names: []string{"a"}}, false, "--client-names is for the certificates of --client-ca"},
		{"an empty name", callerFlags{auth: "log", clientCA: "ca", names: []string{"a", ""}}, false, "--client-names has an empty name"},
		{"a CA without TLS", callerFlags{auth: "log", clientCA: "ca"}, true, "use --bearer-token-file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.flags.check(test.plain)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
