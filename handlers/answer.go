package handlers

import (
	"encoding/json"
	"net/http"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
)

// reply is the answer to be written. It does not refer to the decision, whose memory is released before.
type reply struct {
	outcome Outcome
	code    int
	retry   int    // seconds after which a retry helps; 0: it does not
	text    string // plain text, if there is no review
	review  []byte
	held    int // bytes counted in the limits
}

// encode makes the reply. Its bytes count in the limits until it has been written.
func (s Server) encode(d *Decision) reply {
	var review []byte
	if d.Response != nil {
		review, _ = json.Marshal(admissionv1.AdmissionReview{TypeMeta: d.Type, Response: d.Response}) // of texts and numbers: it cannot fail
		if err := s.Limits.hold(len(review), len(review) <= firstBuffer); err != nil {
			d.fail(err)
			review = nil
		}
	}
	return reply{d.Outcome, d.Code, d.retry, d.text, review, len(review)}
}

// write writes the answer. No other function does.
func (a reply) write(w http.ResponseWriter) {
	if a.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(a.retry))
	}
	if a.outcome == Unauthenticated { // the body was not read
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Connection", "close")
	}
	if a.review == nil {
		http.Error(w, a.text, a.code)
		return
	}
	w.Header()["Content-Type"] = contentType
	if len(a.review) > smallAnswer {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.review)))
	}
	_, _ = w.Write(a.review)
}

// contentType is the header of answers that are reviews. net/http copies it.
var contentType = []string{"application/json"}

// smallAnswer is the size in bytes up to which net/http sets Content-Length itself. It sends a longer answer in chunks unless
// Content-Length is set.
const smallAnswer = 2 << 10
