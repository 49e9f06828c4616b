// Package admit defines the vocabulary of usher: what a request is, what a step is, how a list of steps yields a
// verdict, and typed views of the object under review. It knows neither HTTP nor the AdmissionReview around a request.
// Other modules may import it, and the packages below it, to build an usher of their own. Their API holds from 0.1.0 on.
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

	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/gate"
)

// Request is one admission request. A step reports what is neither an edit nor a verdict through Warnf, Audit and
// Tolerate.
type Request struct {
	UID         types.UID
	Kind        metav1.GroupVersionKind
	Resource    metav1.GroupVersionResource
	SubResource string
	Operation   admissionv1.Operation
	// Name is as the API server sends it: empty on CREATE with generateName, and for each object of a collection that is deleted. TargetName
	// is the object's. Namespace is empty for cluster-scoped objects.
	Name, Namespace string
	UserInfo        authenticationv1.UserInfo
	DryRun          bool

	// Object is the object under review, nil on DELETE. OldObject is the stored one, nil on CREATE; steps only read it.
	Object, OldObject *document.Document
	// Review is the document that the objects are part of; nil in tests of a step.
	Review *document.Document
	// Expected reports whether the object does not exist yet: it is the pod that a workload under review would lead to. What it refers
	// to may be created before it is.
	Expected bool

	notes
	explanation   explanation
	circumstances Circumstances
	steps         []step    // of the chain that runs
	pods          PodRoutes // of the chain that runs
}

// notes are the warnings, audit annotations and tolerated errors recorded so far.
type notes struct {
	warnings  []string
	audit     map[string]string
	tolerated []string
}

// copy returns a copy that later notes do not change.
func (v notes) copy() notes {
	return notes{slices.Clip(v.warnings), maps.Clone(v.audit), slices.Clip(v.tolerated)}
}

// Subject returns the object that the request is about: the new one, or on DELETE the stored one. It is nil if the
// review has neither.
func (r *Request) Subject() *document.Document {
	if r.Object == nil {
		return r.OldObject
	}
	return r.Object
}

// TargetName returns the name of the object that the request is about: the request's or, if it has none, that of the stored or the new
// object. It is empty while the object has only a generateName.
func (r *Request) TargetName() string {
	name := r.Name
	for _, object := range [...]*document.Document{r.OldObject, r.Object} {
		if name == "" && object != nil {
			name = Meta{object.Root()}.Name()
		}
	}
	return name
}

// ObjectName returns the TargetName for people: the generateName followed by a star while the object has no name.
func (r *Request) ObjectName() string {
	name := r.TargetName()
	if name != "" || r.Object == nil {
		return name
	}
	if prefix := (Meta{r.Object.Root()}).GenerateName(); prefix != "" {
		return prefix + "*"
	}
	return ""
}

// Mutator is a step that may change objects, seen through the view T.
type Mutator[T any] struct {
	// Name is one kebab-case word. It also names the step's file, sample, log entries, metrics and mode.
	Name string
	// Doc is one line: what the step does, and which value wins.
	Doc string
	// Gate is the feature gate of the step; if it is empty, the step is always on.
	Gate gate.Name
	// Needs names the cluster collections that the step reads. Only these are watched and covered by usher's RBAC
	// rules; the step gets no answer about any other collection.
	Needs []string
	// Section is the section of the policy file that the step obeys; nil if there is none.
	Section Section
	// Idle is set if the policy has nothing for the step to do. It is listed, but does not run.
	Idle bool
	// Run records its edits on the object. A *field.Error refuses the request (the user's fault); any other error is
	// ours and becomes an HTTP 500. The edits of a failing step are dropped.
	Run func(ctx context.Context, req *Request, object *T) error
}

// Validator is a check of objects, seen through the view T. All checks run, and all problems are reported together.
type Validator[T any] struct {
	Name, Doc string    // as in Mutator
	Gate      gate.Name // as in Mutator
	Needs     []string  // as in Mutator
	Section   Section   // as in Mutator
	Idle      bool      // as in Mutator
	// For matches the requests that the check judges; nil: all that its route is for.
	For []Match
	// Mode is the mode where the policy sets none; empty for enforce.
	Mode Mode
	// OfPods reports that it judges a workload by the pod that its controller would create.
	OfPods bool
	// Run returns the user's problems, each with its field path, and separately our own failure. It records no edits
	// and has no side effects.
	Run func(ctx context.Context, req *Request, object *T) (field.ErrorList, error)
	// Commit, if set, runs instead of Run when the verdict counts: not on a dry run, and only in mode enforce. It
	// returns what Run would return, and records outside the object that the request is allowed, so that later requests
	// take it into account. It must respect the deadline of ctx, record nothing for a caller that has gone, and count a
	// request once even if it arrives several times. A validator with a Commit must be the last of its list, and the
	// only one with a Commit; it does not run if a check before it refuses.
	Commit func(ctx context.Context, req *Request, object *T) (field.ErrorList, error)
}

// Release releases the memory of the request and its objects. They must not be used afterwards.
func (r *Request) Release() {
	for _, d := range []*document.Document{r.Object, r.OldObject, r.Review} {
		if d != nil {
			d.Release()
		}
	}
	r.Review, r.Object, r.OldObject = nil, nil, nil
}

// The Kubernetes documentation asks for warnings of at most 120 characters where possible; beyond 256 the API server
// may cut one, and all of them once they have more than 4096 together.
const warningLength, warningsLength = 256, 4096

// Warnf adds a warning for the user; the request may still be allowed. A text longer than 256 characters is shortened.
// Repetitions, and warnings that exceed 4096 characters in total, are dropped.
func (r *Request) Warnf(format string, args ...any) {
	text := Shorten(fmt.Sprintf(format, args...), warningLength)
	left := warningsLength - utf8.RuneCountInString(text)
	for _, w := range r.warnings {
		left -= utf8.RuneCountInString(w)
	}
	if left >= 0 && !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

// Warnings returns the warnings recorded so far.
func (r *Request) Warnings() []string { return r.warnings }

// Audit adds an annotation to the audit event of the request. key is a name of at most 63 letters, digits, '-', '_' and
// '.'; the API server prefixes it with the webhook's name. A value longer than 4096 characters is shortened.
func (r *Request) Audit(key, value string) {
	if r.audit == nil {
		r.audit = map[string]string{}
	}
	r.audit[key] = Shorten(value, maxAudit)
}

// maxAudit is the maximum length of an audit annotation in characters.
const maxAudit = 4096

// DropAuditAnnotations drops the audit annotations recorded so far: what they report did not happen.
func (r *Request) DropAuditAnnotations() { r.audit = nil }

// DropNotes drops the warnings, audit annotations and tolerated errors recorded so far.
func (r *Request) DropNotes() { r.notes = notes{} }

// AuditAnnotations returns the audit annotations recorded so far.
func (r *Request) AuditAnnotations() map[string]string { return r.audit }

// ToleratedErrors returns the reasons passed to Tolerate so far.
func (r *Request) ToleratedErrors() []string { return r.tolerated }

// Shorten cuts text to at most n characters; the last one is then an ellipsis.
func Shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	count, last := 0, 0
	for i := range text {
		if count++; count == n {
			last = i
		} else if count > n {
			return text[:last] + "…"
		}
	}
	return text
}

// Explained reports whether lines of Explain are shown.
func (r *Request) Explained() bool { return r.explanation.wanted }

// takeWhy returns the lines of a step that has ended, with one for each field that it refuses.
func (r *Request) takeWhy(done StepResult) []string {
	if !r.explanation.wanted {
		return nil
	}
	for _, refused := range done.Refused[:min(len(done.Refused), maxRefused)] {
		r.Explain("refuses the request because of %s", refused.Field)
	}
	lines := r.explanation.lines
	r.explanation.lines = nil
	return lines
}
