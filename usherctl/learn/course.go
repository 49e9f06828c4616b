package learn

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/printable"
)

// Course is a learner's folder, with a folder for each lesson that was begun.
type Course struct{ Dir string }

// marker is the file in a folder by which a lesson is known again. It has the state.
const marker = ".lesson"

// state is the saved state of a lesson.
type state struct {
	Lesson string `json:"lesson"`
	Hints  int    `json:"hints,omitempty"` // that were shown
	Done   bool   `json:"done,omitempty"`
}

// Folder returns the folder of a lesson.
func (c Course) Folder(l Lesson) string { return filepath.Join(c.Dir, l.Name) }

// Begin copies the start state of a lesson into its folder, unless the lesson was begun before.
func (c Course) Begin(l Lesson) (fresh bool, err error) {
	switch _, err := c.read(l); {
	case err == nil:
		return false, c.current(l)
	case !errors.As(err, &notBegun{}):
		return false, err // the learner's files stay
	}
	return true, c.Reset(l)
}

// Reset puts the start state of a lesson into its folder. What a learner has added or changed there is lost.
func (c Course) Reset(l Lesson) error {
	files, err := l.Start()
	if err != nil {
		return err
	}
	folder := c.Folder(l)
	if c.has(l) {
		if err := empty(folder); err != nil {
			return err
		}
	}
	if err := Write(folder, files); err != nil {
		return err
	}
	return errors.Join(c.save(l, state{Lesson: l.Name}), c.current(l))
}

// has reports whether the folder of a lesson is one, and not somebody's own.
func (c Course) has(l Lesson) bool {
	s, err := c.read(l)
	return err == nil && s.Lesson == l.Name
}

// Own returns the files in the folder of a lesson that are neither of its start nor of its solution, and that Reset deletes.
func (c Course) Own(l Lesson) (own []string, err error) {
	start, err := l.Start()
	if err != nil || !c.has(l) {
		return nil, err
	}
	solution, err := l.Solution()
	if err != nil {
		return nil, err
	}
	maps.Copy(start, solution)
	err = filepath.WalkDir(c.Folder(l), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(c.Folder(l), file)
		if start[filepath.ToSlash(name)] == nil && name != marker {
			own = append(own, printable.Line(name))
		}
		return err
	})
	return own, err
}

// empty removes what is in a folder. The folder stays: a shell may be in it.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Solve puts the solution of a lesson into its folder.
func (c Course) Solve(l Lesson) error {
	files, err := l.Solution()
	if err != nil {
		return err
	}
	return Write(c.Folder(l), files)
}

// Hint returns the next hint of a lesson, and which of how many it is; after the last, the last again.
func (c Course) Hint(l Lesson) (text string, n int, err error) {
	s, err := c.read(l)
	if err != nil {
		return "", 0, err
	}
	s.Hints = min(max(s.Hints, 0)+1, len(l.Hints)) // it may be changed by hand
	return l.Hints[s.Hints-1], s.Hints, c.save(l, s)
}

// Mark remembers whether a lesson is done.
func (c Course) Mark(l Lesson, done bool) error {
	s, err := c.read(l)
	if err != nil || s.Done == done {
		return err
	}
	s.Done = done
	return c.save(l, s)
}

// Progress returns "done", "begun" or "".
func (c Course) Progress(l Lesson) string {
	s, err := c.read(l)
	switch {
	case errors.As(err, &notBegun{}):
		return ""
	case s.Done:
		return "done"
	}
	return "begun"
}

// Current returns the name of the lesson in whose folder the command runs, or of the lesson that was begun last.
func (c Course) Current() (name string, err error) {
	if course, lesson := here(); lesson != "" && course == c {
		return lesson, nil
	}
	if s, err := readState(filepath.Join(c.Dir, marker)); err == nil && s.Lesson != "" {
		return s.Lesson, nil
	}
	return "", errors.New("no lesson is begun here; `usherctl learn 1` begins the first")
}

// Here returns the course of the folder in which the command runs, if that is a course's or a lesson's, and else of dir.
func Here(dir string) Course {
	if course, lesson := here(); lesson != "" {
		return course
	}
	return Course{dir}
}

// here returns the course of the folder in which the command runs, and the lesson that it is of, or that was begun last in
// the course; none if it is another folder.
func here() (c Course, lesson string) {
	s, err := readState(marker)
	working, lost := os.Getwd()
	switch {
	case err != nil || lost != nil:
		return c, ""
	case s.Lesson == filepath.Base(working):
		return Course{filepath.Dir(working)}, s.Lesson
	}
	return Course{working}, s.Lesson
}

func (c Course) current(l Lesson) error { return writeState(c.Dir, state{Lesson: l.Name}) }

// notBegun is the error for a lesson that was not begun.
type notBegun struct{ lesson Lesson }

func (e notBegun) Error() string {
	return fmt.Sprintf("lesson %s is not begun; `usherctl learn %d` begins it", e.lesson.Name, e.lesson.Number)
}

func (c Course) read(l Lesson) (s state, err error) {
	s, err = readState(filepath.Join(c.Folder(l), marker))
	if errors.Is(err, fs.ErrNotExist) {
		return s, notBegun{l}
	}
	return s, err
}

func readState(file string) (s state, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := yaml.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("%s: %w; `usherctl learn reset` begins the lesson again", file, err)
	}
	return s, nil
}

func (c Course) save(l Lesson, s state) error { return writeState(c.Folder(l), s) }

func writeState(folder string, s state) error {
	raw, err := yaml.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, marker), raw, 0o644)
}

// Write writes files into a folder.
func Write(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Export writes all lessons for a teacher: the folders for the class, and those with the hints and solutions.
func Export(dir string, all []Lesson) error {
	for _, l := range all {
		start, err := l.Start()
		if err != nil {
			return err
		}
		solution, err := l.Solution()
		if err != nil {
			return err
		}
		start["README.md"] = []byte("# " + l.Title + "\n\n" + l.Text)
		marked, err := yaml.Marshal(state{Lesson: l.Name})
		if err != nil {
			return err
		}
		start[marker] = marked
		solution["HINTS.md"] = []byte("# " + l.Title + "\n\n1. " + strings.Join(l.Hints, "\n1. ") + "\n")
		if err := errors.Join(Write(filepath.Join(dir, "class", l.Name), start), Write(filepath.Join(dir, "teacher", l.Name), solution)); err != nil {
			return err
		}
	}
	return nil
}
