package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
)

// Answer prints the AdmissionReview that a server answered: verdict, message, warnings, decoded patch. Text that is no such
// answer is printed as it is, and an error.
func Answer(in io.Reader, to io.Writer, style Style) (allowed bool, err error) {
	style.Patch = true
	raw, err := io.ReadAll(in)
	if err != nil {
		return false, err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return false, errors.New("nothing came back: the answer is empty; curl without -s says why")
	}
	var review admissionv1.AdmissionReview
	err = json.Unmarshal(raw, &review)
	if err == nil && review.Request != nil && review.Response == nil {
		return false, errors.New("this is a request, not an answer: `usher review FILE` sends it through the steps")
	}
	if err != nil || review.Response == nil {
		return false, fmt.Errorf("no AdmissionReview came back, but:\n%s", inShort(raw))
	}
	call := answerCall(review.Response)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", style.paint(verdictColors[call.Outcome]+";"+bold, call.Outcome))
	if call.Reason != "" {
		lines(&b, "code: ", fmt.Sprintf("%d %s", call.Code, call.Reason))
	}
	callDetails(&b, call, style)
	auditText(&b, call)
	_, err = io.WriteString(to, b.String())
	return review.Response.Allowed, err
}

func answerCall(r *admissionv1.AdmissionResponse) Call {
	c := Call{Outcome: "allowed", Warnings: r.Warnings, Audit: r.AuditAnnotations}
	switch {
	case !r.Allowed:
		c.Outcome = "denied"
	case len(r.Patch) > 0:
		c.Outcome = "mutated"
	}
	if r.Result != nil {
		c.Code, c.Reason, c.Message = int(r.Result.Code), string(r.Result.Reason), r.Result.Message
	}
	if err := json.Unmarshal(r.Patch, &c.Patch); err != nil && len(r.Patch) > 0 {
		c.Message += " (the patch is no JSON patch: " + err.Error() + ")"
	}
	return c
}

// maxShown is how many bytes of an answer that is no AdmissionReview are shown.
const maxShown = 4 << 10

// inShort returns the beginning of an answer, or only its size if it is not text.
func inShort(raw []byte) string {
	if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
		return fmt.Sprintf("%d bytes that are not text", len(raw))
	}
	if text := strings.TrimSpace(string(raw)); len(text) <= maxShown {
		return text
	}
	return fmt.Sprintf("%s\n... (%d bytes in all)", strings.ToValidUTF8(string(raw[:maxShown]), ""), len(raw))
}
