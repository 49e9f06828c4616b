package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
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
func (s source) pack(binary, archive string) (err error) {
	file, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	zipped := gzip.NewWriter(file)
	w := tar.NewWriter(zipped)
	folder := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
	for _, from := range []struct {
		file string
		mode int64
	}{{binary, 0o755}, {filepath.Join(s.root, "LICENSE"), 0o644}, {filepath.Join(s.root, "README.md"), 0o644}} {
		content, err := os.ReadFile(from.file)
		if err != nil {
			return err
		}
		header := tar.Header{Name: folder + "/" + filepath.Base(from.file), Typeflag: tar.TypeReg, Mode: from.mode, Size: int64(len(content)),
			ModTime: s.date, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return zipped.Close()
}
