package command

import (
	"strings"
	"testing"

	"usher.dev/usher/server/callers"
)

// TestCallerFlags: flags that contradict each other are refused with what to do.
func TestCallerFlags(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags callers.Options
		plain bool
		want  string // "" for no error
	}{
		{"off", callers.Options{Auth: "off"}, false, ""},
		{"a CA", callers.Options{Auth: "enforce", ClientCA: "ca", Names: []string{"a"}}, false, ""},
		{"tokens", callers.Options{Auth: "log", TokenFile: "t"}, false, ""},
		{"tokens without TLS", callers.Options{Auth: "enforce", TokenFile: "t"}, true, ""},
		{"both", callers.Options{Auth: "enforce", TokenFile: "t", ClientCA: "ca"}, false, ""},
		{"a typo", callers.Options{Auth: "on"}, false, `--auth is "on": must be off, log or enforce`},
		{"nothing to enforce", callers.Options{Auth: "enforce"}, false, "--auth=enforce accepts no one: add --client-ca or --bearer-token-file"},
		{"a CA for nothing", callers.Options{Auth: "off", ClientCA: "ca"}, false, "do nothing with --auth=off: add --auth=log"},
		{"tokens for nothing", callers.Options{Auth: "off", TokenFile: "t"}, false, "do nothing with --auth=off: add --auth=log"},
		{"names for nothing", callers.Options{Auth: "off", Names: []string{"a"}}, false, "do nothing with --auth=off: add --auth=log"},
		{"names without a CA", callers.Options{Auth: "log", TokenFile: "t", Names: []string{"a"}}, false, "--client-names is for the certificates of --client-ca"},
		{"an empty name", callers.Options{Auth: "log", ClientCA: "ca", Names: []string{"a", ""}}, false, "--client-names has an empty name"},
		{"a CA without TLS", callers.Options{Auth: "log", ClientCA: "ca"}, true, "use --bearer-token-file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := (&callerFlags{test.flags}).check(test.plain)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
