// Package answer prints the AdmissionReview that a server answered, and has what the tools print with: colours, lines, operations of
// patches.
package answer

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

// Print prints the AdmissionReview that a server answered: verdict, message, warnings, decoded patch. Text that is no such
// answer is printed as it is, and an error.
func Print(in io.Reader, to io.Writer, style Style) (allowed bool, err error) {
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
		return false, errors.New("this is a request, not an answer: `usherctl review FILE` sends it through the steps")
	}
	if err != nil || review.Response == nil {
		return false, fmt.Errorf("no AdmissionReview came back, but:\n%s", inShort(raw))
	}
	r, b := review.Response, strings.Builder{}
	outcome := Outcome(r)
	fmt.Fprintf(&b, "%s\n", style.Paint(Colors[outcome]+";"+Bold, outcome))
	if r.Result != nil && r.Result.Reason != "" {
		Lines(&b, "code: ", fmt.Sprintf("%d %s", r.Result.Code, r.Result.Reason))
	}
	details(&b, r, style)
	_, err = io.WriteString(to, b.String())
	return r.Allowed, err
}

// Outcome returns what the API server does by a valid response, in a word: denied, mutated or allowed.
func Outcome(r *admissionv1.AdmissionResponse) string {
	switch {
	case !r.Allowed:
		return "denied"
	case len(r.Patch) > 0:
		return "mutated"
	}
	return "allowed"
}

// details prints the message, the warnings, the patch and the audit annotations.
func details(b *strings.Builder, r *admissionv1.AdmissionResponse, style Style) {
	var patch []Operation
	message := ""
	if r.Result != nil {
		message = r.Result.Message
	}
	if err := json.Unmarshal(r.Patch, &patch); err != nil && len(r.Patch) > 0 {
		message += " (the patch is no JSON patch: " + err.Error() + ")"
	}
	Lines(b, "message: ", message)
	Lines(b, style.Paint(Yellow, "warning: "), r.Warnings...)
	Patch(b, patch)
	AuditAnnotations(b, r.AuditAnnotations)
}

// maxShown is the number of bytes shown of an answer that is not an AdmissionReview.
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
