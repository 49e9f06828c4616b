package deploy

import (
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestDockerfile(t *testing.T) {
	stages := readDockerfile(t)
	image := final(stages)
	var entrypoint, command []string
	_ = json.Unmarshal([]byte(image.last("ENTRYPOINT")), &entrypoint)
	_ = json.Unmarshal([]byte(image.last("CMD")), &command)
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(text(t, "../go.mod"))[1]
	check(t, "Dockerfile", promises{
		{len(stages) == 2 && stages[0].name == "build", "must have two stages, the first named build"},
		{strings.HasSuffix(stages[0].from, " golang:"+language), "the builder must be golang:" + language + ", the version of go.mod"},
		{strings.HasSuffix(stages[0].written, "$GO_IMAGE"), "the builder must be the argument GO_IMAGE, so that it can be pinned to a digest"},
		{strings.Contains(text(t, "../Dockerfile"), "imagetools inspect golang:"+language+" "), "a comment must say how the digest of golang:" + language + " is found"},
		{image.from == "scratch", "the image must hold usher alone: FROM scratch"},
		{image.last("USER") == "65532:65532", "USER must be 65532:65532, as a number, or Kubernetes cannot tell that it is not root"},
		{slices.Equal(entrypoint, []string{built(t, stages).to}), "ENTRYPOINT must be the binary that is copied from the builder"},
		{slices.Equal(command, []string{"serve"}), `CMD must be ["serve"]`},
	})
}

// The builder's commands, run here in a copy of what the .dockerignore lets through, make a static binary that starts.
func TestDockerfileBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds the whole of usher as the Dockerfile does")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the Dockerfile's commands are for Linux")
	}
	stages := readDockerfile(t)
	binary := built(t, stages)
	source, out := t.TempDir(), t.TempDir()
	copyContext(t, source)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"CGO_ENABLED", "GOOS", "GOARCH", "GOFLAGS", "GOTOOLCHAIN", "GOWORK"}, name)
	})
	env = append(env, "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=") // as in the golang image
	const version = "v0.0.0-of-a-test"
	for _, step := range stages[0].steps {
		switch step.name {
		case "ARG", "ENV":
			if strings.Contains(step.rest, "=") {
				env = append(env, step.rest)
			}
		case "RUN":
			line := regexp.MustCompile(`--mount=\S+\s+`).ReplaceAllString(step.rest, "")
			line = strings.ReplaceAll(line, path.Dir(binary.from)+"/", out+"/")
			run := exec.CommandContext(t.Context(), "sh", "-c", line)
			run.Dir, run.Env = source, append(env, "VERSION="+version) // as --build-arg, stronger than ARG
			if output, err := run.CombinedOutput(); err != nil {
				t.Fatalf("Dockerfile: RUN %s: %v\n%s", step.rest, err, output)
			}
		}
	}
	usher := filepath.Join(out, path.Base(binary.from))
	checkStatic(t, usher)
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"version"}} {
		run := exec.CommandContext(t.Context(), usher, args...)
		run.Env = []string{} // the image has no environment either
		output, err := run.CombinedOutput()
		if err != nil {
			t.Errorf("usher %s: %v\n%s", strings.Join(args, " "), err, output)
		}
		if args[0] == "version" && strings.TrimSpace(string(output)) != version {
			t.Errorf("Dockerfile: usher version says %q, built with VERSION=%s: -X must name the variable", output, version)
		}
	}
	for _, c := range final(stages).copies() {
		if _, err := os.Stat(filepath.Join(out, path.Base(c.from))); err != nil {
			t.Errorf("Dockerfile: COPY %s: the builder does not make it: %v", c.from, err)
		}
	}
}

// checkStatic: an image from scratch has no loader and no libraries.
func checkStatic(t *testing.T, file string) {
	t.Helper()
	binary, err := elf.Open(file)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	defer func() { _ = binary.Close() }()
	if libraries, _ := binary.ImportedLibraries(); len(libraries) > 0 {
		t.Errorf("usher needs %v, which an image from scratch does not have: set CGO_ENABLED=0 in the Dockerfile", libraries)
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("usher needs a loader, which an image from scratch does not have: set CGO_ENABLED=0 in the Dockerfile")
		}
	}
	if binary.Section(".symtab") != nil {
		t.Error(`usher holds its symbol table: set -ldflags "-s -w" in the Dockerfile`)
	}
}

// copyContext copies the repository as a build would be sent it. Git's own ignored output stays out by the .dockerignore.
func copyContext(t *testing.T, to string) {
	t.Helper()
	ignored := dockerignore(t)
	const root = ".."
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case ignored(filepath.ToSlash(name)) && entry.IsDir():
			return fs.SkipDir
		case ignored(filepath.ToSlash(name)):
			return nil
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(target, raw, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dockerignore tells which files a build is not sent. It knows what the file uses: a path, and **/ before a pattern.
func dockerignore(t *testing.T) func(name string) bool {
	t.Helper()
	paths, patterns := map[string]bool{}, []string{}
	for line := range strings.Lines(text(t, "../.dockerignore")) {
		line = strings.TrimSpace(line)
		pattern, anywhere := strings.CutPrefix(line, "**/")
		switch {
		case line == "" || line[0] == '#':
		case anywhere:
			patterns = append(patterns, pattern)
		case strings.ContainsAny(line, "*?[!"):
			t.Fatalf(".dockerignore: %q: teach this test the pattern", line)
		default:
			paths[strings.Trim(line, "/")] = true
		}
	}
	for _, secret := range []string{".git", ".state"} {
		if !paths[secret] {
			t.Errorf(".dockerignore: must list %s", secret)
		}
	}
	if !slices.Contains(patterns, "*.key") {
		t.Error(".dockerignore: must list **/*.key")
	}
	return func(name string) bool {
		return paths[name] || slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, path.Base(name)); return ok })
	}
}

// stage is one FROM of a Dockerfile.
type stage struct {
	written    string // the image as the file has it
	from, name string // the image with the arguments' defaults, and AS what
	steps      []step
}

type step struct{ name, rest string }

// copied is a COPY --from=build.
type copied struct{ from, to string }

// last returns the rest of the last instruction of a name, which is the one in force.
func (s stage) last(name string) (rest string) {
	for _, step := range s.steps {
		if step.name == name {
			rest = step.rest
		}
	}
	return rest
}

func (s stage) copies() (list []copied) {
	for _, step := range s.steps {
		words := strings.Fields(step.rest)
		if step.name == "COPY" && slices.Contains(words, "--from=build") {
			list = append(list, copied{words[len(words)-2], words[len(words)-1]})
		}
	}
	return list
}

func final(stages []stage) stage { return stages[len(stages)-1] }

// built is the binary that the image takes from the builder.
func built(t *testing.T, stages []stage) copied {
	t.Helper()
	for _, c := range final(stages).copies() {
		if path.Base(c.from) == "usher" {
			return c
		}
	}
	t.Fatal("Dockerfile: the last stage does not COPY usher --from=build")
	return copied{}
}

func readDockerfile(t *testing.T) (stages []stage) {
	t.Helper()
	var defaults []string // of arguments before the first stage: $NAME, value, …
	joined := strings.ReplaceAll(text(t, "../Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(joined) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch {
		case name == "" || name[0] == '#':
		case name == "FROM":
			image, alias, _ := strings.Cut(rest, " AS ")
			stages = append(stages, stage{written: image, from: strings.NewReplacer(defaults...).Replace(image), name: alias})
		case name == "ARG" && len(stages) == 0:
			arg, value, _ := strings.Cut(rest, "=")
			defaults = append(defaults, "$"+arg, value)
		case len(stages) > 0:
			last := &stages[len(stages)-1]
			last.steps = append(last.steps, step{name, rest})
		}
	}
	if len(stages) == 0 {
		t.Fatal("Dockerfile: has no FROM")
	}
	return stages
}
