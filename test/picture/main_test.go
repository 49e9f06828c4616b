package main

import (
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	long := "    message: " + strings.Repeat("word ", 30) + "end"
	for _, c := range []struct{ name, text, want string }{
		{"a command", "$ usher", `class="prompt" xml:space="preserve" x="16" y="29">$ usher</text>`},
		{"an added line", "+ a: <b>", `class="good" xml:space="preserve" x="16" y="29">+ a: &lt;b&gt;</text>`},
		{"a removed line", "-  image", `class="bad" xml:space="preserve" x="16" y="29">-  image</text>`},
		{"an empty line is only space", "a\n\nb\n", `y="65">b</text>`},
		{"a wrapped message stays red", long, `class="bad" xml:space="preserve" x="16" y="47">      word`},
		{"the page is as wide as the longest line", "1234567890", `viewBox="0 0 110 50"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := draw("title", c.text); !strings.Contains(got, c.want) {
				t.Errorf("no %s in\n%s", c.want, got)
			}
		})
	}
}
