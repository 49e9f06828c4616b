package requests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"usher.dev/usher/internal/cli"
)

// readOld reads the stored object that --old names.
func readOld(streams cli.Streams, file string) (json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	documents := ReadFiles(streams, []string{file}, false)
	if documents[0].Err != nil {
		return nil, fmt.Errorf("--old %w", documents[0].Err)
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("--old %s: holds %d objects, not one", file, len(documents))
	}
	return documents[0].JSON, nil
}

// ReadFiles reads the files, of which some may hold no object. What cannot be read is a document with an error.
func ReadFiles(streams cli.Streams, names []string, recursive bool) (all []Document) {
	var empty []Document
	for _, name := range names {
		files, err := ManifestFiles(name, recursive)
		if err != nil {
			all = append(all, Document{Source: name, Err: err})
		}
		for _, file := range files {
			if read := readFile(streams, file); errors.Is(read[0].Err, errNoObject) {
				empty = append(empty, read...)
			} else {
				all = append(all, read...)
			}
		}
	}
	if len(all) == 0 {
		return empty
	}
	return all
}

// readFile reads the objects of a file, see Read.
func readFile(streams cli.Streams, name string) []Document {
	in, err := streams.OpenFile(name)
	if err != nil {
		return []Document{{Source: name, Err: err}}
	}
	defer func() { _ = in.Close() }()
	return Read(name, in)
}

// ManifestFiles returns a file, or the manifests of a directory in the order of their names, as kubectl reads them.
func ManifestFiles(name string, recursive bool) (files []string, err error) {
	if info, err := os.Stat(name); name == "-" || err != nil || !info.IsDir() {
		return []string{name}, nil // reading it reports what is wrong
	}
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: the directory holds no .yaml, .yml or .json file; -R reads those below it, too", name)
	}
	return files, err
}
