// Package learn is `usherctl learn`, a course about admission webhooks: lessons, each a folder with a text, a start state, checks, hints and
// a solution. docs/learn.md describes the files of a lesson.
package learn

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed lessons
var embedded embed.FS

// Lesson is one lesson.
type Lesson struct {
	Name    string   // such as 04-not-called
	Number  int      // that the name begins with
	Title   string   // the first line of the text
	Text    string   // Markdown, without the title
	Minutes int      // that it takes
	Needs   string   // "cluster", "terminal", or empty
	Hints   []string // each more concrete than the one before
	Checks  []Check

	files fs.FS // the folder
}

// description is lesson.yaml.
type description struct {
	Minutes int      `json:"minutes"`
	Needs   string   `json:"needs,omitempty"`
	Hints   []string `json:"hints"`
	Checks  []Check  `json:"checks"`
}

// Lessons returns all lessons, in order. An error is a mistake in a lesson.
func Lessons() ([]Lesson, error) {
	folders, err := fs.Sub(embedded, "lessons")
	if err != nil {
		return nil, err
	}
	return read(folders)
}

func read(folders fs.FS) (all []Lesson, err error) {
	entries, err := fs.ReadDir(folders, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		lesson, err := readLesson(folders, e.Name())
		if err != nil {
			return nil, fmt.Errorf("lesson %s: %w", e.Name(), err)
		}
		all = append(all, lesson)
	}
	return all, nil
}

func readLesson(folders fs.FS, name string) (l Lesson, err error) {
	l.Name = name
	number, _, _ := strings.Cut(name, "-")
	if l.Number, err = strconv.Atoi(number); err != nil {
		return l, fmt.Errorf("the name begins with a number")
	}
	if l.files, err = fs.Sub(folders, name); err != nil {
		return l, err
	}
	text, err := fs.ReadFile(l.files, "lesson.md")
	if err != nil {
		return l, err
	}
	title, rest, _ := strings.Cut(string(text), "\n")
	l.Title, l.Text = strings.TrimPrefix(title, "# "), strings.TrimLeft(rest, "\n")
	raw, err := fs.ReadFile(l.files, "lesson.yaml")
	if err != nil {
		return l, err
	}
	var d description
	if err := yaml.UnmarshalStrict(raw, &d); err != nil {
		return l, fmt.Errorf("lesson.yaml: %w", err)
	}
	l.Minutes, l.Needs, l.Hints, l.Checks = d.Minutes, d.Needs, d.Hints, d.Checks
	if len(l.Checks) == 0 || len(l.Hints) == 0 {
		return l, fmt.Errorf("lesson.yaml: checks and hints must not be empty")
	}
	return l, nil
}

// Find returns the lesson that a word means: its number, its name, or a part of its name that is of no other.
func Find(all []Lesson, word string) (Lesson, error) {
	var found []Lesson
	for _, l := range all {
		if n, err := strconv.Atoi(word); l.Name == word || err == nil && n == l.Number {
			return l, nil
		}
		if strings.Contains(l.Name, word) || strings.Contains(strings.ToLower(l.Title), strings.ToLower(word)) {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Lesson{}, fmt.Errorf("there is no lesson %s; `usherctl learn` lists them", word)
	}
	var names []string
	for _, l := range found {
		names = append(names, l.Name)
	}
	return Lesson{}, fmt.Errorf("%s is a part of several names: %s", word, strings.Join(names, ", "))
}

// Where the files of lessons name the schemas for editors: in a checkout, and in the folder of the course.
const (
	schemasOfCheckout = "=../../../../../samples/schema/"
	schemas           = ".schema/"
)

// WriteSchema puts the schema of policies where the files of a course name it.
func WriteSchema(course string, policy []byte) error {
	return Write(course, map[string][]byte{schemas + "policy.json": policy})
}

// tree returns the files of a folder of the lesson, by path within it; none if there is no such folder.
func (l Lesson) tree(folder string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if _, err := fs.Stat(l.files, folder); err != nil {
		return files, nil
	}
	err := fs.WalkDir(l.files, folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(l.files, name)
		at := strings.TrimPrefix(name, folder+"/")
		if program, is := strings.CutSuffix(at, ".go.txt"); is { // it must not be compiled as a part of usherctl
			at = program + ".go"
		}
		files[at] = bytes.Replace(text, []byte(schemasOfCheckout), []byte("=../"+schemas), 1)
		return err
	})
	return files, err
}

// Start returns the files that a learner begins with, with the script that prepares the cluster, if there is one.
func (l Lesson) Start() (map[string][]byte, error) {
	files, err := l.tree("start")
	if script := l.Script("start.sh"); script != "" {
		files["start.sh"] = []byte(script)
	}
	return files, err
}

// Solution returns the files that replace the learner's, or are added to them.
func (l Lesson) Solution() (map[string][]byte, error) { return l.tree("solution") }

// Script returns a script of the lesson, start.sh or solution.sh, or "".
func (l Lesson) Script(name string) string {
	text, err := fs.ReadFile(l.files, path.Clean(name))
	if err != nil {
		return ""
	}
	return string(text)
}
