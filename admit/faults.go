package admit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Whose fault is it?
//
//	the caller's  not a review, too big, wrong media type   HTTP 400, 413, 415     found by package handlers
//	the user's    *field.Error, from a step or a read       200, allowed: false    Result.Problems
//	ours          any other error, and panics               HTTP 500, or 503 when a retry helps (ErrNotReady)

// ErrNotReady is wrapped by the error of a step whose data has not arrived yet: the same request may succeed a second
// later.
var ErrNotReady = errors.New("not ready yet")

// opaque matches a path up to an annotation, or to an entry of a ConfigMap or Secret. The rest of such a path is part
// of the content.
var opaque = regexp.MustCompile(`^(.*?\bannotations|data|stringData)\[[^\]]*\]`)

// maxPath is the maximum length in characters of a field path in a log, as of a name.
const maxPath = 253

// RuleOf returns the path and the type of a problem, without values: for logs, and for audit annotations.
func RuleOf(p *field.Error) string { return PathOf(p) + ": " + string(p.Type) }

// PathOf returns the path of a problem, without what is part of the content.
func PathOf(p *field.Error) string {
	path := p.Field
	if found := opaque.FindString(path); found != "" {
		path = found
	}
	return Shorten(path, maxPath)
}

// NoResultError reports that a rule of the policy has no result for an object, because of how the rule is written, so that
// neither yes nor no can be said. Its text is for users. A request fails by it, as by any failure of ours.
type NoResultError struct {
	Rule string
	Why  error
}

func (e *NoResultError) Error() string { return fmt.Sprintf("rule %s: %v", e.Rule, e.Why) }

// Unwrap returns why the rule has no result.
func (e *NoResultError) Unwrap() error { return e.Why }

// Tolerate reports bad input that must not stop the request, above all a node's heartbeat: to the user by a warning, to
// the audit log by an annotation, and to the operator by a counter. reason is one of a small closed set, in kebab-case.
// An argument that is an error may quote the object, and is left out of the annotation.
func (r *Request) Tolerate(reason, format string, args ...any) {
	r.Warnf(format, args...)
	r.Audit("trouble."+reason, fmt.Sprintf(format, withoutErrors(args)...))
	r.tolerated = append(r.tolerated, reason)
}

// withoutErrors returns arguments with errors replaced by what they say of a rule, or by an ellipsis.
func withoutErrors(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if problem, ok := arg.(*field.Error); ok {
			args[i] = RuleOf(problem)
		} else if _, ok := arg.(error); ok {
			args[i] = "…"
		}
	}
	return args
}
