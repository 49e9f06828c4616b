// Package scaffold writes the files of a new step of the core suite: `usherctl new step`.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// Step is a step to be written.
type Step struct {
	Name      string // in kebab-case
	Section   bool   // has settings, in a section of the policy
	Validator bool
	Module    string // that it is written into
}

var kebab = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// New returns a step for the checkout in a directory, or an error if there is none, or if the name cannot be that of a new step.
func New(root, name string, section, validator bool) (Step, error) {
	s := Step{Name: name, Section: section, Validator: validator}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if module := regexp.MustCompile(`(?m)^module (\S+)`).FindSubmatch(mod); module != nil {
		s.Module = string(module[1])
	}
	if _, missing := os.Stat(filepath.Join(root, s.list())); err != nil || missing != nil {
		return s, fmt.Errorf("%s is no checkout of usher: it has no go.mod, or no %s", root, s.list())
	}
	if !kebab.MatchString(name) || token.IsKeyword(name) {
		return s, fmt.Errorf("%q is no name for a step: use words of lower-case letters with hyphens between them, such as team-label", name)
	}
	for _, file := range slices.Sorted(maps.Values(s.files())) {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil {
			return s, fmt.Errorf("%s exists: choose another name, or remove it", file)
		}
	}
	return s, s.unused(root)
}

// unused returns an error if the package declares a name that the step's file would declare.
func (s Step) unused(root string) error {
	declared := regexp.MustCompile(`(?m)^(func|type|var|const) (` + s.Func() + `|` + s.Type() + `|Test` + s.Type() + `)\b`)
	files, err := filepath.Glob(filepath.Join(root, s.room(), "*.go"))
	for _, file := range files {
		source, unreadable := os.ReadFile(file)
		if found := declared.Find(source); found != nil {
			return fmt.Errorf("%s has %q: choose another name", file, found)
		}
		err = errors.Join(err, unreadable)
	}
	return err
}

// Type is the name of the Go type of the section.
func (s Step) Type() string {
	var b strings.Builder
	for word := range strings.SplitSeq(s.Name, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// Func is the name of the function that returns the step.
func (s Step) Func() string { return strings.ToLower(s.Name[:1]) + s.Type()[1:] }

// Key is the name of the section.
func (s Step) Key() string { return s.Func() }

// Label is the label that the step is about until it is written.
func (s Step) Label() string { return "example.com/" + s.Name }

// Pointer is the label in a JSON pointer.
func (s Step) Pointer() string { return "example.com~1" + s.Name }

// Route is the name of the route that runs the step.
func (s Step) Route() string {
	if s.Validator {
		return "validate-pods"
	}
	return "mutate-pods"
}

// room is the folder of the step.
func (s Step) room() string { return s.kind() + "s" }

func (s Step) kind() string {
	if s.Validator {
		return "validator"
	}
	return "mutator"
}

// list is the file with the list of steps.
func (s Step) list() string { return filepath.Join(s.room(), s.room()+".go") }

// files maps the templates to the files that they become.
func (s Step) files() map[string]string {
	base := filepath.Join(s.room(), strings.ReplaceAll(s.Name, "-", "_"))
	files := map[string]string{
		s.kind() + ".go":      base + ".go",
		s.kind() + "_test.go": base + "_test.go",
		"review.json":         filepath.Join("test", "testdata", "reviews", s.Route(), s.Name+".json"),
	}
	if s.Section {
		files["section.yaml"] = filepath.Join("samples", "policies", s.Name+".yaml")
	}
	return files
}

// Write writes the files of the step and its line in the list and, with a section, the section into the documented policy. It returns the
// names of the files.
func (s Step) Write(root string) (written []string, err error) {
	texts := map[string][]byte{}
	for name, file := range s.files() {
		if texts[file], err = s.render(name); err != nil {
			return nil, err
		}
	}
	if texts[s.list()], err = s.listed(root); err != nil {
		return nil, err
	}
	if s.Section {
		if err := s.document(root, texts); err != nil {
			return nil, err
		}
	}
	for file, text := range texts {
		err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755)
		if err = errors.Join(err, os.WriteFile(filepath.Join(root, file), text, 0o644)); err != nil {
			return nil, err
		}
		written = append(written, file)
	}
	slices.Sort(written)
	return written, nil
}

// documented is the policy that has the section of every step.
var documented = filepath.Join("samples", "policy.yaml")

// document adds the section to the documented policy, where the sections of steps come before modes and overrides, which are about all
// steps.
func (s Step) document(root string, texts map[string][]byte) error {
	policy, err := os.ReadFile(filepath.Join(root, documented))
	if err != nil {
		return err
	}
	sample := s.files()["section.yaml"]
	section, end := texts[sample], len(policy)
	if at := aboutAll.FindIndex(policy); at != nil {
		end = at[0]
	}
	texts[documented] = slices.Concat(bytes.TrimRight(policy[:end], "\n"), []byte("\n\n"), section, []byte("\n"), policy[end:])
	texts[documented] = append(bytes.TrimRight(texts[documented], "\n"), '\n')
	texts[sample] = slices.Concat([]byte(schemaLine), section)
	return nil
}

// aboutAll finds modes or overrides, with the comment above it.
var aboutAll = regexp.MustCompile(`(?m)(^#.*\n)*^(modes|overrides):`)

// schemaLine names the schema of a sample to editors.
const schemaLine = "# yaml-language-server: $schema=../schema/policy.json\n"

// render returns what a template becomes.
func (s Step) render(name string) ([]byte, error) {
	t, err := template.ParseFS(templates, "templates/"+name+".tmpl")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, s)
	return b.Bytes(), err
}

// listed returns the list of steps with the step at the end of those for pods.
func (s Step) listed(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, s.list()))
	if err != nil {
		return nil, err
	}
	begin := bytes.Index(source, []byte("\nfunc Pods("))
	end := bytes.Index(source[max(begin, 0):], []byte("\n\t}\n}"))
	if begin < 0 || end < 0 {
		return nil, fmt.Errorf("%s has no list of the steps for pods: func Pods that returns one", s.list())
	}
	argument := ""
	if s.Section {
		argument = "config.SectionOf[*" + s.Type() + "](policy)"
	}
	line := fmt.Sprintf("\n\t\t%s(%s),", s.Func(), argument)
	return bytes.Join([][]byte{source[:begin+end], source[begin+end:]}, []byte(line)), nil
}
