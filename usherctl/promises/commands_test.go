package promises

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"usher.dev/usher/test/harness"
)

// TestCommandsExist: every command of the two programs that a page, a manifest, a sample, a lesson or a message of the code has is one of
// that program, with its flags.
func TestCommandsExist(t *testing.T) {
	roots, lines := programs(), 0
	moved := movedCommands(roots["usher"])
	for file, text := range commandTexts(t) {
		for _, words := range commandLines(text) {
			lines++
			if err := lookUp(roots[words[0]], words[1:]); err != nil {
				t.Errorf("%s: %s: %v", file, strings.Join(words, " "), err)
			}
		}
		for _, m := range addedArgument.FindAllStringSubmatch(text, -1) {
			if lookUp(roots["usher"], []string{"serve", m[1]}) != nil && lookUp(roots["usher"], []string{"webhooks", "apply", m[1]}) != nil {
				t.Errorf("%s: neither the Deployment nor the Job takes %s", file, m[1])
			}
		}
		if found := moved.FindString(text); found != "" {
			t.Errorf("%s: %q is a command of usherctl", file, found)
		}
	}
	if lines < 300 {
		t.Errorf("only %d command lines were found", lines)
	}
}

// TestLookUp: what does not exist is found.
func TestLookUp(t *testing.T) {
	text := "Run `usher review FILE`, `usherctl reviw`, `bin/usherctl review --nothing FILE` or `usher webhooks save`.\n\n    $ usher show -x | usherctl learn chek\n" +
		"    usherctl review - && usher webhooks apply --yes\n"
	var wrong []string
	for _, words := range commandLines(text) {
		if lookUp(programs()[words[0]], words[1:]) != nil {
			wrong = append(wrong, strings.Join(words, " "))
		}
	}
	want := []string{"usher review FILE", "usherctl reviw", "usherctl review --nothing FILE", "usher webhooks save", "usher show -x"}
	slices.Sort(wrong)
	slices.Sort(want)
	if !slices.Equal(wrong, want) {
		t.Errorf("got %q, want %q", wrong, want)
	}
}

// movedCommands matches the commands of usherctl that were once usher's.
func movedCommands(usher *cobra.Command) *regexp.Regexp {
	var names []string
	for _, c := range usher.Commands() {
		if c.Hidden {
			names = append(names, c.Name())
		}
	}
	return regexp.MustCompile(`\busher (` + strings.Join(names, "|") + `)\b`)
}

// commandTexts returns what people read, by its file. Of Go files these are the strings.
func commandTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := harness.Pages(t)
	delete(texts, "CHANGELOG.md")         // which has commands of the past
	delete(texts, "docs/command-line.md") // which is generated; TestExamples runs its examples
	for _, dir := range []string{"deploy", "samples", ".github", "usherctl/learn/lessons", "usherctl/playground/page", "usherctl/scaffold/templates"} {
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains([]string{".md", ".yaml", ".txt", ".sh", ".js", ".html", ".tmpl", ".json"}, filepath.Ext(file)) {
				texts[file] = harness.ReadFile(t, file)
				if filepath.Ext(file) != ".md" {
					texts[file] = indentation.ReplaceAllString(texts[file], "") // which makes no code there
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range harness.GoFiles(t, "usherctl") {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "test/") {
			texts[file] = stringsOf(harness.ReadFile(t, file))
		}
	}
	return texts
}

// stringsOf returns the string literals of a Go file, with an empty line between them.
func stringsOf(source string) string {
	var s scanner.Scanner
	var all []string
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), []byte(source), nil, 0)
	for {
		switch _, kind, literal := s.Scan(); kind {
		case token.EOF:
			return strings.Join(all, "\n\n")
		case token.STRING:
			if text, err := strconv.Unquote(literal); err == nil {
				all = append(all, text)
			}
		}
	}
}

// inCode matches a span of code, or a line of code: indented, or after a prompt; or a line that begins with a command.
var inCode = regexp.MustCompile("`((?:bin/)?usher(?:ctl)?(?: [^`]*)?)`|(?m)^(?: {4,}|\t+|\\$ )(?:\\$ )?(.*)$|" +
	"^(usher (?:serve|webhooks|certs|show) .*|usherctl (?:review|test|steps|schema|new|doctor|explain|learn|playground|lab) .*)$")

var indentation = regexp.MustCompile(`(?m)^[ \t]+`)

// fence matches a fenced block of code.
var fence = regexp.MustCompile("(?ms)^ *```\\w*$(.*?)^ *```$")

// inShell matches a command of one of the programs in a line of code, up to its end.
var inShell = regexp.MustCompile(`(?:^|[|&;(] *)(?:bin/)?(usherctl|usher)( [^|&;#<>(),]*|$)`)

// The arguments of usher's containers: a list, and what a patch adds to it.
var (
	arguments     = regexp.MustCompile(`(?m)^ *args:\n((?: *- .*\n)+)`)
	addedArgument = regexp.MustCompile(`/args/-, value: (--\S+)}`)
)

// commandLines returns the words of the commands in a text.
func commandLines(text string) (all [][]string) {
	for _, m := range arguments.FindAllStringSubmatch(text, -1) {
		if words := strings.Fields(strings.NewReplacer("- ", "", "'", "").Replace(m[1])); words[0][0] != '-' {
			all = append(all, append([]string{"usher"}, words...))
		}
	}
	text = fence.ReplaceAllStringFunc(text, func(block string) string { return strings.ReplaceAll(block, "\n", "\n    ") })
	for _, m := range inCode.FindAllStringSubmatch(text, -1) {
		for _, c := range inShell.FindAllStringSubmatch(m[1]+m[2]+m[3], -1) {
			all = append(all, append([]string{c[1]}, strings.Fields(c[2])...))
		}
	}
	return all
}

// lookUp returns an error if a program lacks a command or one of its flags.
func lookUp(root *cobra.Command, words []string) error {
	c, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err
	case c.Hidden:
		return fmt.Errorf("%s is hidden", c.Name())
	case len(rest) > 0 && strings.HasPrefix(rest[0], "%"): // any command
	case c == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"),
		c.HasAvailableSubCommands() && c.Args != nil && len(rest) > 0 && isWord.MatchString(rest[0]) && c.Args(c, rest[:1]) != nil:
		return fmt.Errorf("%s has no command %s", c.CommandPath(), rest[0])
	}
	for _, word := range rest {
		name := isFlag.FindStringSubmatch(word)
		if name == nil || name[1] == "--help" || name[1] == "-h" {
			continue
		}
		long, short := strings.TrimPrefix(name[1], "--"), strings.TrimPrefix(name[1], "-")
		if c.Flag(long) == nil && (len(short) != 1 || c.Flags().ShorthandLookup(short) == nil) {
			return fmt.Errorf("%s has no flag %s", c.CommandPath(), name[1])
		}
	}
	return nil
}

var (
	isWord = regexp.MustCompile(`^[a-z]+$`)
	isFlag = regexp.MustCompile(`^['"]?(--[a-z][a-z-]*|-[a-zA-Z])`)
)
