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
	"errors"
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
	commit  string    // empty without a checkout
	date    time.Time // of the commit: the time of all files
}

// options are a command and its flags.
type options struct {
	command, version, out, platforms, image, download, key, program string
}

// parse reads a command line, and checks what can be known without building.
func parse(args []string) (o options, err error) {
	if len(args) == 0 || !slices.Contains([]string{"image", "install", "release"}, args[0]) {
		return o, fmt.Errorf("usage: release push-chart FILE REFERENCE, or release image|install|release [--version VERSION] [--out DIR] " +
			"[--platforms OS/ARCH,...]")
	}
	o.command = args[0]
	set := flag.NewFlagSet(o.command, flag.ContinueOnError)
	set.StringVar(&o.version, "version", "", "version of the binaries (default: git describe)")
	set.StringVar(&o.out, "out", "", "directory for what is built, created anew")
	set.StringVar(&o.platforms, "platforms", "", "platforms to build for (default: all)")
	set.StringVar(&o.image, "image", "usher:dev", "name of the image in the tarballs, with a tag; of a release: its address in a registry, without one")
	set.StringVar(&o.download, "download", "", "address from which the files of the release are downloaded, for krew")
	set.StringVar(&o.key, "key", "", "private key that signs the checksums of a release (default: they are not signed)")
	set.StringVar(&o.program, "program", "usher", "program of the image: usher or usherctl")
	if err := set.Parse(args[1:]); err != nil {
		return o, err
	}
	switch {
	case o.out == "":
		return o, fmt.Errorf("--out is missing: the directory for what is built")
	case o.command == "release" && (!strings.HasSuffix(o.image, "/usher") || o.download == ""):
		return o, fmt.Errorf("--image %s, --download %q: must be the address of the image in a registry, such as registry.example/usher, and of the files",
			o.image, o.download)
	case o.key != "":
		_, err = signerOf(o.key)
	}
	return o, err
}

func run(ctx context.Context, args []string) error {
	if len(args) == 3 && args[0] == "push-chart" {
		pushed, err := pushChart(ctx, args[1], args[2])
		if err == nil {
			say("%s", pushed)
		}
		return err
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	of := slices.IndexFunc(programs, func(p program) bool { return p.name == o.program })
	if of < 0 {
		return fmt.Errorf("--program %s: must be usher or usherctl", o.program)
	}
	targets, err := parsePlatforms(o.platforms, map[string][]platform{"image": imagePlatforms, "release": archivePlatforms}[o.command])
	if err != nil {
		return err
	}
	s, err := open(ctx, o.version)
	if err != nil {
		return err
	}
	if o.command == "release" && !releasable.MatchString(s.version) {
		return fmt.Errorf("--version %s: a release has a version such as v1.2.3 or v1.2.3-rc.1", s.version)
	}
	if changed, err := s.git(ctx, "status", "--porcelain"); o.command == "release" && err == nil && changed != "" {
		return fmt.Errorf("a release is of a commit, and these files differ from it; commit, stash or remove them:\n%s", changed)
	}
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return err
	}
	switch o.command {
	case "image":
		return s.image(ctx, o.out, o.image, programs[of], targets)
	case "install":
		_, err := s.install(o.out, o.image, ":"+s.version)
		return err
	}
	if err := s.release(ctx, o.out, o.image, o.download, targets); err != nil || o.key == "" {
		return err
	}
	return sign(o.key, filepath.Join(o.out, "SHA256SUMS"))
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
	text, err := s.git(ctx, "log", "-1", "--format=%ct %H")
	if err != nil {
		return s, nil // no checkout: the files are as old as Unix
	}
	text, s.commit, _ = strings.Cut(text, " ")
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
