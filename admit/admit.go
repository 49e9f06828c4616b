// Package admit is the vocabulary of usher: what a request is, what a step is, how a list of steps becomes a verdict, and
// typed views of the object under review. It knows neither HTTP nor the AdmissionReview around a request.
package admit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/document"
	"usher.dev/usher/gate"
)

// Request is one admission request, and the voice of a step: what a step has to say beside its edits and its verdict goes
// through Warnf and Audit.
type Request struct {
	UID         types.UID
	Kind        metav1.GroupVersionKind
	Resource    metav1.GroupVersionResource
	SubResource string
	Operation   admissionv1.Operation
	// Name is empty on CREATE with generateName; Namespace is empty for cluster-scoped objects.
	Name, Namespace string
	UserInfo        authenticationv1.UserInfo
	DryRun          bool

	// Object is the object under review, nil on DELETE. OldObject is the stored one, nil on CREATE; steps only read it.
	Object, OldObject *document.Document
	// Review is what the objects are part of; nil in tests of a step.
	Review *document.Document

	voice
}

// voice is what was said so far beside edits and verdict.
type voice struct {
	warnings []string
	audit    map[string]string
	troubles []string
}

// copy keeps what was said up to now.
func (v voice) copy() voice {
	return voice{slices.Clip(v.warnings), maps.Clone(v.audit), slices.Clip(v.troubles)}
}

// Subject is what the request is about: the object, or on DELETE the stored one. Nil if a review holds neither.
func (r *Request) Subject() *document.Document {
	if r.Object == nil {
		return r.OldObject
	}
	return r.Object
}

// ObjectName is the object's name, or its generateName followed by a star while it has no name.
func (r *Request) ObjectName() string {
	if r.Name != "" || r.Object == nil {
		return r.Name
	}
	meta := Meta{r.Object.Root()}
	if prefix := meta.GenerateName(); meta.Name() == "" && prefix != "" {
		return prefix + "*"
	}
	return meta.Name()
}

// Mutator is a step that may change objects seen through the view T.
type Mutator[T any] struct {
	// Name is the step's one word in kebab-case: the name of its file, sample, log, metric and mode.
	Name string
	// Doc is one line: what the step does, and what wins.
	Doc string
	// Gate is the feature gate that switches the step; empty: always on.
	Gate gate.Name
	// Needs names the collections of the cluster that the step asks about. They are what is watched and what usher may read; about another
	// one the step gets no answer.
	Needs []string
	// Run records its edits on the object. A *field.Error refuses the request (the user's fault); any other error is ours
	// and becomes an HTTP 500. What a failing step recorded is dropped.
	Run func(ctx context.Context, req *Request, object *T) error
}

// Validator is a check of objects seen through the view T. All checks run, and all problems are reported together.
type Validator[T any] struct {
	Name, Doc string    // as in Mutator
	Gate      gate.Name // as in Mutator
	Needs     []string  // as in Mutator
	// Run returns the user's problems, each with its field path, and separately our own failure. It records no edits, and leaves nothing
	// behind.
	Run func(ctx context.Context, req *Request, object *T) (field.ErrorList, error)
	// Commit, if it is set, runs in place of Run when the verdict counts: not on a dry run, and only in mode enforce. It returns what Run
	// would return, and remembers outside of the object that the request is allowed, so that the next one counts with it. It must keep the
	// deadline of ctx, remember nothing for a caller that has gone, and count once however often one request arrives. A check with a Commit
	// is the last of its list, and the only one; where a check before it refuses, it does not run at all.
	Commit func(ctx context.Context, req *Request, object *T) (field.ErrorList, error)
}

// Release gives back what the request holds, its objects included. Nothing of them may be used afterwards.
func (r *Request) Release() {
	for _, d := range []*document.Document{r.Object, r.OldObject, r.Review} {
		if d != nil {
			d.Release()
		}
	}
	r.Review, r.Object, r.OldObject = nil, nil, nil
}

// The Kubernetes documentation asks for warnings of at most 120 characters where possible; beyond 256 the API server may cut one, and
// all of them once they have more than 4096 together.
const warningLength, warningsLength = 256, 4096

// Warnf tells the user something about a request that is allowed all the same. Text above 256 characters is cut; repetitions, and what
// does not fit into 4096 characters together, are dropped.
func (r *Request) Warnf(format string, args ...any) {
	text := Shorten(fmt.Sprintf(format, args...), warningLength)
	room := warningsLength - utf8.RuneCountInString(text)
	for _, w := range r.warnings {
		room -= utf8.RuneCountInString(w)
	}
	if room >= 0 && !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

// Warnings are the warnings so far.
func (r *Request) Warnings() []string { return r.warnings }

// Audit writes a line into the cluster's audit log. key is a name of at most 63 letters, digits, '-', '_' and '.'; the API
// server puts the webhook's name before it.
func (r *Request) Audit(key, value string) {
	if r.audit == nil {
		r.audit = map[string]string{}
	}
	r.audit[key] = value
}

// ForgetAudit drops the audit annotations so far: what they say did not come about.
func (r *Request) ForgetAudit() { r.audit = nil }

// AuditAnnotations are the audit annotations so far.
func (r *Request) AuditAnnotations() map[string]string { return r.audit }

// Trouble tells of bad input that must not stop the request, a node's heartbeat above all: the user by a warning, the audit
// log by an annotation, the operator by a counter. reason is one of a small closed set, in kebab-case.
func (r *Request) Trouble(reason, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Warnf("%s", text)
	r.Audit("trouble."+reason, text)
	r.troubles = append(r.troubles, reason)
}

// Troubles are the reasons of the troubles so far.
func (r *Request) Troubles() []string { return r.troubles }

// Shorten cuts text to at most n characters, the last of which is then an ellipsis.
func Shorten(text string, n int) string {
	count, last := 0, 0
	for at := range text {
		if count++; count == n {
			last = at
		} else if count > n {
			return text[:last] + "…"
		}
	}
	return text
}
