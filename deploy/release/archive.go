package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// release writes all that is published: archives and SBOMs, images, the chart, install.yaml and the manifest for krew, and SHA256SUMS of
// all files. The image is its address in a registry, without a tag, and download the address of the files.
func (s source) release(ctx context.Context, out, image, download string, platforms []platform) error {
	files, err := s.archives(ctx, out, platforms)
	if err != nil {
		return err
	}
	containers := slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool { return p.os != "linux" })
	for _, of := range programs {
		reference := strings.TrimSuffix(image, "usher") + of.name + ":" + s.version
		layout := filepath.Join(out, "image", of.name)
		if err := s.image(ctx, layout, reference, of, containers); err != nil {
			return err
		}
		file := filepath.Join(out, fmt.Sprintf("%s_%s_oci.tar.gz", of.name, s.version))
		blobs, err := s.files(filepath.Join(layout, "oci"), ".")
		if err != nil {
			return err
		}
		if err := s.writeGzip(file, blobs...); err != nil {
			return err
		}
		files = append(files, file)
	}
	digest, err := digestOf(filepath.Join(out, "image", "usher", "oci"))
	if err != nil {
		return err
	}
	installed, err := s.install(out, image, "@"+digest)
	if err != nil {
		return err
	}
	plugin, err := s.krew(out, download, platforms)
	if err != nil {
		return err
	}
	files = append(append(files, installed...), plugin)
	sums := filepath.Join(out, "SHA256SUMS")
	say("%s", sums)
	return writeSums(sums, files)
}

// archiveName returns the name of the archive for a platform.
func (s source) archiveName(p platform) string {
	return fmt.Sprintf("usher_%s_%s_%s.tar.gz", s.version, p.os, p.arch)
}

// archives writes an archive of both programs and an SBOM of each for each platform. It returns the files.
func (s source) archives(ctx context.Context, out string, platforms []platform) (files []string, err error) {
	for _, p := range platforms {
		of := fmt.Sprintf("_%s_%s_%s", s.version, p.os, p.arch)
		archive := filepath.Join(out, s.archiveName(p))
		var binaries []string
		for _, program := range programs {
			binary, bill := filepath.Join(out, program.name), filepath.Join(out, program.name+of+".cdx.json")
			if err := s.build(ctx, p, program.folder, binary); err != nil {
				return nil, err
			}
			if err := s.sbom(program.name, binary, bill); err != nil {
				return nil, err
			}
			binaries, files = append(binaries, binary), append(files, bill)
		}
		if err := s.pack(archive, binaries...); err != nil {
			return nil, err
		}
		for _, binary := range binaries {
			if err := os.Remove(binary); err != nil {
				return nil, err
			}
		}
		files = append(files, archive)
		say("%s and the SBOMs of its programs", archive)
	}
	return files, nil
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

// signerOf returns what signs with a private key in PEM, of openssl or of `cosign generate-key-pair` with COSIGN_PASSWORD.
func signerOf(key string) (signature.Signer, error) {
	signer, err := signature.LoadSignerFromPEMFile(key, crypto.SHA256, cryptoutils.StaticPasswordFunc([]byte(os.Getenv("COSIGN_PASSWORD"))))
	if err != nil {
		return nil, fmt.Errorf("--key %s: must be a private key in PEM, of openssl, or of cosign with its password in COSIGN_PASSWORD: %w", key, err)
	}
	return signer, nil
}

// sign signs a file with a private key into FILE.sig.
func sign(key, file string) error {
	signer, err := signerOf(key)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	signed, err := signer.SignMessage(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return os.WriteFile(file+".sig", signed, 0o644)
}

// shipped are the files and folders that archives have beside the programs.
var shipped = []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs", "samples", "test/testdata/reviews", "deploy/README.md",
	"deploy/doctor.yaml", "deploy/base", "deploy/chart/README.md", "deploy/components", "deploy/crds", "deploy/demo",
	"deploy/monitoring", "deploy/overlays"}

// pack writes an archive with binaries, and the license, documentation and samples that go with them.
func (s source) pack(archive string, binaries ...string) error {
	folder := strings.TrimSuffix(filepath.Base(archive), ".tar.gz") + "/"
	var entries []entry
	for _, binary := range binaries {
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		entries = append(entries, entry{tar.Header{Name: folder + filepath.Base(binary), Typeflag: tar.TypeReg, Mode: 0o755}, content})
	}
	for _, part := range shipped {
		files, err := s.files(filepath.Join(s.root, part), folder+part)
		if err != nil {
			return err
		}
		entries = append(entries, files...)
	}
	return s.writeGzip(archive, entries...)
}

// files returns a file, or the files of a folder in the order of their names, to be called as named.
func (s source) files(root, named string) (entries []entry, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		name := named + filepath.ToSlash(strings.TrimPrefix(file, root))
		entries = append(entries, entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, content})
		return err
	})
	return entries, err
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
