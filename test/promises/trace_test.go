package promises

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/test/harness"
)

// way is how `usher serve` gets from main to the ServeMux: what each declaration names, and where to read on.
var way = []struct{ file, declares, names string }{
	{"main.go", "main", "Suites"},
	{"main.go", "main", "Program"},
	{"main.go", "main", "server"},
	{"command/command.go", "Run", "Root"},
	{"command/command.go", "Root", "serveCommand"},
	{"command/serve.go", "serveCommand", "serve"},
	{"command/serve.go", "serve", "Serve"}, // which is server.Run in main.go
	{"server/server.go", "Run", "open"},
	{"server/server.go", "open", "openCluster"},
	{"server/server.go", "openCluster", "Load"},
	{"server/server.go", "open", "use"},
	{"server/server.go", "use", "Routes"},
	{"server/suite/instance.go", "Routes", "Table"},
	{"server/suite/instance.go", "Table", "Env"},
	{"server/suite/suite.go", "Suite", "Routes"},
	{"routes/routes.go", "Core", "core"},
	{"routes/routes.go", "core", "Mutate"},
	{"server/suite/suite.go", "Mutate", "Chain"},
	{"server/server.go", "use", "Serve"},
	{"handlers/serve.go", "Serve", "NewServeMux"},
}

// The most files, and lines of whole files, from main.go to the ServeMux; of these and of what a review executes; and lines of one file.
const mostWay, mostWayLines, mostTraced, mostTracedLines, mostLines = 8, 800, 38, 4800, 250

// TestWayToTheMux: from main.go to the ServeMux one reads few files, each of which names what comes next.
func TestWayToTheMux(t *testing.T) {
	for _, station := range way {
		if !names(t, station.file, station.declares, station.names) {
			t.Errorf("%s: %s does not name %s: the way to the ServeMux is another; correct the list in this test", station.file, station.declares, station.names)
		}
	}
	checkFiles(t, "from main.go to the ServeMux", filesOfWay(), mostWay, mostWayLines)
}

// TestGoldenTrace: a review of /mutate-pods executes few files; docs/architecture.md lists them. Those of server/ and internal/, and the
// JSON below documents, do not count: they are the same for any service, or can be read apart.
func TestGoldenTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program with counters")
	}
	executed := executedBy(t, "mutate-pods/lifespan-three")
	if !slices.Contains(executed, "mutators/lifespan.go") || !slices.Contains(executed, "admit/run.go") {
		t.Fatalf("nothing was traced: %v", executed)
	}
	executed = slices.DeleteFunc(executed, func(file string) bool { return slices.Contains(filesOfWay(), file) })
	checkFiles(t, "from main.go to a patch", append(filesOfWay(), executed...), mostTraced, mostTracedLines)
	list := fmt.Sprintf("From `main.go` to the ServeMux: %s.\n\nWhat a review of `/mutate-pods` executes beside these, `server/`, `internal/` and the JSON of documents: %s.\n",
		spans(filesOfWay()), spans(executed))
	const page, begin, end = "docs/architecture.md", "<!-- trace: begin -->\n", "<!-- trace: end -->"
	text := harness.ReadFile(t, page)
	before, rest, begins := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no part between %q and %q", page, begin, end)
	}
	harness.CompareGolden(t, page, before+begin+list+end+after)
}

// filesOfWay returns the files of the way in its order.
func filesOfWay() (files []string) {
	for _, station := range way {
		if !slices.Contains(files, station.file) {
			files = append(files, station.file)
		}
	}
	return files
}

func spans(files []string) string { return "`" + strings.Join(files, "`, `") + "`" }

// checkFiles fails the test if there are too many files or lines.
func checkFiles(t *testing.T, what string, files []string, most, mostAll int) {
	t.Helper()
	all := 0
	for _, file := range files {
		lines := strings.Count(harness.ReadFile(t, file), "\n")
		if all += lines; lines > mostLines {
			t.Errorf("%s has %d lines, more than %d: move what is not on the way %s to a file of its own", file, lines, mostLines, what)
		}
		t.Logf("%5d %s", lines, file)
	}
	if t.Logf("%5d lines, %d files", all, len(files)); len(files) > most || all > mostAll {
		t.Errorf("%s: %d files and %d lines, at most %d and %d", what, len(files), all, most, mostAll)
	}
}

// names reports whether a function or type of a file contains an identifier.
func names(t *testing.T, file, declared, identifier string) (found bool) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if function, is := d.(*ast.FuncDecl); is && function.Name.Name != declared {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			id, named := n.(*ast.Ident)
			found = found || named && id.Name == identifier
			return !is || spec.Name.Name == declared
		})
	}
	return found
}

// counters is a file of a traced main package: it obeys the lines of standard input, and answers each on file 3.
const counters = `package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/coverage"
)

func init() {
	go func() {
		answers := os.NewFile(3, "answers")
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var err error
			if dir := lines.Text(); dir == "clear" {
				err = coverage.ClearCounters()
			} else {
				err = errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
			}
			fmt.Fprintln(answers, err)
		}
	}()
}
`

// executedBy returns the files that count with a function that each review of a sample executes, of usher as main.go starts it.
func executedBy(t *testing.T, sample string) (files []string) {
	t.Helper()
	p := startTraced(t, buildTraced(t))
	review := harness.ReadSample(t, sample)
	times := map[string]int{}
	const reviews = 3 // something else may happen at the same moment, but not three times
	for range reviews {
		for _, file := range p.trace(t, "/"+harness.Route(sample), review) {
			times[file]++
		}
	}
	for file, n := range times {
		if n == reviews {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// buildTraced builds usher with counters: its main package, with another file, in a module of its own.
func buildTraced(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(harness.ReadFile(t, "go.mod"), "\n")
	for name, text := range map[string]string{
		"go.mod": "module usher.dev/usher/traced\n" + requirements + "\nrequire usher.dev/usher v0.0.0\n\nreplace usher.dev/usher => " + root + "\n",
		"go.sum": harness.ReadFile(t, "go.sum"), "main.go": harness.ReadFile(t, "main.go"), "counters.go": counters,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg=usher.dev/usher/...", "-o", "usher", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "usher")
}

// traced is a running usher with counters.
type traced struct {
	address  string
	commands io.Writer
	answers  *bufio.Scanner
}

// startTraced starts a program with the core suite under its default policy, until the end of the test.
func startTraced(t *testing.T, program string) traced {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), program, "serve", "--suite", core(), "--plain", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--log-format", "json", "--shutdown-delay", "0s")
	run.Env, run.ExtraFiles = append(os.Environ(), "GOCOVERDIR="+t.TempDir()), []*os.File{out}
	commands, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_, _ = run.Process.Wait()
		_, _ = in.Close(), out.Close()
	})
	p := traced{commands: commands, answers: bufio.NewScanner(in)}
	for lines := bufio.NewScanner(log); p.address == "" && lines.Scan(); {
		var line struct{ Reviews string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		p.address = line.Reviews
	}
	if p.address == "" {
		t.Fatal("nothing is served")
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return p
}

// tell has the program do something with its counters.
func (p traced) tell(t *testing.T, command string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.commands, command); err != nil || !p.answers.Scan() || p.answers.Text() != "<nil>" {
		t.Fatal(err, p.answers.Err(), p.answers.Text())
	}
}

// trace posts a review, and returns the files that count with a function that was executed meanwhile.
func (p traced) trace(t *testing.T, path string, review []byte) (files []string) {
	t.Helper()
	p.tell(t, "clear")
	answer := p.send(t, http.MethodPost, path, review)
	if !bytes.Contains(answer, []byte(`"patchType":"JSONPatch"`)) {
		t.Fatalf("%s", answer)
	}
	p.send(t, http.MethodGet, "/health", nil) // over the same connection: the review is done with
	dir := t.TempDir()
	p.tell(t, dir)
	text, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i="+dir, "-o=/dev/stdout").Output()
	if err != nil {
		t.Fatal(err)
	}
	apart := regexp.MustCompile(`^(server|internal|traced)/|^admit/document/internal/json/`)
	for line := range strings.Lines(string(text)) {
		file, _, _ := strings.Cut(strings.TrimPrefix(line, "usher.dev/usher/"), ":")
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(line, " 0\n") && !apart.MatchString(file) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// send sends a request, and returns the answer.
func (p traced) send(t *testing.T, method, path string, body []byte) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.address+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
