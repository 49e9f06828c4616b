package scaffold

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// webhook is samples/webhook, as `make golden` packs it: go:embed refuses the files of another module.
//
//go:embed webhook.zip
var webhook []byte

const webhookModule = "example.com/webhook" // as samples/webhook is written

var modulePath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`)

// WebhookCommand is `usherctl new webhook`. say prints lines.
func WebhookCommand(say func(lines ...string)) *cobra.Command {
	module := ""
	c := &cobra.Command{Use: "webhook DIR", Short: "write a webhook of your own, in 450 lines that import nothing of usher",
		Long: `Write an admission webhook of your own into a new folder: a Go module of 450 lines that imports nothing of usher, with samples, tests,
manifests and a Makefile. No checkout is needed. docs/webhook-from-scratch.md builds it step by step.`,
		Args:    cobra.ExactArgs(1),
		Example: "  usherctl new webhook my-webhook --module example.com/me/my-webhook",
		RunE: func(_ *cobra.Command, dir []string) error {
			if module == "" {
				module = "example.com/" + filepath.Base(dir[0])
			}
			if err := WriteWebhook(dir[0], module); err != nil {
				return err
			}
			say("wrote "+dir[0]+", module "+module, "cd "+dir[0]+", then: make run, and in another terminal make try; README.md says where to begin")
			return nil
		}}
	c.Flags().StringVar(&module, "module", "", "path of its Go module (default: example.com/ and the name of the folder)")
	return c
}

// WriteWebhook writes a webhook of one's own into a folder that is empty or does not exist.
func WriteWebhook(dir, module string) error {
	if !modulePath.MatchString(module) {
		return fmt.Errorf("%q is no path of a Go module: use one such as example.com/me/my-webhook", module)
	}
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is not an empty folder: choose another one", dir))
	}
	files, err := zip.NewReader(bytes.NewReader(webhook), int64(len(webhook)))
	if err != nil {
		return err
	}
	for _, f := range files.File {
		text, err := fs.ReadFile(files, f.Name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, renamed(f.Name, text, module), f.Mode())); err != nil {
			return err
		}
	}
	return nil
}

// renamed returns a file with another path of the module.
func renamed(name string, text []byte, module string) []byte {
	switch {
	case name == "go.mod":
		return bytes.Replace(text, []byte("module "+webhookModule+"\n"), []byte("module "+module+"\n"), 1)
	case strings.HasSuffix(name, ".go"):
		return bytes.ReplaceAll(text, []byte(`"`+webhookModule+"/"), []byte(`"`+module+"/"))
	}
	return text
}
