// Package cluster is what the cluster looks like, as memory that steps ask: read from files, or watched from an API server.
//
// Steps never import it. Each declares the question it asks, as a func type, and routes.go passes the answer in:
//
//	func(name string) (map[string]string, bool, error) { return state.Now().Namespace(name) }
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/poll"
	"usher.dev/usher/quota/ledger"
)

// Options say what is kept of a cluster.
type Options struct {
	// Kinds are the wanted ones: they follow from the enabled gates. A question about another kind is an error.
	Kinds []Kind
	// EnhancedRules names the ConfigMap of kind EnhancedRules; empty means DefaultEnhancedRules.
	EnhancedRules types.NamespacedName
	// SLOConfig names the ConfigMap of kind SLOConfig; empty means DefaultSLOConfig.
	SLOConfig types.NamespacedName
	// Compile makes, after each change of a kind, what steps need of it, for example a *profile.Set. See Compiled.
	Compile map[Kind]Compiler
	// Follow are told every event of a kind that is wanted. What files hold at first, they are told before Files returns.
	Follow map[Kind]ledger.Follower
	// WriteQuotas tells that Records or WriteChildRequest will be used, for Rules.
	WriteQuotas bool
	// Log gets what changes and what is wrong; nil for nothing.
	Log logrus.FieldLogger
	// Poll says when the files are compared with what is in force; Every zero means 2 s.
	Poll poll.Times
}

// Compiler makes something of a snapshot, whose questions about the kind it is called for have answers. It must not keep the
// snapshot. Problems are logged and shown; if compiled is nil, or the Compiler panics, what was compiled before stays.
type Compiler func(s *Snapshot) (compiled any, problems []error)

// Cluster is the cluster as it is known now. It may be asked from many goroutines.
type Cluster struct {
	options Options
	log     logrus.FieldLogger
	now     atomic.Pointer[Snapshot]
	source  source

	writing sync.Mutex // one change at a time; readers never wait
	told    string     // the problems that were logged last

	watching sync.Mutex // guards pulses and broken
	pulses   [kindCount]pulse
	broken   error // why the newest state of the files is not in force
}

// source brings changes until ctx ends.
type source interface {
	run(ctx context.Context, c *Cluster)
}

// pulse is what is known about the stream of changes of a kind.
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
	c := newCluster(o, from)
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
	c := newCluster(o, &server{client: client, backoff: defaultBackoff})
	first := *c.Now()
	first.api = true
	c.now.Store(&first)
	return c, nil
}

func newCluster(o Options, from source) *Cluster {
	c := &Cluster{options: o, log: o.Log, source: from}
	if c.log == nil {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		c.log = quiet
	}
	first := &Snapshot{}
	for _, k := range o.Kinds {
		first.kinds[k].wanted = true
	}
	c.now.Store(first)
	return c
}

// Run keeps the cluster current until ctx ends.
func (c *Cluster) Run(ctx context.Context) { c.source.run(ctx, c) }

// Now gives the state as it is known now. Ask one snapshot all questions that must agree with each other.
func (c *Cluster) Now() *Snapshot { return c.now.Load() }

// Ready tells why the cluster cannot be asked yet: every wanted kind must have been listed once. It stays ready from then on:
// while the API server is away, the last known state counts. The error wraps admit.ErrNotReady.
func (c *Cluster) Ready() error {
	var waiting []string
	s := c.Now()
	for k := range kindCount {
		if s.kinds[k].wanted && !s.kinds[k].synced {
			waiting = append(waiting, k.String())
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	return fmt.Errorf("cluster state: waiting for %s: %w", strings.Join(waiting, ", "), admit.ErrNotReady)
}

// Status is how a wanted kind is doing.
type Status struct {
	Kind    Kind
	Objects int
	Synced  bool
	// LastEvent is when an API server last told anything about the kind, be it that nothing happened, or when the files in force
	// were read. Zero: never.
	LastEvent time.Time
	// Missing tells that the API server does not know the kind: its CRD is not installed.
	Missing bool
	// Err is why the last list or watch failed; nil if it did not.
	Err error
}

// Status tells how the wanted kinds are doing, in the order of the kinds.
func (c *Cluster) Status() []Status {
	s := c.Now()
	c.watching.Lock()
	defer c.watching.Unlock()
	var all []Status
	for k := range kindCount {
		if s.kinds[k].wanted {
			p := c.pulses[k]
			all = append(all, Status{Kind: k, Objects: s.kinds[k].objects.size, Synced: s.kinds[k].synced,
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
	problems := c.Now().problems()
	if broken != nil {
		problems = append(problems, broken)
	}
	return problems
}

// change makes the next snapshot and puts it in force, unless edit tells that it changed nothing. The kinds are those that edit may
// change; only those whose objects did change are compiled.
func (c *Cluster) change(edit func(*Snapshot) (changed bool), kinds ...Kind) {
	c.writing.Lock()
	defer c.writing.Unlock()
	before := c.Now()
	next := *before
	if !edit(&next) {
		return
	}
	for _, k := range kinds {
		was, is := &before.kinds[k], &next.kinds[k]
		if is.wanted && (is.objects != was.objects || is.synced != was.synced) {
			next.compile(k, c.compiler(k))
		}
	}
	c.now.Store(&next)
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

// beat notes a sign of life of a kind.
func (c *Cluster) beat(k Kind, p pulse) {
	c.watching.Lock()
	defer c.watching.Unlock()
	if p.last.IsZero() {
		p.last = c.pulses[k].last
	}
	c.pulses[k] = p
}
