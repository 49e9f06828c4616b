package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/report"
)

// Found holds the cases of directories.
type Found struct {
	Cases []*Case
	// Problems are reports of what is wrong with the files: with any of them, the run cannot be judged.
	Problems []report.Report
}

// Find reads the cases of directories, and of all directories below them. others are files and directories that cases may use
// without naming them.
func Find(dirs []string, others ...string) (found Found) {
	var all []string
	for _, dir := range dirs {
		files, err := filesBelow(dir)
		if err == nil && !slices.ContainsFunc(files, isCaseFile) {
			err = errors.New("there are no cases: no case.yaml, and no file whose name ends in .case.yaml")
		}
		if err != nil {
			found.problem(dir, "no-cases", err)
		}
		for _, file := range files {
			if !slices.Contains(all, file) {
				all = append(all, file)
			}
		}
	}
	for _, file := range all {
		if isCaseFile(file) {
			found.read(file)
		}
	}
	found.checkNames()
	found.checkUnused(all, others)
	return found
}

func (f *Found) problem(source, id string, err error) {
	f.Problems = append(f.Problems, Broken("", source, id, err))
}

// filesBelow returns the files in and below a directory, in the order of their names, without hidden ones.
func filesBelow(dir string) (files []string, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, cmp.Or(err, errors.New("is no directory; --run chooses cases by their names"))
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && path != dir && entry.Name() != ".."
		switch {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return filepath.SkipDir
		case !hidden && !entry.IsDir():
			files = append(files, filepath.Clean(path))
		}
		return nil
	})
	return files, err
}

// isCaseFile reports whether a file holds cases.
func isCaseFile(file string) bool {
	base := filepath.Base(file)
	return slices.Contains([]string{"case.yaml", "case.yml"}, base) || strings.HasSuffix(base, ".case.yaml") || strings.HasSuffix(base, ".case.yml")
}

// read reads the cases of a file.
func (f *Found) read(file string) {
	text, err := readAll(file)
	if err != nil {
		f.problem(file, "case", err)
		return
	}
	found, problems := Read(file, text)
	for _, err := range problems {
		f.problem(file, "case", err)
	}
	if len(found)+len(problems) == 0 {
		f.problem(file, "no-cases", errors.New("the file holds no case"))
	}
	f.Cases = append(f.Cases, found...)
}

func readAll(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no file") // reading a pipe would not end
	}
	if err == nil && info.Size() > manifest.MaxBytes {
		err = fmt.Errorf("larger than %d MiB", manifest.MaxBytes>>20)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// checkNames reports cases that have the same name.
func (f *Found) checkNames() {
	first := map[string]*Case{}
	for _, c := range f.Cases {
		if other, again := first[c.Name]; again {
			f.problem(c.where(c.Place.Line), "duplicate-name", fmt.Errorf("the case %s at %s has the same name", c.Name, other.where(other.Place.Line)))
			continue
		}
		first[c.Name] = c
	}
}

// checkUnused reports files in directories with cases, and below them, that no case names: an object that was meant to be
// examined, and is not.
func (f *Found) checkUnused(files, others []string) {
	used, dirs, missing := map[string]bool{}, map[string]bool{}, []string(nil)
	for _, name := range others {
		used[absolute(name)] = name != ""
	}
	for _, c := range f.Cases {
		dirs[filepath.Dir(c.Place.File)] = true
		for _, name := range c.names() {
			used[absolute(name)] = true
			if _, err := os.Stat(name); err != nil {
				missing = append(missing, filepath.Base(name))
			}
		}
	}
	for _, file := range files {
		if isCaseFile(file) || filepath.Base(file) == "README.md" || used[absolute(file)] || used[absolute(filepath.Dir(file))] || !below(file, dirs) {
			continue
		}
		why := "no case names this file: name it in a case, or remove it"
		if meant := nearest.Of(filepath.Base(file), missing); meant != "" {
			why = "a case names " + meant + ", which does not exist; did you mean this file?"
		}
		f.problem(file, "unused-file", errors.New(why))
	}
}

// below reports whether a file is in one of the directories, or below.
func below(file string, dirs map[string]bool) bool {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if dirs[dir] {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func absolute(name string) string {
	path, err := filepath.Abs(name)
	if err != nil {
		return filepath.Clean(name)
	}
	return path
}
