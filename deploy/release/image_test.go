package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/cmd/crane/cmd"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// wantImage builds the image of a program. It must equal the image of a binary that was built in another directory, contain the program
// alone, and run.
func wantImage(t *testing.T, s source, of program, binary []byte) {
	t.Helper()
	if here.os != "linux" {
		t.Log("the image is for Linux, so what is in it does not run here")
		return
	}
	out := t.TempDir()
	if err := s.image(t.Context(), out, "registry.example/usher:v1.2.3-test", of, []platform{here}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(out, of.name+"-linux-"+here.arch+".tar")
	tag, err := name.NewTag("registry.example/usher:v1.2.3-test")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	assembled, err := s.assemble(binary, of, here)
	if err != nil {
		t.Fatal(err)
	}
	digest, _ := assembled.ConfigName() // has the digest of the files; a tarball has a manifest of another type
	if got, err := image.ConfigName(); err != nil || got != digest {
		t.Errorf("the image is %s, %v; assembled from a binary that was built elsewhere it is %s", got, err, digest)
	}
	root := t.TempDir()
	want := []string{"home 0 755", "home/usher 65532 755", of.name + " 0 755"}
	if got := extract(t, image, root); !slices.Equal(got, want) {
		t.Errorf("the image contains %q, want %q", got, want)
	}
	wantRuns(t, filepath.Join(root, of.name), s)
	wantPush(t, filepath.Join(out, "oci"), image)
}

// extract unpacks an image into a directory and returns what is in it, with owners and modes.
func extract(t *testing.T, image v1.Image, root string) (all []string) {
	t.Helper()
	read, write := io.Pipe()
	go func() { write.CloseWithError(crane.Export(image, write)) }()
	for r := tar.NewReader(read); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(all)
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %d %o", h.Name, h.Uid, h.Mode))
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, filepath.Base(h.Name)), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// wantPush pushes the OCI layout with crane, as docs/release.md says, into a registry in memory, and wants the same
// image there.
func wantPush(t *testing.T, layout string, image v1.Image) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/usher:v1.2.3"
	push := cmd.New("crane", "crane", nil)
	push.SetArgs([]string{"push", "--index", layout, target})
	push.SetOut(io.Discard)
	if err := push.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(target)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.OS != "linux" {
		t.Fatalf("%+v, %v", manifest, err)
	}
	pushed, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := pushed.ConfigName()
	if want, _ := image.ConfigName(); got != want {
		t.Errorf("the registry has an image with the configuration %s, the tarball has %s", got, want)
	}
}

// TestImagesOfAllPlatforms: each platform has an image of its own in the layout.
func TestImagesOfAllPlatforms(t *testing.T) {
	s, digests := tree(t), map[string]string{}
	for _, p := range imagePlatforms {
		image, err := s.assemble([]byte("a binary"), programs[0], p)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.OS != p.os || config.Architecture != p.arch || !config.Created.Equal(s.date) {
			t.Errorf("%s: %+v, %v", p, config, err)
		}
		digest, err := image.Digest()
		digests[digest.String()] = p.arch
		again, _ := s.assemble([]byte("a binary"), programs[0], p)
		if same, _ := again.Digest(); err != nil || same != digest {
			t.Errorf("%s: %s, and %s the second time: %v", p, digest, same, err)
		}
	}
	if len(digests) != 2 {
		t.Errorf("the digests are %v", digests)
	}
}

// TestDockerfileAgrees: the Dockerfile and `make image-tar` make images that run in the same way.
func TestDockerfileAgrees(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string]string{}
	for stage := range strings.SplitSeq(string(text), "\nFROM ") {
		first, _, _ := strings.Cut(stage, "\n")
		_, name, _ := strings.Cut(first, " AS ")
		stages[name] = stage
	}
	for _, program := range programs {
		t.Run(program.name, func(t *testing.T) { wantAgrees(t, program, string(text), stages["base"]+stages[program.name]) })
	}
}

// wantAgrees compares the image of a program with its stages of the Dockerfile.
func wantAgrees(t *testing.T, of program, text, stage string) {
	t.Helper()
	last := func(instruction string) string {
		found := regexp.MustCompile(`(?m)^`+instruction+` (.*)$`).FindAllStringSubmatch(stage, -1)
		if found == nil {
			return ""
		}
		return found[len(found)-1][1]
	}
	list := func(instruction string) (words []string) {
		if value := last(instruction); value != "" && json.Unmarshal([]byte(value), &words) != nil {
			t.Errorf("%s: %s", instruction, value)
		}
		return words
	}
	image, err := tree(t).assemble([]byte("a binary"), of, imagePlatforms[0])
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	var ports []string
	for port := range strings.FieldsSeq(last("EXPOSE")) {
		ports = append(ports, port+"/tcp")
	}
	slices.Sort(ports)
	for what, same := range map[string]bool{
		"USER":       c.User == last("USER"),
		"ENTRYPOINT": slices.Equal(c.Entrypoint, list("ENTRYPOINT")),
		"CMD":        slices.Equal(c.Cmd, list("CMD")),
		"WORKDIR":    c.WorkingDir == last("WORKDIR"),
		"EXPOSE":     slices.Equal(slices.Sorted(maps.Keys(c.ExposedPorts)), ports),
		"the path":   strings.Contains(stage, " "+c.Entrypoint[0]+"\n") && c.Entrypoint[0] == "/"+of.name,
		"the owner":  strings.Contains(stage, fmt.Sprintf("--chown=%d:%[1]d /out/home %s", imageUser, imageHome)),
		"the flags":  strings.Contains(text, `-trimpath -ldflags "-s -w -X main.version=$VERSION -X usher.dev/usher/internal/cli.commit=$COMMIT" -o /out/`+of.name+" .\n"),
	} {
		if !same {
			t.Errorf("%s differs between the Dockerfile and release/image.go: %+v", what, c)
		}
	}
	for key, want := range map[string]string{
		"title": of.name, "version": "v1.2.3-test", "licenses": "Apache-2.0", "created": "2026-11-22T01:02:03Z", "revision": tree(t).commit,
	} {
		if got := c.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("the label %s is %q, want %q", key, got, want)
		}
	}
}
