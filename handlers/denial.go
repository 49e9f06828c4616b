package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// The maximum lengths of a reported problem in characters. It may quote a value as long as an object; a rule of the policy
// may say as much about it as a policy of the API server, 5 KiB, and names itself afterwards.
const maxValue, maxDetail = 1000, 5*1024 + 200

// The maximum number of problems that are reported, and of bytes that they have together in a message.
const maxReported, maxMessage = 50, 50 << 10

func (d *Decision) deny() {
	d.Refusal = refusalID(d.Request, d.Result.Problems)
	d.Request.Audit("denied-by", d.Result.Problems[0].Step)
	d.Request.Audit("refusal", d.Refusal)
	status := denial(d.Request, d.Result.Problems, d.Refusal)
	d.Outcome, d.Code, d.Response = Denied, int(status.Code), d.respond(false)
	d.Response.Result = status
}

// denial returns the status that refuses a request for the given problems, of which there must be at least one. The
// code and the reason depend on the problems: 400 BadRequest if an object cannot be read, 403 Forbidden if all of them
// are of type Forbidden, else 422 Invalid. Each problem is a cause, and is named in the message together with its step;
// beyond 50, or 50 KiB, problems are only counted. Message and causes end with the refusal's id, see refusalID.
func denial(req *admit.Request, problems []admit.Problem, id string) *metav1.Status {
	status := &metav1.Status{
		Status: metav1.StatusFailure,
		Details: &metav1.StatusDetails{
			Name: req.TargetName(), Group: req.Kind.Group, Kind: req.Kind.Kind, UID: "",
		},
	}
	var texts []string
	size := 0
	for _, p := range problems[:min(len(problems), maxReported)] {
		path, body := admit.Shorten(p.Field, maxValue), bodyOf(p.Error)
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
	body := admit.Shorten(value.ErrorBody(), maxValue)
	if p.Detail == "" {
		return body
	}
	return body + ": " + admit.Shorten(p.Detail, maxDetail)
}

// refusalID returns a short id by which the log and the audit log can be searched for a refusal. It depends on the request's
// workload and on the broken rules, without values: a controller that tries again is refused under the same id, so that
// the API server counts one event and does not store many.
func refusalID(req *admit.Request, problems []admit.Problem) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s %s %v", req.Operation, req.ResourceName(), req.Origin())
	for _, p := range problems[:min(len(problems), maxReported)] {
		_, _ = fmt.Fprintf(sum, "\n%s: %s", p.Step, admit.RuleOf(p.Error))
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

func codeOf(problems []admit.Problem) (int32, metav1.StatusReason) {
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
