package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/poll"
	"usher.dev/usher/test/clustertest"
)

// write makes files in a new directory, or in dir.
func write(t testing.TB, dir string, contents map[string]string) string {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	for name, content := range contents {
		// Renamed into place: a poll each millisecond may twice see the same part of a file that is being written.
		hidden := filepath.Join(dir, ".new")
		if err := os.WriteFile(hidden, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMissingInFiles: an object that is missing in files is missing; a retry would not help.
func TestMissingInFiles(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		c, err := Files(dir, keeping("namespaces", "pods", "rules"))
		if err != nil || c.Ready() != nil {
			t.Fatalf("%v %v", err, c.Ready())
		}
		s := c.Now()
		if _, known, err := s.Namespace("n"); known || err != nil {
			t.Errorf("Namespace: %v %v", known, err)
		}
		if _, _, known, err := s.Pod("n", "p"); known || err != nil {
			t.Errorf("Pod: %v %v", known, err)
		}
		if deleting, err := c.Reader([]string{"namespaces"}).NamespaceDeleting("n"); deleting || err != nil {
			t.Errorf("NamespaceDeleting: %v %v", deleting, err)
		}
		if rules, err := Rules.Get(s); rules != "" || err != nil {
			t.Errorf("Rules: %v %v", rules, err)
		}
		if _, err := s.Profiles(); err == nil {
			t.Error("a collection that is not kept was answered")
		}
	}
}

const aPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns, labels: {a: b}}\n"

// TestBadFiles: each problem is reported with its place, and no cluster is returned.
func TestBadFiles(t *testing.T) {
	cases := map[string]struct {
		content string
		want    []string
	}{
		"syntax":             {aPod + "---\n\nkind: x\n  y: z\n", []string{"f.yaml, document 2 (line 4): ", "line 7"}},
		"key twice":          {aPod + "kind: Pod\n", []string{"document 1 (line 1)", `key "kind" already set`}},
		"key twice in JSON":  {`{"apiVersion":"v1","kind":"Pod","kind":"Pod"}`, []string{"document 1 (line 1)", "kind"}},
		"no object":          {"- a\n- b\n", []string{"not a Kubernetes object: not a mapping"}},
		"no kind":            {"apiVersion: v1\nmetadata: {}\n", []string{"apiVersion or kind is missing"}},
		"no kind in a list":  {"apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n", []string{"item 1: not a Kubernetes object: apiVersion or kind is missing"}},
		"no name":            {"apiVersion: v1\nkind: Pod\nmetadata: {}\n", []string{"Pod: metadata.name is missing"}},
		"wrong type":         {"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: [a]}\n", []string{"(line 1): Pod: json: cannot unmarshal array"}},
		"wrong type in spec": {"apiVersion: config.koordinator.sh/v1alpha1\nkind: ClusterColocationProfile\nmetadata: {name: p}\nspec: {labels: 1}\n", []string{"ClusterColocationProfile: p: json: cannot unmarshal number"}},
		"version":            {"apiVersion: config.koordinator.sh/v1beta1\nkind: ClusterColocationProfile\nmetadata: {name: p}\n", []string{"apiVersion is config.koordinator.sh/v1beta1, but usher reads config.koordinator.sh/v1alpha1"}},
		"twice":              {aPod + "---\n" + aPod, []string{"f.yaml, document 2 (line 4): Pod: ns/p is in f.yaml, document 1 (line 1) too"}},
		"all at once":        {"a\n---\nb\n---\n" + aPod + "---\nkind: [", []string{"(line 1)", "(line 2)", "(line 8)"}},
		"endless lists":      {strings.Repeat("{apiVersion: v1, kind: List, items: [", 20) + strings.Repeat("]}", 20), []string{"more than 10 lists within each other"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Files(write(t, "", map[string]string{"f.yaml": c.content}), keeping(allKinds...))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
	t.Run("two files", func(t *testing.T) {
		_, err := Files(write(t, "", map[string]string{"a.yaml": "a", "b.json": "{}\n{\"a\":\n", "c.txt": "no manifest"}), Options{})
		for _, want := range []string{"a.yaml, document 1 (line 1)", "b.json, document 1 (line 1)", "b.json, document 2 (line 2)"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "c.txt") {
			t.Error(err)
		}
	})
	t.Run("no such directory", func(t *testing.T) {
		if _, err := Files(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

// TestPlaces: objects are in the namespaces that kubectl would use, and other content is skipped.
func TestPlaces(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	dir := write(t, "", map[string]string{
		"a.yaml":       "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\napiVersion: apps/v1\nkind: Deployment\n---\napiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Service\n",
		"b.yaml":       "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns, namespace: x, labels: {a: b}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {rules: r}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n",
		".hidden.yaml": "broken",
		"a.yaml~":      "broken",
	})
	if err := os.Mkdir(filepath.Join(dir, "sub.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Files(dir, Options{Catalogue: catalogueOfTests, Needs: allKinds, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, known, _ := c.Now().Pod("default", "p"); !known {
		t.Error("the pod is not in default")
	}
	if labels, known, _ := c.Now().Namespace("ns"); !known || labels["a"] != "b" {
		t.Error("the namespace is not there")
	}
	if rules, _ := Rules.Get(c.Now()); rules != "r" {
		t.Error(rules)
	}
	write(t, dir, map[string]string{"c.yaml": named("p")})
	again(c.source.(*files), c)
	e := slices.DeleteFunc(hook.AllEntries(), func(e *logrus.Entry) bool { return strings.HasPrefix(e.Message, "new cluster state") })
	if !has(c, "p") || len(e) != 1 || e[0].Data["file"] != "a.yaml" || !strings.HasSuffix(e[0].Message, ": Deployment, Service") {
		t.Errorf("%d log entries about other kinds", len(e))
	}
}

// again reads the directory again, and uses its content.
func again(f *files, c *Cluster) {
	contents, _, err := f.read()
	f.update(c, contents, err)
}

// following returns a cluster that follows a directory.
func following(t *testing.T, dir string, log logrus.FieldLogger) *Cluster {
	t.Helper()
	c, err := Files(dir, Options{Catalogue: catalogueOfTests, Needs: allKinds, Poll: poll.Times{Every: time.Millisecond}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	go c.Run(t.Context())
	return c
}

func has(c *Cluster, pod string) bool {
	_, _, known, _ := c.Now().Pod("ns", pod)
	return known
}

func named(name string) string { return strings.ReplaceAll(aPod, "name: p", "name: "+name) }

func TestFilesChange(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	dir := write(t, "", map[string]string{"a.yaml": named("one")})
	c := following(t, dir, log)
	write(t, dir, map[string]string{"b.yaml": named("two")})
	clustertest.Eventually(t, "a new file", func() bool { return has(c, "two") && has(c, "one") })

	write(t, dir, map[string]string{"b.yaml": named("three") + "---\nbroken"})
	clustertest.Eventually(t, "a problem", func() bool { return len(c.Problems()) == 1 })
	if has(c, "three") || !has(c, "two") || c.Ready() != nil {
		t.Error("a bad state is in force")
	}
	write(t, dir, map[string]string{"b.yaml": named("two")})
	clustertest.Eventually(t, "no problem", func() bool { return len(c.Problems()) == 0 })

	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "a problem", func() bool { return len(c.Problems()) == 1 })
	if !has(c, "two") {
		t.Error("the state is gone with the directory")
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "no problem", func() bool { return len(c.Problems()) == 0 })

	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "a removed file", func() bool { return !has(c, "one") && has(c, "two") })
	told := map[string]int{} // by text: a directory that goes away while it is read gives a second one
	for _, e := range hook.AllEntries() {
		if e.Level == logrus.ErrorLevel {
			told[fmt.Sprint(e.Data[logrus.ErrorKey])]++
		}
	}
	for text, times := range told {
		if times > 1 {
			t.Errorf("logged %d times: %s", times, text)
		}
	}
	if len(told) < 2 {
		t.Errorf("%d errors in the log, want one for each bad state", len(told))
	}
}

// TestConfigMapVolume: a kubelet swaps the symlink ..data; the names of the files and their symlinks stay.
func TestConfigMapVolume(t *testing.T) {
	dir := t.TempDir()
	version := func(name string, contents map[string]string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), contents)
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", map[string]string{"a.yaml": named("one")})
	if err := os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	c := following(t, dir, nil)
	if !has(c, "one") {
		t.Fatal("the first version is not there")
	}
	if err := os.Symlink("..data/gone.yaml", filepath.Join(dir, "gone.yaml")); err != nil { // the kubelet tidies up later
		t.Fatal(err)
	}
	version("..2", map[string]string{"a.yaml": named("two")})
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "the second version", func() bool { return has(c, "two") && !has(c, "one") })
}

// TestHalfWritten: a growing file is not treated as complete, although each part of it is valid. It runs on synctest's
// clock.
func TestHalfWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := write(t, "", map[string]string{"a.yaml": named("one")})
		c, err := Files(dir, Options{Catalogue: catalogueOfTests, Needs: allKinds, Poll: poll.Times{Every: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go c.Run(ctx)
		step := func(content string) {
			write(t, dir, map[string]string{"a.yaml": content})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for range 3 { // it changes each time it is read
			step("")
			step(named("two"))
		}
		if !has(c, "one") || has(c, "two") {
			t.Error("half a file is in force")
		}
		whole := named("two") + "---\n" + named("three")
		step(whole)
		step(whole)
		inForce := c.latest()
		step(whole)
		if c.latest() != inForce {
			t.Error("the state in force was read again")
		}
		if !has(c, "two") || !has(c, "three") {
			t.Error("the whole file is not in force")
		}
		stop()
	})
}

// FuzzFiles: no content causes a panic, and what is found can be used or is refused.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{aPod, aPod + "---\n" + aPod, "--- {a: b}", "...\n", "kind: List\napiVersion: v1\nitems: [{}]", "{\"a\":1}{", "\uFEFF%YAML 1.1\n---\na: &a [*a]",
		"apiVersion: scheduling.koordinator.sh/v1alpha1\nkind: Reservation\nmetadata: {name: r}\nspec: {template: 1, owners: [{}]}\nstatus: {allocatable: {cpu: 1e-99999999}}", "a: \"\\", "? a\n: b"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, content string, json bool) {
		file := "f.yaml"
		if json {
			file = "f.json"
		}
		found, problems := manifest.Read(file, []byte(content))
		c := made(keeping(allKinds...), nil)
		state := newLoaded(&c.catalogue)
		for _, m := range found {
			if m.Kind == "" || m.APIVersion == "" || m.Place.File == "" {
				t.Errorf("not an object: %+v", m)
			}
			state.add(m)
		}
		for _, err := range append(problems, state.problems...) {
			if !strings.HasPrefix(err.Error(), file+", document ") {
				t.Errorf("no place: %v", err)
			}
		}
		c.useAll(state, "1")
	})
}

// TestGiven: objects that are given win over those of files; what cannot be used is left out, and a Namespace that is in
// neither is reported.
func TestGiven(t *testing.T) {
	namespace := func(name, team string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {team: %s}}\n---\n", name, team)
	}
	given, problems := manifest.Read("given", []byte(namespace("a", "given")+"apiVersion: v1\nkind: Namespace\nmetadata: {name: bad, labels: 1}\n---\n"+
		"apiVersion: v9\nkind: Namespace\nmetadata: {name: old}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	o := keeping("namespaces")
	var missing []string
	o.Given, o.Missing = given, func(collection, key string) { missing = append(missing, collection+" "+key) }
	c, err := Files(write(t, "", map[string]string{"n.yaml": namespace("a", "file") + namespace("b", "file")}), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "given", "b": "file", "bad": "", "old": ""} {
		labels, known, err := c.Reader([]string{"namespaces"}).Namespace(name)
		if err != nil || known != (want != "") || labels["team"] != want {
			t.Errorf("%s: %v %v %v, want %q", name, labels, known, err, want)
		}
	}
	if deleting, err := c.Reader([]string{"namespaces"}).NamespaceDeleting("nowhere"); deleting || err != nil {
		t.Errorf("a namespace that files lack is not being deleted: %v %v", deleting, err)
	}
	if slices.Sort(missing); !slices.Equal(missing, []string{"namespaces bad", "namespaces old"}) {
		t.Errorf("missing: %q", missing)
	}
}
