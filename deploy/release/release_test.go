package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/elliptic"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// here is the platform of this machine, so that its packages are compiled already.
var here = platform{runtime.GOOS, runtime.GOARCH}

func tree(t *testing.T) source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return source{root: root, version: "v1.2.3-test", commit: "0123abc", date: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)}
}

// elsewhere returns the same source in another directory.
func elsewhere(t *testing.T, s source) source {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(s.root, func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.root, file)
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{".git", "bin", ".state", "release"}, name), filepath.Dir(name) == "test" && name != "test/testdata":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.root = to
	return s
}

// wantSameFiles fails the test unless two directories have the same files with the same bytes.
func wantSameFiles(t *testing.T, a, b string) {
	t.Helper()
	files := 0
	list := func(dir string) (names []string) {
		_ = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, _ := filepath.Rel(dir, file)
				names = append(names, name)
			}
			return err
		})
		return names
	}
	if got, want := list(b), list(a); !slices.Equal(got, want) {
		t.Fatalf("the files are %q, and %q the second time", want, got)
	}
	for _, name := range list(a) {
		files++
		first, _ := os.ReadFile(filepath.Join(a, name))
		second, _ := os.ReadFile(filepath.Join(b, name))
		if !bytes.Equal(first, second) {
			t.Errorf("%s has other bytes when it is built again in another directory", name)
		}
	}
	if files < 3 {
		t.Errorf("%s has %d files", a, files)
	}
}

// TestRelease: archives built twice, in different directories, are the same, their checksums are right, and what is in
// them runs. The images contain the same binaries.
func TestRelease(t *testing.T) {
	s, first, second := tree(t), t.TempDir(), t.TempDir()
	for to, from := range map[string]source{first: s, second: elsewhere(t, s)} {
		if err := from.release(t.Context(), to, "registry.example/usher", "https://download.example/v1.2.3-test", []platform{here}); err != nil {
			t.Fatal(err)
		}
	}
	wantSameFiles(t, first, second)
	wantSums(t, first)
	wantInstallable(t, first)
	wantPushed(t, s, first)
	base := fmt.Sprintf("usher_v1.2.3-test_%s_%s", here.os, here.arch)
	files := unpack(t, filepath.Join(first, base+".tar.gz"))
	for _, name := range []string{"LICENSE", "README.md"} {
		want, _ := os.ReadFile(filepath.Join(s.root, name))
		if !bytes.Equal(files[base+"/"+name], want) {
			t.Errorf("the archive has another %s, or none", name)
		}
	}
	dir := t.TempDir()
	for _, program := range programs {
		binary := filepath.Join(dir, program.name)
		if err := os.WriteFile(binary, files[base+"/"+program.name], 0o700); err != nil || len(files) < 100 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		wantRuns(t, binary, s)
		wantBill(t, binary, filepath.Join(first, strings.Replace(base, "usher", program.name, 1)+".cdx.json"))
	}
	for _, program := range programs {
		wantImage(t, s, program, files[base+"/"+program.name])
	}
}

// wantInstallable fails the test unless the chart, install.yaml and the plugin's manifest name the version, the image and the archives.
func wantInstallable(t *testing.T, dir string) {
	t.Helper()
	digest, err := digestOf(filepath.Join(dir, "image", "usher", "oci"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"install.yaml":    {"image: registry.example/usher@" + digest + "\n", "kind: Deployment", "kind: Job"},
		"usher.krew.yaml": {"version: \"v1.2.3-test\"", "uri: https://download.example/v1.2.3-test/usher_v1.2.3-test_" + here.os + "_" + here.arch + ".tar.gz\n"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		for _, part := range want {
			if err != nil || !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q: %v", name, part, err)
			}
		}
	}
	chart := unpack(t, filepath.Join(dir, "usher-1.2.3-test.tgz"))
	for name, want := range map[string]string{"usher/Chart.yaml": "version: 1.2.3-test\nappVersion: v1.2.3-test", "usher/values.yaml": "repository: registry.example/usher\n",
		"usher/templates/deployment.yaml": "kind: Deployment", "usher/monitoring/dashboard.json": "panels"} {
		if !strings.Contains(string(chart[name]), want) {
			t.Errorf("the chart's %s lacks %q", name, want)
		}
	}
}

// wantPushed runs push.sh with a registry of this test's own, and a cosign that only notes its arguments.
func wantPushed(t *testing.T, s source, dir string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	at, tools := strings.TrimPrefix(server.URL, "http://"), t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "cosign"), []byte("#!/bin/sh\ntest -f \"$4\" && echo \"$@\" | tee -a "+tools+"/signed\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "k"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	push := exec.CommandContext(t.Context(), filepath.Join(s.root, "deploy/release/push.sh"), dir)
	push.Dir, push.Env = tools, append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "REGISTRY="+at+"/x", "VERSION="+s.version, "COSIGN_ARGS=--key k")
	printed, err := push.Output()
	if sums := regexp.MustCompile(`^([0-9a-f]{64}  ` + regexp.QuoteMeta(at) + `/x/(usher|usherctl|charts/usher)\n){3}$`); err != nil || !sums.Match(printed) {
		t.Fatalf("%v\n%s", err, printed)
	}
	digest, err := digestOf(filepath.Join(dir, "image", "usher", "oci"))
	if err != nil {
		t.Fatal(err)
	}
	signed, _ := os.ReadFile(filepath.Join(tools, "signed"))
	for _, want := range []string{"sign --yes --key k " + at + "/x/usher@" + digest + "\n", "sign --yes --key k " + at + "/x/usherctl@sha256:",
		"sign --yes --key k " + at + "/x/charts/usher@sha256:", "sign-blob --yes --key k --new-bundle-format --bundle " + dir + "/SHA256SUMS.sigstore.json " + dir + "/SHA256SUMS\n"} {
		if !strings.Contains(string(signed), want) {
			t.Errorf("signed:\n%swithout %s", signed, want)
		}
	}
	chart, err := crane.Manifest(at + "/x/charts/usher:" + s.semver())
	if err != nil || !strings.Contains(string(chart), "application/vnd.cncf.helm.chart.content.v1.tar+gzip") {
		t.Errorf("the chart is %s, %v", chart, err)
	}
	if config, err := crane.Config(at + "/x/charts/usher:" + s.semver()); err != nil || !strings.Contains(string(config), `"version":"1.2.3-test"`) {
		t.Errorf("the chart's configuration is %s, %v", config, err)
	}
}

// TestShipped: what docs/install.md links, and what the cases of samples/tests read, is in the archive.
func TestShipped(t *testing.T) {
	s, archive := tree(t), filepath.Join(t.TempDir(), "u.tar.gz")
	if err := s.pack(archive); err != nil {
		t.Fatal(err)
	}
	files, found := unpack(t, archive), 0
	reads := regexp.MustCompile(`(?:\]\(|: )(\.\.?/[\w./-]+|\w+\.md)`)
	for name, text := range files {
		for _, m := range reads.FindAllSubmatch(text, -1) {
			found++
			to := path.Join(path.Dir(name), string(m[1]))
			if (name == "u/docs/install.md" || strings.HasSuffix(name, ".case.yaml")) && !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(f string) bool { return f == to || strings.HasPrefix(f, to+"/") }) {
				t.Errorf("%s names %s, which the archive does not have", name, m[1])
			}
		}
	}
	if found < 50 || files["u/deploy/overlays/production/kustomization.yaml"] == nil {
		t.Errorf("%d files are named, or the overlays are not there", found)
	}
}

// TestSignature: the command of docs/install.md and cosign's own code accept checksums that a local key signed, but no others.
func TestSignature(t *testing.T) {
	page, _ := os.ReadFile(filepath.Join(tree(t).root, "docs/install.md"))
	command := regexp.MustCompile(`openssl dgst .*`).FindString(string(page))
	t.Chdir(t.TempDir())
	t.Setenv("COSIGN_PASSWORD", "p")
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte("p")))
	err = errors.Join(err, os.WriteFile("cosign.key", private, 0o600), os.WriteFile("cosign.pub", public, 0o600),
		os.WriteFile("SHA256SUMS", []byte("1  a\n"), 0o600), sign("cosign.key", "SHA256SUMS"))
	verifier, wrong := signature.LoadVerifierFromPEMFile("cosign.pub", crypto.SHA256)
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}
	for text, valid := range map[string]bool{"1  a\n": true, "2  a\n": false} {
		wrote := os.WriteFile("SHA256SUMS", []byte(text), 0o600)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		signed, _ := os.ReadFile("SHA256SUMS.sig")
		cosign := verifier.VerifySignature(bytes.NewReader(signed), strings.NewReader(text))
		if command == "" || wrote != nil || (err == nil) != valid || (cosign == nil) != valid {
			t.Errorf("%q: %q of docs/install.md: %v, %s; cosign's code: %v", text, command, err, out, cosign)
		}
	}
}

// TestAction: the script of action.yaml runs a release's usherctl with all arguments, and none whose checksum is another.
func TestAction(t *testing.T) {
	text, _ := os.ReadFile(filepath.Join(tree(t).root, "action.yaml"))
	_, script, _ := strings.Cut(string(text), "run: |\n")
	dir := t.TempDir()
	t.Setenv("RUNNER_TEMP", dir)
	t.Setenv("GITHUB_WORKSPACE", dir)
	t.Setenv("VERSION", "v1")
	t.Setenv("ARGS", "review --config p.yaml\n  deploy/")
	prepare := `a=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/') s=$(uname -s | tr A-Z a-z); cd "$RUNNER_TEMP" && mkdir -p u && printf '#!/bin/sh\necho "$@"' > u/usherctl &&
		chmod +x u/usherctl && tar -czf usher_v1_${s}_$a.tar.gz u && sha256sum *.gz > SHA256SUMS; curl() { true; }; set -eo pipefail
	`
	out, err := exec.CommandContext(t.Context(), "bash", "-c", prepare+script).CombinedOutput()
	if !strings.HasSuffix(string(out), "review --config p.yaml deploy/\n") || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "bash", "-c", strings.Replace(prepare, "*.gz", "u/usherctl", 1)+script).CombinedOutput()
	if err == nil || strings.Contains(string(out), "deploy/\n") {
		t.Errorf("with another checksum: %s", out)
	}
}

// TestEnvironment: what builds is not changed by settings of Go.
func TestEnvironment(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(settings, []byte("GOAMD64=v3\nGOFIPS140=latest\nGOPROXY=off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOENV", settings)
	t.Setenv("GOPROXY", "")
	build := exec.CommandContext(t.Context(), "go", "env", "GOAMD64", "GOFIPS140", "GOPROXY")
	build.Env, _ = environment(t.Context())
	if out, err := build.Output(); err != nil || string(out) != "v1\noff\noff\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestNotes: the notes of a release are its section of the changelog, and a version without one cannot be released.
func TestNotes(t *testing.T) {
	for version, want := range map[string]bool{"v0.1.0": true, "v0.0.9": false} {
		out, err := exec.CommandContext(t.Context(), "./notes.sh", version).Output()
		if (err == nil) != want || strings.Contains(string(out), "## [") || want && len(out) < 200 {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}

// TestVersions: only what is a version can be released.
func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{"v0.1.0": true, "v1.2.3-rc.1": true, "0.1.0": false, "v0.1": false, "v0.1.0-dirty": false, "v0.1.0-3-g12ab34c": false, "dev": false} {
		if releasable.MatchString(version) != want {
			t.Errorf("%s: %v", version, !want)
		}
	}
}

// TestWrongFlags: a mistake ends it before what is there is removed, with the flag that is wrong.
func TestWrongFlags(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{"--key": "nosuch", "--version": "dev", "--image": "x", "--program": "x", "--platforms": "plan9/mips"} {
		args := []string{"release", "--out", out, "--version", "v1.2.3", "--image", "registry.example/usher", "--download", "https://download.example"}
		if err := run(t.Context(), append(args, flag, value)); err == nil || !strings.HasPrefix(err.Error(), flag+" ") {
			t.Errorf("%s %s: %v", flag, value, err)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "SHA256SUMS")); err != nil {
		t.Error(err)
	}
}

// wantRuns fails the test unless the binary runs without an environment.
func wantRuns(t *testing.T, binary string, s source) {
	t.Helper()
	type command struct {
		args []string
		want string
		code int
	}
	all := []command{{[]string{"version"}, s.version + " (commit " + s.commit + ")\n", 0}}
	if filepath.Base(binary) == "usher" {
		all = append(all, command{[]string{"webhooks"}, "mutate-pods.usher.dev", 0})
	} else {
		all = append(all, command{[]string{"review", "--suite=core", filepath.Join(s.root, "deploy/demo/offensive-pod.yaml")}, "denied-names", 1})
	}
	for _, c := range all {
		cmd := exec.CommandContext(t.Context(), binary, c.args...)
		cmd.Env, cmd.Dir = []string{}, t.TempDir()
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s %s: exit code %d, want %d and %q\n%s", filepath.Base(binary), strings.Join(c.args, " "), code, c.code, c.want, out)
		}
	}
}

// wantSums fails the test unless SHA256SUMS has the right checksum of every other file.
func wantSums(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() == "SHA256SUMS" || e.IsDir() {
			continue
		}
		content, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), e.Name()); !strings.Contains(string(text), line) {
			t.Errorf("SHA256SUMS lacks %s", line)
		}
	}
}

// unpack returns the files of an archive, which must all have the date of the commit, and belong to root.
func unpack(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(zipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		executable := strings.HasSuffix(h.Name, "/usher") || strings.HasSuffix(h.Name, "/usherctl")
		if want := tree(t).date; !h.ModTime.Equal(want) || h.Uid != 0 || h.Uname != "" || (h.Mode == 0o755) != executable {
			t.Errorf("%s: %+v", h.Name, h)
		}
	}
}

// wantBill fails the test unless the SBOM is one, has each module of the binary once, and names the binary by its
// checksum.
func wantBill(t *testing.T, binary, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&bom); err != nil || bom.SpecVersion < cdx.SpecVersion1_5 || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("%v: format %s %s", err, bom.BOMFormat, bom.SpecVersion)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	want = append(want, "pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		version := m.Version
		if m.Path == "usher.dev/usher" {
			version = "v1.2.3-test"
		}
		want = append(want, "pkg:golang/"+m.Path+"@"+version)
	}
	for _, c := range *bom.Components {
		got = append(got, c.PackageURL)
		if c.BOMRef != c.PackageURL || c.Name == "" || c.Version == "" {
			t.Errorf("component %+v", c)
		}
	}
	if !slices.Equal(got, want) || len(got) < 30 {
		t.Errorf("the SBOM has\n%q, the binary has\n%q", got, want)
	}
	content, _ := os.ReadFile(binary)
	product := bom.Metadata.Component
	if sum := fmt.Sprintf("%x", sha256.Sum256(content)); (*product.Hashes)[0].Value != sum || product.Version != "v1.2.3-test" {
		t.Errorf("the SBOM is of %+v, the binary has the checksum %s", product, sum)
	}
	if refs := *(*bom.Dependencies)[0].Dependencies; !slices.Equal(refs, want) || (*bom.Dependencies)[0].Ref != product.BOMRef {
		t.Errorf("the SBOM's dependencies are %v", refs)
	}
}

func TestParsePlatforms(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "[linux/amd64 linux/arm64]",
		"linux/arm64":             "[linux/arm64]",
		"linux/arm64,linux/amd64": "[linux/arm64 linux/amd64]",
		"darwin/arm64":            "--platforms darwin/arm64: must be some of [linux/amd64 linux/arm64]",
		"linux":                   "--platforms linux: must be some of [linux/amd64 linux/arm64]",
	} {
		got, err := parsePlatforms(text, imagePlatforms)
		if answer := fmt.Sprint(got); err != nil && err.Error() != want || err == nil && answer != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
