package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/certs"
	"usher.dev/usher/usherctl/requests"
)

const others = "../../test/others" // webhooks written with the libraries of others

// TestOthers: what the handlers of controller-runtime and kubewebhook fail is known, and is on the page.
func TestOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the libraries")
	}
	dir := t.TempDir()
	ca, err := certs.EnsureLocal(dir, []string{"127.0.0.1"}, time.Now(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "webhook"), ".")
	build.Dir = others
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	address := served(t, dir)
	samples := requests.ReadFiles(nowhere, []string{"testdata/others.yaml"}, false)
	paths := []string{"/mutate", "/validate", "/annotate"}
	found := make([]string, len(paths))
	var group sync.WaitGroup
	for i, path := range paths {
		h, end, err := At(t.Context(), address+path, path != "/validate", ca, samples)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		h.Versions = []string{"v1", "v1beta1"} // which it says that it can answer
		group.Go(func() {
			Run(t.Context(), h, Tests(), Bound{400, 5 * time.Minute, 40 * time.Second}, func(res Result) {
				if len(res.Failures) > 0 {
					found[i] += fmt.Sprintf("%s fails %s\n", path, res.Test.Name)
					t.Log(res.Failures[0].Text)
				}
				if res.NotJudged != "" {
					found[i] += fmt.Sprintf("%s %s is not judged: %s\n", path, res.Test.Name, res.NotJudged)
				}
			})
		})
	}
	group.Wait()
	want, err := os.ReadFile("testdata/others.golden")
	if is := strings.Join(found, ""); err != nil || is != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, is, want)
	}
	page, err := os.ReadFile("../../docs/probe.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "\n## What libraries do")
	for _, m := range regexp.MustCompile(`fails (\S+)`).FindAllStringSubmatch(string(want), -1) {
		if !strings.Contains(part, "`"+m[1]+"`") {
			t.Errorf("docs/probe.md does not say that one of them fails %s", m[1])
		}
	}
	for name, module := range map[string]string{"controller-runtime": "sigs.k8s.io/controller-runtime", "kubewebhook": "github.com/slok/kubewebhook/v2"} {
		if v := required(t, others)[module]; v == "" || !strings.Contains(part, name+" "+v+" ") {
			t.Errorf("docs/probe.md does not name %s %s", name, v)
		}
	}
}

// TestVersionsOfOthers: the modules that both have are of the same versions, so that they are compiled once.
func TestVersionsOfOthers(t *testing.T) {
	ours := required(t, "..")
	for module, v := range required(t, others) {
		if is := ours[module]; is != "" && is != v {
			t.Errorf("%s has %s %s, and usherctl has %s", others, module, v, is)
		}
	}
}

// required returns the versions in the go.mod of a folder.
func required(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/\S+) (v\S+)`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = m[2]
	}
	return all
}
