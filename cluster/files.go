package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/manifest"
	"usher.dev/usher/poll"
)

// files is a directory of manifests.
type files struct {
	dir     string
	times   poll.Times
	first   poll.Sum          // of the contents that were put in force at first
	ignored map[string]string // what was logged of each file: the kinds that usher does not know
	used    int               // how many readings were put in force
}

// open reads the directory for the first time.
func (f *files) open(c *Cluster) error {
	contents, sum, err := f.read()
	if err != nil {
		return err
	}
	f.first = sum
	return f.use(c, contents)
}

// run reads the directory again and again until ctx ends.
func (f *files) run(ctx context.Context, c *Cluster) {
	poll.Changes(ctx, f.times, f.first, f.read, func(contents map[string][]byte, err error) { f.take(c, contents, err) })
}

// take puts in force what was read, or shows why not.
func (f *files) take(c *Cluster, contents map[string][]byte, err error) {
	if err == nil {
		err = f.use(c, contents)
	}
	f.report(c, err)
}

// report shows why the new state is not in force, and logs it if that is news.
func (f *files) report(c *Cluster, err error) {
	c.watching.Lock()
	before := c.broken
	c.broken = err
	c.watching.Unlock()
	switch {
	case err == nil:
		c.log.Info("new cluster state from files in force")
	case before == nil || before.Error() != err.Error():
		c.log.WithError(err).Error("the new cluster files are bad; the state in force stays")
	}
}

// read gives the content of each file of the directory: those that end in .yaml, .yml or .json, not of its sub-directories, and
// no hidden ones. If the directory is a mounted ConfigMap, all are of one version.
func (f *files) read() (contents map[string][]byte, sum poll.Sum, err error) {
	if f.dir == "" {
		return nil, sum, nil
	}
	dir := f.dir
	if version, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		dir = version
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, sum, fmt.Errorf("cluster files: %w", err)
	}
	contents = map[string][]byte{}
	var texts [][]byte // names and contents
	var problems []error
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			continue
		}
		content, err := poll.ReadFile(filepath.Join(dir, name), manifest.MaxBytes)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		contents[name], texts = content, append(texts, []byte(name), content)
	}
	return contents, poll.SumOf(texts...), bad(problems)
}

// bad makes one error of problems, a line each.
func bad(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("cluster files:\n%w", errors.Join(problems...))
}

// use puts a new state in force, all of it or, if there is any problem, nothing.
func (f *files) use(c *Cluster, contents map[string][]byte) error {
	state := newLoaded(&c.catalogue)
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		manifests, problems := manifest.Read(name, contents[name])
		state.problems = append(state.problems, problems...)
		var unknown []string
		for _, m := range manifests {
			if !state.add(m) {
				unknown = append(unknown, m.Kind)
			}
		}
		f.tellIgnored(c, name, unknown)
	}
	if len(state.problems) > 0 {
		return bad(state.problems)
	}
	f.used++
	c.useAll(state, strconv.Itoa(f.used))
	return nil
}

// useAll makes one snapshot of all that the files hold, and then tells the followers. Files have no versions: the reading stands for one.
func (c *Cluster) useAll(read *loaded, version string) {
	var wanted []int
	for k := range c.rows {
		if c.wanted[k] {
			wanted = append(wanted, k)
			c.beat(k, pulse{last: time.Now()})
		}
	}
	c.change(func(s *state) bool {
		for _, k := range wanted {
			s.replace(k, read.items[k])
		}
		return true
	}, wanted...)
	for _, k := range wanted {
		for _, i := range read.items[k] {
			i.ResourceVersion = version
		}
		c.follow(k, func(f Follower) { f.Replace(c.allSeen(k, read.items[k]), version) })
	}
}

func (f *files) tellIgnored(c *Cluster, file string, unknown []string) {
	slices.Sort(unknown)
	text := strings.Join(slices.Compact(unknown), ", ")
	if text != "" && text != f.ignored[file] {
		c.log.WithField("file", file).Info("kinds that usher does not need are ignored: " + text)
	}
	f.ignored[file] = text
}

// loaded is what a reading of the files brought.
type loaded struct {
	*catalogue
	items    [][]*item         // by collection
	seen     map[string]string // collection and key to where they are
	problems []error
}

func newLoaded(c *catalogue) *loaded {
	return &loaded{catalogue: c, items: make([][]*item, len(c.rows)), seen: map[string]string{}}
}

// add takes up an object; false if no declared collection is of its kind. Several are of ConfigMaps: each wants another one.
func (l *loaded) add(m manifest.Object) (known bool) {
	group := m.GroupVersionKind().GroupKind()
	for k, r := range l.rows {
		if r.kind.GroupKind() != group {
			continue
		}
		known = true
		if problem := l.take(k, m); problem != nil {
			l.problems = append(l.problems, fmt.Errorf("%s: %s: %w", m.Place, m.Kind, problem))
			break
		}
	}
	return known
}

func (l *loaded) take(k int, m manifest.Object) error {
	r := &l.rows[k]
	if version := schema.FromAPIVersionAndKind(m.APIVersion, m.Kind).Version; version != r.kind.Version {
		return fmt.Errorf("apiVersion is %s, but usher reads %s", m.APIVersion, r.kind.GroupVersion())
	}
	i, err := r.decode(m.JSON)
	if err != nil {
		return err
	}
	if i.err != nil {
		return fmt.Errorf("%s: %w", i.key(), i.err)
	}
	if r.only.Name != "" && r.only != (types.NamespacedName{Namespace: i.Namespace, Name: i.Name}) {
		return nil
	}
	id := r.name + " " + i.key()
	if before, twice := l.seen[id]; twice {
		return fmt.Errorf("%s is in %s too", i.key(), before)
	}
	l.seen[id] = m.Place.String()
	l.items[k] = append(l.items[k], i)
	return nil
}
