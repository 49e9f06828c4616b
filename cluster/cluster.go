// Package cluster keeps the state of the cluster in memory for steps: read from files, or watched from an API server.
// It knows no kind of object except namespaces and LimitRanges; which others are kept, and in what form, is declared by
// each suite as collections.
//
// Steps do not import this package. Each step declares a func type for what it reads, and the names of the collections
// that it needs; the suite passes in a method of a Reader that is limited to these. Other modules may declare
// collections too, with Collection, Compiled and Keep, and read them through a Reader: this part of the API holds
// from 0.1.0 on, the rest may change at any time.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/poll"
)

// Options say what is kept of a cluster.
type Options struct {
	// Catalogue lists all declared collections. Manifests may contain objects of all of them.
	Catalogue []Declared
	// Needs are the names of the collections that are kept: those that steps need. Reading any other collection is an
	// error.
	Needs []string
	// Given are objects that count beside those of files, and in place of those with the same name. Objects that no
	// collection is for, or that cannot be decoded, are left out.
	Given []manifest.Object
	// Missing is called with the name of a collection and a key if files lack an object whose existence a review
	// implies. Nil: it is not reported.
	Missing func(collection, key string)
	// Follow returns followers by the names of collections, which receive every event; nil: there are none. It is called once,
	// with the cluster before it has any content. The initial content of files is passed to followers before Files returns.
	Follow func(*Cluster) map[string]Follower
	// Log receives changes and problems; nil for none.
	Log logrus.FieldLogger
	// Poll says when to check the files for changes; an Every of zero means 2 s.
	Poll poll.Times
	// Backoff is the delay before a failed list or watch is repeated; zero means 0.8 to 30 s.
	Backoff wait.Backoff
}

// Cluster is the current state of a cluster. It is safe for concurrent use.
type Cluster struct {
	catalogue
	options Options
	log     logrus.FieldLogger
	follows map[string]Follower // by the names of collections
	now     atomic.Pointer[state]
	source  source

	writing    sync.Mutex // serializes changes; readers never wait
	lastLogged string     // the problems that were logged last

	watching sync.Mutex // guards healths and filesErr
	healths  []health   // by collection
	filesErr error      // why the newest content of the files is not used
}

// source delivers changes until ctx ends.
type source interface {
	run(ctx context.Context, c *Cluster)
}

// health is the state of a collection's stream of changes.
type health struct {
	last    time.Time
	missing bool
	err     error
}

// Files returns a cluster that is read from a directory of manifests, *.yaml, *.yml and *.json. An empty name stands
// for an empty cluster. The cluster is ready immediately; the error lists all problems, one per line.
func Files(dir string, o Options) (*Cluster, error) {
	from := &files{dir: dir, times: o.Poll, ignored: map[string]string{}}
	if from.times.Every == 0 {
		from.times.Every = 2 * time.Second
	}
	c, err := newCluster(o, from)
	if err != nil {
		return nil, err
	}
	if err := from.open(c); err != nil {
		return nil, err
	}
	return c, nil
}

// API returns a cluster that is watched from an API server as soon as Run is called. See apiserver.LoadConfig for the config.
func API(config *rest.Config, o Options) (*Cluster, error) {
	client, err := apiserver.NewREST(config)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	from := &server{client: client, backoff: o.Backoff}
	if from.backoff.Steps == 0 {
		from.backoff = defaultBackoff
	}
	c, err := newCluster(o, from)
	if err != nil {
		return nil, err
	}
	first := *c.latest()
	first.api = true
	c.now.Store(&first)
	return c, nil
}

func newCluster(o Options, from source) (*Cluster, error) {
	declared, err := newCatalogue(o.Catalogue, o.Needs)
	if err != nil {
		return nil, err
	}
	c := &Cluster{catalogue: declared, options: o, log: o.Log, source: from, healths: make([]health, len(declared.rows))}
	if c.log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		c.log = quiet
	}
	c.now.Store(&state{catalogue: declared, missing: o.Missing, collected: make([]collected, len(declared.rows)), changed: make(chan struct{})})
	if o.Follow != nil {
		c.follows = o.Follow(c)
	}
	return c, nil
}

// Run keeps the cluster current until ctx ends.
func (c *Cluster) Run(ctx context.Context) { c.source.run(ctx, c) }

// Now returns the current state, without the limits of a Reader, which steps use.
func (c *Cluster) Now() Snapshot { return Snapshot{state: c.latest(), all: true} }

func (c *Cluster) latest() *state { return c.now.Load() }

// Ready returns an error that wraps admit.ErrNotReady until every collection that is kept has been listed once. After
// that the cluster stays ready: while the API server is unavailable, the last known state is used.
func (c *Cluster) Ready() error {
	var waiting []string
	s := c.latest()
	for k, r := range c.rows {
		if c.wanted[k] && !s.collected[k].synced {
			waiting = append(waiting, r.name)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return fmt.Errorf("cluster state: waiting for %s: %w", strings.Join(waiting, ", "), admit.ErrNotReady)
}

// Status is the state of a collection that is kept.
type Status struct {
	Name    string // of the collection
	Objects int
	Synced  bool
	// LastEvent is when the API server last sent anything about the collection, including bookmarks, or when the
	// current files were read. It is zero before the first event.
	LastEvent time.Time
	// Watched is set if an API server is watched, and not files.
	Watched bool
	// Missing is set if the API server does not have the kind, because its CRD is not installed.
	Missing bool
	// Err is why the last list or watch failed, or nil.
	Err error
}

// Status returns the states of the collections that are kept, in the order of the catalogue.
func (c *Cluster) Status() []Status {
	s := c.latest()
	c.watching.Lock()
	defer c.watching.Unlock()
	var all []Status
	for k, r := range c.rows {
		if c.wanted[k] {
			p := c.healths[k]
			all = append(all, Status{Name: r.name, Objects: s.collected[k].objects.Len(), Synced: s.collected[k].synced,
				LastEvent: p.last, Watched: s.api, Missing: p.missing, Err: p.err})
		}
	}
	return all
}

// Problems returns the current problems: objects that do not decode, rules that do not parse, files that are not used.
// Each error names its object or file.
func (c *Cluster) Problems() []error {
	c.watching.Lock()
	broken := c.filesErr
	c.watching.Unlock()
	problems := c.latest().problems()
	if broken != nil {
		problems = append(problems, broken)
	}
	return problems
}

// change makes the next state by edit and stores it, unless edit returns false because nothing has changed. collections
// are those that edit may change; they are compiled again only if their objects have changed.
func (c *Cluster) change(edit func(*state) (changed bool), collections ...int) {
	c.writing.Lock()
	defer c.writing.Unlock()
	before := c.latest()
	next := *before
	next.collected, next.changed = slices.Clone(before.collected), make(chan struct{})
	if !edit(&next) {
		return
	}
	for _, k := range collections {
		was, is := &before.collected[k], &next.collected[k]
		if c.wanted[k] && (is.objects != was.objects || is.synced != was.synced) {
			next.compile(k)
		}
	}
	c.now.Store(&next)
	close(before.changed)
	c.logProblems(next.problems())
}

// logProblems logs problems if they differ from those logged last. The caller holds writing.
func (c *Cluster) logProblems(problems []error) {
	text := ""
	if err := errors.Join(problems...); err != nil {
		text = err.Error()
	}
	if text != c.lastLogged && text != "" {
		c.log.WithField("problems", len(problems)).Error("cluster state: " + text)
	}
	c.lastLogged = text
}

// reportHealth sets the health of a collection. A zero last keeps the time of the last event.
func (c *Cluster) reportHealth(k int, h health) {
	c.watching.Lock()
	defer c.watching.Unlock()
	if h.last.IsZero() {
		h.last = c.healths[k].last
	}
	c.healths[k] = h
}
