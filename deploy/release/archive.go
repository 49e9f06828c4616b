package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archives writes an archive of both programs and an SBOM of each for each platform, and SHA256SUMS of all files.
func (s source) archives(ctx context.Context, out string, platforms []platform) error {
	var files []string
	for _, p := range platforms {
		of := fmt.Sprintf("_%s_%s_%s", s.version, p.os, p.arch)
		archive := filepath.Join(out, "usher"+of+".tar.gz")
		var binaries []string
		for _, program := range programs {
			binary, bill := filepath.Join(out, program.name), filepath.Join(out, program.name+of+".cdx.json")
			if err := s.build(ctx, p, program.folder, binary); err != nil {
				return err
			}
			if err := s.sbom(program.name, binary, bill); err != nil {
				return err
			}
			binaries, files = append(binaries, binary), append(files, bill)
		}
		if err := s.pack(archive, binaries...); err != nil {
			return err
		}
		for _, binary := range binaries {
			if err := os.Remove(binary); err != nil {
				return err
			}
		}
		files = append(files, archive)
		say("%s and the SBOMs of its programs", archive)
	}
	sums := filepath.Join(out, "SHA256SUMS")
	say("%s", sums)
	return writeSums(sums, files)
}

// writeSums writes the checksums of files, as sha256sum does.
func writeSums(sums string, files []string) error {
	var text strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), filepath.Base(file))
	}
	return os.WriteFile(sums, []byte(text.String()), 0o644)
}

// pack writes an archive with binaries, the license and the first page of the documentation.
func (s source) pack(archive string, binaries ...string) error {
	folder := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
	var entries []entry
	for _, file := range append(binaries, filepath.Join(s.root, "LICENSE"), filepath.Join(s.root, "README.md")) {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if slices.Contains(binaries, file) {
			mode = 0o755
		}
		entries = append(entries, entry{tar.Header{Name: folder + "/" + filepath.Base(file), Typeflag: tar.TypeReg, Mode: mode}, content})
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	if err := errors.Join(s.writeTar(zipped, entries...), zipped.Close()); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

// entry is a file or a directory in a tar.
type entry struct {
	tar.Header
	content []byte
}

// writeTar writes entries with the date of the source.
func (s source) writeTar(to io.Writer, entries ...entry) error {
	w := tar.NewWriter(to)
	for _, e := range entries {
		e.Size, e.ModTime, e.Format = int64(len(e.content)), s.date, tar.FormatUSTAR
		if err := w.WriteHeader(&e.Header); err != nil {
			return err
		}
		if _, err := w.Write(e.content); err != nil {
			return err
		}
	}
	return w.Close()
}
