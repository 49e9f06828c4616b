package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names returns the sorted names of the files in a directory that end in .yaml, .yml or .json, without its subdirectories and
// hidden files.
func Names(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() && !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			names = append(names, name)
		}
	}
	return names, err
}

// ReadDir returns the objects of the files in a directory, in the order of Names. The error has all problems, one a line.
func ReadDir(dir string) (found []Object, err error) {
	names, err := Names(dir)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil && len(content) > MaxBytes {
			err = fmt.Errorf("%s: the file is larger than %d MiB", name, MaxBytes>>20)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		objects, wrong := Read(name, content)
		found, problems = append(found, objects...), append(problems, wrong...)
	}
	return found, errors.Join(problems...)
}
