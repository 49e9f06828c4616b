// Package replay is `usherctl review --audit-log`: it runs the requests of an API server's audit log through usher's steps under another policy,
// and says what would have become of them.
//
//	request.go   a request as the log has it, and what the log lacks
//	patch.go     the object that a client's patch made
//	rebuild.go   the object before each webhook
//	stored.go    the objects as they were before updates
//	side.go      usher under a policy, and which of its webhooks are called
//	compare.go   the differences
//	groups.go    what is printed
package replay

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/parallel"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

// Requests are read and reviewed in batches: at most so many, and with so many bytes of objects, are in memory twice.
const (
	batchSize  = 512
	batchBytes = 16 << 20
)

// Run reviews the requests of audit logs, see review.LogReviewer.
func Run(ctx context.Context, env tool.Env, o review.AuditLogs) error {
	policy, err := policyfile.Load(ctx, o.Config, env.Suites.Schema())
	if err != nil {
		return err
	}
	env.WarnOfPolicy(o.Config, policy)
	var was *config.Policy
	if o.Was != "" {
		if was, err = policyfile.Load(ctx, o.Was, env.Suites.Schema()); err != nil {
			return fmt.Errorf("--was: %w", err)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // little of what is read is kept
	run := &replaying{Env: env, ctx: ctx, result: &Result{Groups: []Group{}, NotJudged: []Reason{}}, memory: newMemory()}
	for range runtime.GOMAXPROCS(0) {
		w, err := newWorker(env, o, policy, was)
		if err != nil {
			return err
		}
		run.workers = append(run.workers, w)
	}
	if err := run.read(o.Files); err != nil {
		return err
	}
	run.result.end()
	if o.Output == "json" {
		if err := report.WriteJSON(env.Out, run.result); err != nil {
			return err
		}
	} else {
		run.result.text(env.Out)
	}
	why := "some requests were not judged"
	if run.result.Requests == 0 {
		why = "no request of the log is for usher: nothing was judged; does the audit policy log requests of pods at level RequestResponse?"
	}
	return run.result.exit(o.Strict).Err(why)
}

// replaying is one run.
type replaying struct {
	tool.Env
	ctx     context.Context
	workers []*worker
	result  *Result
	memory  *memory

	batch  []request
	size   int
	filled chan []request
}

// read reads and reviews logs.
func (r *replaying) read(files []string) error {
	r.filled = make(chan []request, 1)
	log, failed := explain.NewLog(explain.Filter{}), make(chan error, 1)
	log.Each = r.add
	go func() {
		defer close(r.filled)
		for _, name := range files {
			if err := explain.ReadLog(r.Env, log, name); err != nil {
				failed <- err
				return
			}
		}
		r.flush()
		failed <- r.ctx.Err()
	}()
	for batch := range r.filled {
		do := func(w *worker, i int) outcome { return w.judge(r.ctx, batch[i]) }
		for o := range parallel.InOrder(len(batch), r.workers, do) {
			r.result.add(o)
		}
		r.Progress(fmt.Sprintf("%d requests", r.result.Requests+r.result.Others))
	}
	r.Progress("")
	err := <-failed
	r.result.unread(log)
	return err
}

// add adds an event to the batch. Requests that are not answered yet have no result.
func (r *replaying) add(e *explain.Event) {
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" || len(e.Verb) == 0 || r.ctx.Err() != nil {
		return
	}
	next := request{event: e}
	if r.remembered(e) {
		if e.Verb != "create" {
			next.old = r.memory.before(e)
		}
		r.memory.remember(e)
	}
	r.batch, r.size = append(r.batch, next), r.size+len(e.RequestObject)+len(e.ResponseObject)
	if len(r.batch) == batchSize || r.size > batchBytes {
		r.flush()
	}
}

func (r *replaying) flush() {
	r.filled <- r.batch
	r.batch, r.size = nil, 0
}

// remembered reports whether updates or deletions of objects such as that of an event are reviewed.
func (r *replaying) remembered(e *explain.Event) bool {
	return slices.ContainsFunc([]admissionv1.Operation{admissionv1.Update, admissionv1.Delete}, func(o admissionv1.Operation) bool {
		req, _ := request{event: e}.asked()
		req.SubResource, req.Name, req.Operation = "", "", o
		return r.workers[0].mayCover(req)
	})
}

// unread notes what of the logs could not be read.
func (r *Result) unread(log *explain.Log) {
	r.Unreadable = log.Problems
	if more := log.Unread - len(log.Problems); more > 0 {
		r.Unreadable = append(r.Unreadable, fmt.Sprintf("and %d more lines", more))
	}
	for _, at := range log.Torn {
		r.Unreadable = append(r.Unreadable, at.String()+": the last line is incomplete, and was left out")
	}
}
