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
	"strings"
)

// archives writes an archive and an SBOM for each platform, and SHA256SUMS of all files.
func (s source) archives(ctx context.Context, out string, platforms []platform) error {
	var files []string
	for _, p := range platforms {
		base := filepath.Join(out, fmt.Sprintf("usher_%s_%s_%s", s.version, p.os, p.arch))
		binary := filepath.Join(out, "usher")
		if err := s.build(ctx, p, binary); err != nil {
			return err
		}
		if err := s.sbom(binary, base+".cdx.json"); err != nil {
			return err
		}
		if err := s.pack(binary, base+".tar.gz"); err != nil {
			return err
		}
		if err := os.Remove(binary); err != nil {
			return err
		}
		files = append(files, base+".tar.gz", base+".cdx.json")
		say("%s.tar.gz and its SBOM", base)
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

// pack writes an archive with the binary, the license and the first page of the documentation.
func (s source) pack(binary, archive string) error {
	folder := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
	var entries []entry
	for _, from := range []struct {
		file string
		mode int64
	}{{binary, 0o755}, {filepath.Join(s.root, "LICENSE"), 0o644}, {filepath.Join(s.root, "README.md"), 0o644}} {
		content, err := os.ReadFile(from.file)
		if err != nil {
			return err
		}
		entries = append(entries, entry{tar.Header{Name: folder + "/" + filepath.Base(from.file), Typeflag: tar.TypeReg, Mode: from.mode}, content})
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
