package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What the images have in common with the Dockerfile's. 65532 is the user that images without a root user commonly have;
// Home is where `usher serve` keeps a certificate of its own.
const (
	imageHome = "/home/usher"
	imageUser = 65532
)

// image writes the image of a program: one tarball for each platform, which `docker load`, `kind load image-archive` and `ctr images
// import` read, and an OCI layout with all of them, which `crane push` reads.
func (s source) image(ctx context.Context, out, reference string, of program, platforms []platform) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("--image %s: must be a name with a tag: %w", reference, err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		made, err := s.imageOf(ctx, out, of, p)
		if err != nil {
			return err
		}
		file := filepath.Join(out, of.name+"-"+p.os+"-"+p.arch+".tar")
		if err := tarball.WriteToFile(file, tag, made); err != nil {
			return err
		}
		digest, err := made.Digest()
		if err != nil {
			return err
		}
		say("%s  %s  %s", file, tag, digest)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	oci := filepath.Join(out, "oci")
	if _, err := layout.Write(oci, index); err != nil {
		return err
	}
	digest, err := index.Digest()
	say("%s  %s", oci, digest)
	return err
}

// digestOf returns the digest of an OCI layout, by which a registry has it once it is pushed.
func digestOf(oci string) (string, error) {
	index, err := layout.ImageIndexFromPath(oci)
	if err != nil {
		return "", err
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// imageOf builds the binary for a platform and returns the image that contains it.
func (s source) imageOf(ctx context.Context, out string, of program, p platform) (v1.Image, error) {
	file := filepath.Join(out, of.name)
	defer os.Remove(file)
	if err := s.build(ctx, p, of.folder, file); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return s.assemble(binary, of, p)
}

// assemble returns the image with a binary and nothing else.
func (s source) assemble(binary []byte, of program, p platform) (v1.Image, error) {
	files, err := s.layer(binary, of)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err := mutate.Append(base, mutate.Addendum{Layer: layer,
		History: v1.History{Created: v1.Time{Time: s.date}, CreatedBy: "make image-tar", Comment: of.name + " " + s.version}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(made, s.configured(made, of, p))
}

// configured returns the configuration of the image.
func (s source) configured(made v1.Image, of program, p platform) *v1.ConfigFile {
	config, _ := made.ConfigFile() // of an image in memory
	ports := map[string]struct{}{}
	for _, port := range of.ports {
		ports[port] = struct{}{}
	}
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: s.date}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/" + of.name},
		Cmd:          of.args,
		WorkingDir:   imageHome,
		ExposedPorts: ports,
		Labels: map[string]string{
			"org.opencontainers.image.title":       of.name,
			"org.opencontainers.image.description": of.about,
			"org.opencontainers.image.version":     s.version,
			"org.opencontainers.image.created":     s.date.Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      repository,
			"org.opencontainers.image.revision":    s.commit,
		},
	}
	return config
}

// layer returns the only layer: the binary, and the directory that it may write to.
func (s source) layer(binary []byte, of program) ([]byte, error) {
	var out bytes.Buffer
	err := s.writeTar(&out,
		entry{tar.Header{Name: of.name, Typeflag: tar.TypeReg, Mode: 0o755}, binary},
		entry{tar.Header{Name: "home/", Typeflag: tar.TypeDir, Mode: 0o755}, nil},
		entry{tar.Header{Name: "home/usher/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: imageUser, Gid: imageUser}, nil})
	return out.Bytes(), err
}
