// Package report has what the runs of this module share: the head of their data, their statistics, the files that they write, and their
// flags.
package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Head says when, where and of what a run was.
type Head struct {
	Date       string `json:"date"`            // RFC 3339, UTC
	Commit     string `json:"commit"`          // git describe of the tree
	Usher      string `json:"usher,omitempty"` // version of the binary
	Go         string `json:"go"`
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Pinned     string `json:"pinned,omitempty"` // in words
	Kubernetes string `json:"kubernetes,omitempty"`
	Rounds     int    `json:"rounds"`
	Quick      bool   `json:"quick"` // a rough result
}

// Describe returns the head of a run that begins now, in the root of the repository.
func Describe(ctx context.Context, rounds int, quick bool) Head {
	commit, _ := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	return Head{Date: time.Now().UTC().Format(time.RFC3339), Commit: strings.TrimSpace(string(commit)), Go: runtime.Version(),
		CPU: cpuModel(), Cores: runtime.NumCPU(), Rounds: rounds, Quick: quick}
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// Headline describes what was measured on one core for each process, on which machine and when.
func (h Head) Headline() string {
	return fmt.Sprintf("usher %s (tree %s), %s, %s; %s, %d cores; %s; medians of %d rounds.%s",
		h.Usher, h.Commit, h.Go, h.Date, h.CPU, h.Cores, h.Pinned, h.Rounds, h.Roughly())
}

// Roughly returns a sentence about a quick run, or "".
func (h Head) Roughly() string {
	if h.Quick {
		return " A quick run: for a look only."
	}
	return ""
}

// Read reads the data of a run.
func Read[T any](file string) (*T, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	data := new(T)
	if err := json.Unmarshal(text, data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return data, nil
}

var element = regexp.MustCompile(`(?ms)^    \{$.*?^    \}`) // of a list in an object, indented

// encode returns JSON with a line for each element of a list, so that a diff of two runs is readable.
func encode(data any) ([]byte, error) {
	text, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return nil, err
	}
	text = element.ReplaceAllFunc(text, func(one []byte) []byte {
		line := bytes.NewBufferString("    ")
		_ = json.Compact(line, one) // was just encoded
		return line.Bytes()
	})
	return append(text, '\n'), nil
}

// Write writes the data of a run.
func Write(file string, data any) error {
	text, err := encode(data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// Place names the files of a run in docs. The page has a section between two marks.
type Place struct{ Data, Page, Begins, Ends string }

// Write writes the data and the section of a run. It writes nothing if the page has no marks.
func (p Place) Write(docs string, data any, section string) error {
	page := filepath.Join(docs, p.Page)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), p.Begins+"\n")
	_, after, ends := strings.Cut(rest, p.Ends)
	if !begins || !ends {
		return fmt.Errorf("%s: has no lines %q and %q", page, p.Begins, p.Ends)
	}
	if err := Write(filepath.Join(docs, p.Data), data); err != nil {
		return err
	}
	return os.WriteFile(page, []byte(before+p.Begins+"\n"+section+p.Ends+after), 0o644)
}
