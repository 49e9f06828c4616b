package admit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Whose fault is it?
//
//	the caller's  not a review, too big, wrong media type   HTTP 400, 413, 415     found by package handlers
//	the user's    *field.Error, from a step or a read       200, allowed: false    Result.Problems, Denial
//	ours          any other error, and panics               HTTP 500, or 503 when a retry helps (ErrNotReady)

// ErrNotReady is wrapped by the error of a step whose data has not arrived yet: the same request may succeed a second
// later.
var ErrNotReady = errors.New("not ready yet")

// The maximum lengths of a reported problem in characters. It may quote a value as long as an object; a rule of the policy
// may say as much about it as a policy of the API server, 5 KiB, and names itself afterwards.
const maxValue, maxDetail = 1000, 5*1024 + 200

// The maximum number of problems that are reported, and of bytes that they have together in a message.
const maxProblems, maxMessage = 50, 50 << 10

// Denial returns the status that refuses a request for the given problems, of which there must be at least one. The
// code and the reason depend on the problems: 400 BadRequest if an object cannot be read, 403 Forbidden if all of them
// are of type Forbidden, else 422 Invalid. Each problem is a cause, and is named in the message together with its step;
// beyond 50, or 50 KiB, problems are only counted. Message and causes end with the refusal's id, see RefusalID.
func Denial(req *Request, problems []Problem, id string) *metav1.Status {
	status := &metav1.Status{
		Status: metav1.StatusFailure,
		Details: &metav1.StatusDetails{
			Name: req.TargetName(), Group: req.Kind.Group, Kind: req.Kind.Kind, UID: "",
		},
	}
	var texts []string
	size := 0
	for _, p := range problems[:min(len(problems), maxProblems)] {
		path, body := Shorten(p.Field, maxValue), bodyOf(p.Error)
		text := fmt.Sprintf("%s: %s: %s", p.Step, path, body)
		if size += len(text); size > maxMessage && len(texts) > 0 {
			break
		}
		texts = append(texts, text)
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseType(p.Type), Field: path,
			// kubectl shows the causes of an Invalid instead of the message, so each names its source.
			Message: body + " (usher, step " + p.Step + ", refusal " + id + ")",
		})
	}
	if more := len(problems) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more problems", more))
	}
	status.Message = strings.Join(texts, "; ") + " (refusal " + id + ")"
	status.Code, status.Reason = codeOf(problems)
	return status
}

// bodyOf returns a problem without its field. A long value is cut, so that what is said of it stays.
func bodyOf(p *field.Error) string {
	value := *p
	value.Detail = ""
	body := Shorten(value.ErrorBody(), maxValue)
	if p.Detail == "" {
		return body
	}
	return body + ": " + Shorten(p.Detail, maxDetail)
}

// RefusalID returns a short id by which the log and the audit log can be searched for a refusal. It depends on the request's
// workload and on the broken rules, without values: a controller that tries again is refused under the same id, so that
// the API server counts one event and does not store many.
func RefusalID(req *Request, problems []Problem) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s %s %v", req.Operation, req.ResourceName(), req.Origin())
	for _, p := range problems[:min(len(problems), maxProblems)] {
		_, _ = fmt.Fprintf(sum, "\n%s: %s", p.Step, RuleOf(p.Error))
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

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

func codeOf(problems []Problem) (int32, metav1.StatusReason) {
	forbidden := true
	for _, p := range problems {
		switch p.Type {
		case field.ErrorTypeTypeInvalid:
			return 400, metav1.StatusReasonBadRequest
		case field.ErrorTypeForbidden:
		default:
			forbidden = false
		}
	}
	if forbidden {
		return 403, metav1.StatusReasonForbidden
	}
	return 422, metav1.StatusReasonInvalid
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
