package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/poll"
)

// files is a directory of manifests.
type files struct {
	dir     string
	times   poll.Times
	first   poll.Sum          // of the initial contents
	ignored map[string]string // by file: the kinds that usher does not know, as logged last
	used    int               // the number of contents that have been used
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

// run reads the directory repeatedly until ctx ends.
func (f *files) run(ctx context.Context, c *Cluster) {
	poll.Changes(ctx, f.times, f.first, f.read, func(contents map[string][]byte, err error) { f.update(c, contents, err) })
}

// update uses new contents, and reports why if that is not possible.
func (f *files) update(c *Cluster, contents map[string][]byte, err error) {
	if err == nil {
		err = f.use(c, contents)
	}
	f.report(c, err)
}

// report records whether the newest contents are used, and logs changes of that.
func (f *files) report(c *Cluster, err error) {
	c.watching.Lock()
	before := c.filesErr
	c.filesErr = err
	c.watching.Unlock()
	switch {
	case err == nil:
		c.log.Info("new cluster state from files in force")
	case before == nil || before.Error() != err.Error():
		c.log.WithError(err).Error("the new cluster files are bad; the state in force stays")
	}
}

// read returns the contents of the files in the directory that manifest.Names names. If the directory is a mounted ConfigMap, all
// contents are of the same version.
func (f *files) read() (contents map[string][]byte, sum poll.Sum, err error) {
	if f.dir == "" {
		return nil, sum, nil
	}
	dir := f.dir
	if version, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		dir = version
	}
	names, err := manifest.Names(dir)
	if err != nil {
		return nil, sum, fmt.Errorf("cluster files: %w", err)
	}
	contents = map[string][]byte{}
	var texts [][]byte // names and contents
	var problems []error
	for _, name := range names {
		content, err := poll.ReadFile(filepath.Join(dir, name), manifest.MaxBytes)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		contents[name], texts = content, append(texts, []byte(name), content)
	}
	return contents, poll.SumOf(texts...), joinProblems(problems)
}

// joinProblems joins problems in one error, one per line.
func joinProblems(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("cluster files:\n%w", errors.Join(problems...))
}

// use makes a new state from contents and stores it. If there is any problem, nothing changes.
func (f *files) use(c *Cluster, contents map[string][]byte) error {
	state := newLoaded(&c.catalogue)
	state.give(c.options.Given)
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		manifests, problems := manifest.Read(name, contents[name])
		state.problems = append(state.problems, problems...)
		var unknown []string
		for _, m := range manifests {
			if !state.add(m) {
				unknown = append(unknown, m.Kind)
			}
		}
		f.logIgnored(c, name, unknown)
	}
	if len(state.problems) > 0 {
		return joinProblems(state.problems)
	}
	f.used++
	c.useAll(state, strconv.Itoa(f.used))
	return nil
}

// useAll makes one snapshot of everything that the files contain, and then notifies the followers. Files have no
// resource versions, so the number of the reading is used.
func (c *Cluster) useAll(read *loaded, version string) {
	var wanted []int
	for k := range c.rows {
		if c.wanted[k] {
			wanted = append(wanted, k)
			c.reportHealth(k, health{last: time.Now()})
		}
	}
	c.change(func(s *state) bool {
		for _, k := range wanted {
			s.replace(k, slices.Values(read.items[k]))
		}
		return true
	}, wanted...)
	for _, k := range wanted {
		for _, i := range read.items[k] {
			i.version = version
		}
		c.follow(k, func(f Follower) { f.Replace(c.allSeen(k, slices.Values(read.items[k])), version) })
	}
}

func (f *files) logIgnored(c *Cluster, file string, unknown []string) {
	slices.Sort(unknown)
	text := strings.Join(slices.Compact(unknown), ", ")
	if text != "" && text != f.ignored[file] {
		c.log.WithField("file", file).Info("kinds that usher does not need are ignored: " + text)
	}
	f.ignored[file] = text
}

// loaded is the result of reading the files.
type loaded struct {
	*catalogue
	items    [][]*item         // by collection
	seen     map[string]string // the places of objects, by collection and key
	given    map[string]bool   // those that win over the files, like seen
	problems []error
}

func newLoaded(c *catalogue) *loaded {
	return &loaded{catalogue: c, items: make([][]*item, len(c.rows)), seen: map[string]string{}}
}

// add adds an object, and reports whether any declared collection is of its kind. Several may be: collections of
// ConfigMaps each keep a different one.
func (l *loaded) add(m manifest.Object) (known bool) {
	group := m.GroupVersionKind().GroupKind()
	for k, r := range l.rows {
		if r.kind.GroupKind() != group {
			continue
		}
		known = true
		if problem := l.addTo(k, m); problem != nil {
			l.problems = append(l.problems, fmt.Errorf("%s: %s: %w", m.Place, m.Kind, problem))
			break
		}
	}
	return known
}

// give adds objects that win over those of files.
func (l *loaded) give(objects []manifest.Object) {
	for _, o := range objects {
		l.add(o)
	}
	l.given, l.seen, l.problems = map[string]bool{}, map[string]string{}, nil
	for k, items := range l.items {
		for _, i := range items {
			l.given[l.rows[k].name+" "+i.key] = true
		}
	}
}

func (l *loaded) addTo(k int, m manifest.Object) error {
	r := &l.rows[k]
	if version := schema.FromAPIVersionAndKind(m.APIVersion, m.Kind).Version; version != r.kind.Version {
		return fmt.Errorf("apiVersion is %s, but usher reads %s", m.APIVersion, r.kind.GroupVersion())
	}
	i, err := r.decode(m.JSON)
	if err != nil {
		return err
	}
	if i.err != nil {
		return fmt.Errorf("%s: %w", i.key, i.err)
	}
	if r.only.Name != "" && keyOf(r.only.Namespace, r.only.Name) != i.key {
		return nil
	}
	id := r.name + " " + i.key
	if l.given[id] {
		return nil
	}
	if before, twice := l.seen[id]; twice {
		return fmt.Errorf("%s is in %s too", i.key, before)
	}
	l.seen[id] = m.Place.String()
	l.items[k] = append(l.items[k], i)
	return nil
}

// Manifests returns a cluster that is read once from the contents of files of manifests, by file name. The error lists
// all problems, one per line.
func Manifests(contents map[string][]byte, o Options) (*Cluster, error) {
	from := &files{ignored: map[string]string{}}
	c, err := newCluster(o, from)
	if err != nil {
		return nil, err
	}
	if err := from.use(c, contents); err != nil {
		return nil, err
	}
	return c, nil
}
