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

// images are the programs with images of their own, and the arguments that these give them.
var images = map[string][]string{"usher": {"serve"}, "usherctl": nil}

func TestDockerfile(t *testing.T) {
	stages := readDockerfile(t)
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(text(t, "../go.mod"))[1]
	check(t, "Dockerfile", promises{
		{stages[len(stages)-1].name == "usher", "the last stage, which is built by default, must be usher"},
		{strings.HasSuffix(stages[0].from, " golang:"+language), "the builder must be golang:" + language + ", the version of go.mod"},
		{strings.HasSuffix(stages[0].written, "$GO_IMAGE"), "the builder must be the argument GO_IMAGE, so that it can be pinned to a digest"},
		{strings.Contains(text(t, "../Dockerfile"), "imagetools inspect golang:"+language+" "), "a comment must say how the digest of golang:" + language + " is found"},
	})
	for program, args := range images {
		image := stageOf(t, stages, program)
		var entrypoint, command []string
		_ = json.Unmarshal([]byte(image.last("ENTRYPOINT")), &entrypoint)
		_ = json.Unmarshal([]byte(image.last("CMD")), &command)
		check(t, "Dockerfile, "+program, promises{
			{image.from == "scratch", "the image must hold the program alone: FROM scratch"},
			{image.last("USER") == "65532:65532", "USER must be 65532:65532, as a number, or Kubernetes cannot tell that it is not root"},
			{slices.Equal(entrypoint, []string{image.binary(t).to}), "ENTRYPOINT must be the binary that is copied from its builder"},
			{slices.Equal(command, args), "CMD must be the arguments of the program"},
		})
	}
}

// The builders' commands, run here in a copy of what the .dockerignore lets through, make static binaries that start.
func TestDockerfileBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds both programs as the Dockerfile does")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the Dockerfile's commands are for Linux")
	}
	stages, source := readDockerfile(t), t.TempDir()
	copyContext(t, source)
	for program := range images {
		t.Run(program, func(t *testing.T) { wantBuilds(t, stages, stageOf(t, stages, program), source) })
	}
}

// wantBuilds runs the commands of an image's builder in a folder with the source.
func wantBuilds(t *testing.T, stages []stage, image stage, source string) {
	t.Helper()
	binary, out := image.binary(t), t.TempDir()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"CGO_ENABLED", "GOOS", "GOARCH", "GOFLAGS", "GOTOOLCHAIN", "GOWORK"}, name)
	})
	env = append(env, "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=") // as in the golang image
	const version = "v0.0.0-of-a-test"
	for _, step := range stageOf(t, stages, binary.stage).steps {
		switch step.name {
		case "ARG", "ENV":
			if strings.Contains(step.rest, "=") {
				env = append(env, step.rest)
			}
		case "RUN":
			line := regexp.MustCompile(`--mount=\S+\s+|\bGOCACHE=/cache\s`).ReplaceAllString(step.rest, "") // with this machine's caches
			line = strings.ReplaceAll(line, path.Dir(binary.from)+"/", out+"/")
			run := exec.CommandContext(t.Context(), "sh", "-c", line)
			run.Dir, run.Env = source, slices.Concat(env, []string{"VERSION=" + version}) // as --build-arg, stronger than ARG
			if output, err := run.CombinedOutput(); err != nil {
				t.Fatalf("Dockerfile: RUN %s: %v\n%s", step.rest, err, output)
			}
		}
	}
	program := filepath.Join(out, path.Base(binary.from))
	checkStatic(t, program)
	for _, args := range [][]string{{"--help"}, append(images[image.name], "--help"), {"version"}} {
		run := exec.CommandContext(t.Context(), program, args...)
		run.Env = []string{} // the image has no environment either
		output, err := run.CombinedOutput()
		if err != nil {
			t.Errorf("%s %s: %v\n%s", image.name, strings.Join(args, " "), err, output)
		}
		if args[0] == "version" && strings.TrimSpace(string(output)) != version {
			t.Errorf("Dockerfile: %s version says %q, built with VERSION=%s: -X must name the variable", image.name, output, version)
		}
	}
	for _, c := range image.copies() {
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
		t.Errorf("the program needs %v, which an image from scratch does not have: set CGO_ENABLED=0 in the Dockerfile", libraries)
	}
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a loader, which an image from scratch does not have: set CGO_ENABLED=0 in the Dockerfile")
		}
	}
	if binary.Section(".symtab") != nil {
		t.Error(`the program holds its symbol table: set -ldflags "-s -w" in the Dockerfile`)
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

// stage is one FROM of a Dockerfile, with the steps of the stage that it begins with.
type stage struct {
	written    string // the image as the file has it
	from, name string // the image with the arguments' defaults, and AS what
	steps      []step
}

type step struct{ name, rest string }

// copied is a COPY from another stage.
type copied struct{ stage, from, to string }

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
		if stage, found := strings.CutPrefix(words[0], "--from="); found && step.name == "COPY" {
			list = append(list, copied{stage, words[len(words)-2], words[len(words)-1]})
		}
	}
	return list
}

// stageOf returns the stage of a name.
func stageOf(t *testing.T, stages []stage, name string) stage {
	t.Helper()
	i := slices.IndexFunc(stages, func(s stage) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("Dockerfile: has no stage %s", name)
	}
	return stages[i]
}

// binary returns the binary that an image takes from its builder.
func (s stage) binary(t *testing.T) copied {
	t.Helper()
	for _, c := range s.copies() {
		if path.Base(c.from) == s.name {
			return c
		}
	}
	t.Fatalf("Dockerfile: the stage %s does not COPY %[1]s from a builder", s.name)
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
			next := stage{written: image, from: strings.NewReplacer(defaults...).Replace(image), name: alias}
			if i := slices.IndexFunc(stages, func(s stage) bool { return s.name == image }); i >= 0 {
				next.from, next.steps = stages[i].from, slices.Clone(stages[i].steps)
			}
			stages = append(stages, next)
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
