package command

import (
	"os"
	"testing"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/cli"
)

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
