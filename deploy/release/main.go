// Command release builds what is published of usher: container images without a container engine, and archives of
// static binaries with checksums and SBOMs. The same source and version result in the same bytes. docs/release.md has more.
//
//	build.go    static binaries
//	image.go    the images, as tarballs and as OCI layouts
//	archive.go  archives and checksums
//	install.go  the chart, install.yaml and the manifest for krew
//	sbom.go     the SBOM of a binary
//
//	go run . image --version 1.2.3 --image usher:1.2.3 --out ../../bin/image
//	go run . install --version v1.2.3 --image registry.example/usher --out ../../bin/install
//	go run . release --version v1.2.3 --image registry.example/usher --out ../../bin/release
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// source is the tree to build.
type source struct {
	root    string // of usher's tree
	version string
	date    time.Time // of the commit: the time of all files
}

func run(ctx context.Context, args []string) error {
	if len(args) == 3 && args[0] == "push-chart" {
		pushed, err := pushChart(ctx, args[1], args[2])
		if err == nil {
			say("%s", pushed)
		}
		return err
	}
	if len(args) == 0 || !slices.Contains([]string{"image", "install", "release"}, args[0]) {
		return fmt.Errorf("usage: release push-chart FILE REFERENCE, or release image|install|release [--version VERSION] [--out DIR] " +
			"[--platforms OS/ARCH,...]")
	}
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	version := set.String("version", "", "version of the binaries (default: git describe)")
	out := set.String("out", "", "directory for what is built, created anew")
	platforms := set.String("platforms", "", "platforms to build for (default: all)")
	image := set.String("image", "usher:dev", "name of the image in the tarballs, with a tag; of a release: its address in a registry, without one")
	download := set.String("download", "", "address from which the files of the release are downloaded, for krew")
	key := set.String("key", "", "private key that signs the checksums of a release (default: they are not signed)")
	name := set.String("program", "usher", "program of the image: usher or usherctl")
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	of := slices.IndexFunc(programs, func(p program) bool { return p.name == *name })
	if of < 0 {
		return fmt.Errorf("--program %s: must be usher or usherctl", *name)
	}
	if *out == "" {
		return fmt.Errorf("--out is missing: the directory for what is built")
	}
	s, err := open(ctx, *version)
	if err != nil {
		return err
	}
	targets, err := parsePlatforms(*platforms, map[string][]platform{"image": imagePlatforms, "release": archivePlatforms}[args[0]])
	if err != nil {
		return err
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	switch args[0] {
	case "image":
		return s.image(ctx, *out, *image, programs[of], targets)
	case "install":
		_, err := s.install(*out, *image, ":"+s.version)
		return err
	}
	if !releasable.MatchString(s.version) {
		return fmt.Errorf("--version %s: a release has a version such as v1.2.3 or v1.2.3-rc.1, and no changes that are not committed", s.version)
	}
	if !strings.HasSuffix(*image, "/usher") || *download == "" {
		return fmt.Errorf("--image %s, --download %q: must be the address of the image in a registry, such as registry.example/usher, and of the files",
			*image, *download)
	}
	if err := s.release(ctx, *out, *image, *download, targets); err != nil || *key == "" {
		return err
	}
	return sign(*key, filepath.Join(*out, "SHA256SUMS"))
}

// releasable matches the versions of releases.
var releasable = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`)

// open returns the source of the tree above this module. Its date is the date of the last commit.
func open(ctx context.Context, version string) (s source, err error) {
	if s.root, err = filepath.Abs("../.."); err != nil {
		return s, err
	}
	if s.version = version; version == "" {
		if s.version, err = s.git(ctx, "describe", "--always", "--dirty"); err != nil {
			return s, fmt.Errorf("no version: %w; pass --version", err)
		}
	}
	text, err := s.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return s, nil // no checkout: the files are as old as Unix
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	s.date = time.Unix(seconds, 0).UTC()
	return s, err
}

func (s source) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// say reports what was written.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
