// Package cluster is what the cluster looks like, as memory that steps ask: read from files, or watched from an API server. It is an engine
// that knows no kind of object but namespaces: what else is kept, and as what, each suite declares as collections.
//
// Steps never import it. Each declares the question it asks, as a func type, and the collections that it needs, by name; the suite passes
// the answer in, a method of a Reader that is limited to them.
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
	"usher.dev/usher/poll"
)

// Options say what is kept of a cluster.
type Options struct {
	// Catalogue are all collections that are declared. Manifests may hold the objects of all of them.
	Catalogue []Declared
	// Needs names the collections that are kept: those that steps need. A question about another one is an error.
	Needs []string
	// Follow are told every event of a collection that is kept, by its name. What files hold at first, they are told before Files returns.
	Follow map[string]Follower
	// Log gets what changes and what is wrong; nil for nothing.
	Log logrus.FieldLogger
	// Poll says when the files are compared with what is in force; Every zero means 2 s.
	Poll poll.Times
	// Backoff is how long a failed list or watch waits for its repetition; zero means 0.8 to 30 s.
	Backoff wait.Backoff
}

// Cluster is the cluster as it is known now. It may be asked from many goroutines.
type Cluster struct {
	catalogue
	options Options
	log     logrus.FieldLogger
	now     atomic.Pointer[state]
	source  source

	writing sync.Mutex // one change at a time; readers never wait
	told    string     // the problems that were logged last

	watching sync.Mutex // guards pulses and broken
	pulses   []pulse
	broken   error // why the newest state of the files is not in force
}

// source brings changes until ctx ends.
type source interface {
	run(ctx context.Context, c *Cluster)
}

// pulse is what is known about the stream of changes of a collection.
type pulse struct {
	last    time.Time
	missing bool
	err     error
}

// Files reads a cluster from a directory of manifests, *.yaml, *.yml and *.json. An empty name is an empty cluster. The cluster is
// ready at once; the error lists every problem, a line each.
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

// API keeps a cluster as an API server tells it, once Run is called. LoadConfig gives a config.
func API(config *rest.Config, o Options) (*Cluster, error) {
	client, err := newClient(config)
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
	c := &Cluster{catalogue: declared, options: o, log: o.Log, source: from, pulses: make([]pulse, len(declared.rows))}
	if c.log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		c.log = quiet
	}
	c.now.Store(&state{catalogue: declared, collected: make([]collected, len(declared.rows)), changed: make(chan struct{})})
	return c, nil
}

// Run keeps the cluster current until ctx ends.
func (c *Cluster) Run(ctx context.Context) { c.source.run(ctx, c) }

// Now returns the state as it is known now, which may be asked about all that is kept. A step has a Reader instead.
func (c *Cluster) Now() Snapshot { return Snapshot{state: c.latest(), all: true} }

func (c *Cluster) latest() *state { return c.now.Load() }

// Ready tells why the cluster cannot be asked yet: every collection that is kept must have been listed once. It stays ready from then on:
// while the API server is away, the last known state counts. The error wraps admit.ErrNotReady.
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

// Status is how a collection that is kept is doing.
type Status struct {
	Name    string // of the collection
	Objects int
	Synced  bool
	// LastEvent is when an API server last told anything about the collection, be it that nothing happened, or when the files in force
	// were read. Zero: never.
	LastEvent time.Time
	// Missing tells that the API server does not know the kind: its CRD is not installed.
	Missing bool
	// Err is why the last list or watch failed; nil if it did not.
	Err error
}

// Status tells how the collections that are kept are doing, in the order of the catalogue.
func (c *Cluster) Status() []Status {
	s := c.latest()
	c.watching.Lock()
	defer c.watching.Unlock()
	var all []Status
	for k, r := range c.rows {
		if c.wanted[k] {
			p := c.pulses[k]
			all = append(all, Status{Name: r.name, Objects: s.collected[k].objects.size, Synced: s.collected[k].synced,
				LastEvent: p.last, Missing: p.missing, Err: p.err})
		}
	}
	return all
}

// Problems are what is wrong with the state now, for people to mend: objects that do not decode, rules that do not parse, files
// that are not in force. Each names its object or file.
func (c *Cluster) Problems() []error {
	c.watching.Lock()
	broken := c.broken
	c.watching.Unlock()
	problems := c.latest().problems()
	if broken != nil {
		problems = append(problems, broken)
	}
	return problems
}

// change makes the next state and puts it in force, unless edit tells that it changed nothing. The collections are those that edit may
// change; only those whose objects did change are compiled.
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
	c.tell(next.problems())
}

// tell logs problems that were not logged before. The caller holds writing.
func (c *Cluster) tell(problems []error) {
	text := ""
	if err := errors.Join(problems...); err != nil {
		text = err.Error()
	}
	if text != c.told && text != "" {
		c.log.WithField("problems", len(problems)).Error("cluster state: " + text)
	}
	c.told = text
}

// beat notes a sign of life of a collection.
func (c *Cluster) beat(k int, p pulse) {
	c.watching.Lock()
	defer c.watching.Unlock()
	if p.last.IsZero() {
		p.last = c.pulses[k].last
	}
	c.pulses[k] = p
}
