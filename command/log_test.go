package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/cli"
)

// FuzzLogText: whatever a message, a field or an error contains, a line of the log has no control character but the line
// break at its end, no direction mark, and valid UTF-8: as JSON, as text, and as text with colours, except for those.
func FuzzLogText(f *testing.F) {
	for _, text := range []string{"plain", "a\nlevel=info msg=forged", "\x1b[31mred\x1b[0m", "\u202eresu", "\xff\xc0", "a\tb\r\n", "\u2028\u0085\x7f\x00", "\u200b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, formatter := range map[string]logrus.Formatter{
			"json": &logrus.JSONFormatter{}, "text": &logrus.TextFormatter{DisableColors: true}, "colours": &logrus.TextFormatter{ForceColors: true},
		} {
			var out bytes.Buffer
			log := logrus.New()
			log.SetOutput(&out)
			log.SetFormatter(legible{formatter})
			log.WithFields(logrus.Fields{"user": text}).WithError(errors.New(text)).Warn("policy: " + text)
			line := strings.NewReplacer("\x1b[33m", "", "\x1b[0m", "").Replace(strings.TrimSuffix(out.String(), "\n"))
			if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s: %q is logged as %q", name, text, line)
			}
			if name == "json" && !json.Valid([]byte(line)) {
				t.Errorf("%q is no JSON", line)
			}
		}
	})
}

// TestLogKeepsLines: the lines of an error stay lines for those who decode the JSON.
func TestLogKeepsLines(t *testing.T) {
	var out bytes.Buffer
	log := newLogger("json", &out, &out)
	log.WithError(errors.New("policy:\n\tone\x1b[2J\n\ttwo")).Error("bad")
	if want := `"error":"policy:\n\tone\\x1b[2J\n\ttwo"`; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
}

// TestTerminal: `usher serve 2>/dev/null` logs JSON, as into any file; only a terminal gets text.
func TestTerminal(t *testing.T) {
	for _, test := range []struct {
		path     string
		terminal bool
	}{
		{"/dev/null", false},
		{"/dev/zero", false},
		{"go.mod", false},
		{"/dev/ptmx", true},
	} {
		t.Run(test.path, func(t *testing.T) {
			file, err := os.OpenFile(test.path, os.O_RDWR, 0)
			if err != nil {
				t.Skip(err)
			}
			defer func() { _ = file.Close() }()
			_, json := newLogger("auto", file, file).Formatter.(handlers.JSONLines)
			if cli.IsTerminal(file) != test.terminal || json == test.terminal {
				t.Errorf("a terminal: %v, JSON: %v", cli.IsTerminal(file), json)
			}
		})
	}
}
