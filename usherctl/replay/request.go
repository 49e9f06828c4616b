package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/report"
)

// request is a request of the log.
type request struct {
	event *explain.Event
	old   json.RawMessage // the stored object before; nil if the log does not have it
}

// operations are the operations of verbs. That of pods/exec and the like is CONNECT, whatever the verb is.
var operations = map[string]admissionv1.Operation{"create": admissionv1.Create, "update": admissionv1.Update, "patch": admissionv1.Update,
	"delete": admissionv1.Delete, "deletecollection": admissionv1.Delete, "connect": admissionv1.Connect}

var connects = []string{"exec", "attach", "portforward", "proxy"}

// asked returns the request without its object; ok is false if admission does not see it.
func (r request) asked() (req *admit.Request, ok bool) {
	ref := r.event.ObjectRef
	req = &admit.Request{Operation: operations[r.event.Verb], SubResource: ref.Subresource, Namespace: ref.Namespace, Name: ref.Name,
		Resource: metav1.GroupVersionResource{Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource}}
	switch {
	case slices.Contains(connects, ref.Subresource):
		req.Operation = admissionv1.Connect
	case r.event.Verb == "patch" && r.event.ResponseStatus.Code == http.StatusCreated: // kubectl apply --server-side
		req.Operation = admissionv1.Create
	}
	return req, req.Operation != "" && ref.Resource != ""
}

// recording is a request as the log has it.
type recording struct {
	request
	req     *admit.Request
	who     authenticationv1.UserInfo
	kind    schema.GroupVersionKind
	name    string
	body    []byte          // of validating webhooks
	object  json.RawMessage // as validating webhooks saw it
	calls   []report.Call   // of mutating webhooks of usher
	traced  bool            // the event has something of usher: it was there
	refused report.Call     // that of usher which refused the request; without a path if none did
}

// head has what is read of an object that is not decoded.
type head struct {
	metav1.TypeMeta `json:",inline"`
	known           `json:"metadata"`
}

type known struct {
	Name, ResourceVersion string
	UID                   types.UID
	Generation            int64
	DeletionTimestamp     *metav1.Time
}

func headOf(raw json.RawMessage) (h head) {
	_ = json.Unmarshal(raw, &h)
	return h
}

// record reads what the log has of a request. why says what it lacks.
func record(r request, req *admit.Request) (rec recording, why string) {
	rec = recording{request: r, req: req, who: r.event.User}
	if r.event.ImpersonatedUser != nil {
		rec.who = *r.event.ImpersonatedUser
	}
	calls, err := r.event.Calls()
	if err != nil {
		return rec, "the event has annotations of webhooks that cannot be read"
	}
	if why = cmp.Or(lacks(r.event, req), rec.refusal()); why != "" {
		return rec, why
	}
	rec.traced = rec.refused.Path != "" || traced(r.event, calls)
	calls = slices.DeleteFunc(calls, func(c explain.Called) bool { return !c.Mutates && !ours(c.Webhook) })
	for _, c := range calls {
		switch {
		case c.FailedOpen && ours(c.Webhook):
			return rec, "usher did not answer, and the request went on without it"
		case c.Mutated && !c.Recorded:
			return rec, "the log does not have the patches of webhooks"
		}
	}
	if req.Operation == admissionv1.Delete {
		return rec, rec.deleted()
	}
	return rec, rec.read(calls)
}

// lacks returns what an event does not have, apart from what webhooks did.
func lacks(e *explain.Event, req *admit.Request) string {
	_, truncated := e.Annotations["audit.k8s.io/truncated"]
	switch {
	case e.Stage != "ResponseComplete":
		return "the API server panicked"
	case truncated:
		return "the event was truncated"
	case e.Verb == "deletecollection":
		return "DELETECOLLECTION: the log does not have the objects"
	case req.Operation == admissionv1.Connect:
		return "CONNECT: the log does not have its options"
	case e.Level == "Metadata":
		return "level Metadata of the audit policy: the log does not have the object"
	}
	return ""
}

// refusal reads what usher refused. Other requests that failed were not judged to the end.
func (r *recording) refusal() (why string) {
	status := r.event.ResponseStatus
	if status.Code < 400 {
		return ""
	}
	refusal, _ := explain.ParseRefusal(status.Message)
	if refusal.By != explain.ByUsher || !ours(refusal.Name) {
		return fmt.Sprintf("the request failed for another reason: HTTP %d", status.Code)
	}
	r.refused = report.Call{Path: webhooks.PathOf(refusal.Name), Outcome: string(handlers.Denied), Message: status.Message}
	for _, problem := range refusal.Problems {
		text := problem.Field + ": " + problem.Type + ": " + problem.Detail
		r.refused.Steps = append(r.refused.Steps, report.Step{Name: problem.Step, Mode: string(admit.Enforce), Refused: []string{text}})
	}
	return ""
}

// traced reports whether an event has a call of usher, or a note by it.
func traced(e *explain.Event, calls []explain.Called) bool {
	for key := range e.Annotations {
		if webhook, _, _ := strings.Cut(key, "/"); ours(webhook) {
			return true
		}
	}
	return slices.ContainsFunc(calls, func(c explain.Called) bool { return ours(c.Webhook) })
}

func ours(webhook string) bool { return strings.HasSuffix(webhook, ".usher.dev") }

// deleted reads a request that deletes an object: the answer has it, with the time of its deletion, unless it is a Status.
func (r *recording) deleted() (why string) {
	was, is := headOf(r.old), headOf(r.event.ResponseObject)
	if is.UID == "" || r.refused.Path != "" {
		return "DELETE: the answer in the log does not have the object"
	}
	if is.UID != was.UID || is.ResourceVersion != was.ResourceVersion {
		deleted := decoded(r.event.ResponseObject)
		for _, key := range []string{"deletionTimestamp", "deletionGracePeriodSeconds"} {
			if is.UID != was.UID || was.DeletionTimestamp == nil {
				delete(deleted["metadata"].(object), key)
			}
		}
		r.old = encoded(deleted)
	}
	r.kind, r.name = is.GroupVersionKind(), is.Name
	r.body = r.review(json.RawMessage("null"))
	return ""
}

// read reads the object that was sent, and what became of it.
func (r *recording) read(calls []explain.Called) (why string) {
	sent, stored := decoded(r.event.RequestObject), decoded(r.event.ResponseObject)
	was, answer := headOf(r.event.RequestObject), headOf(r.event.ResponseObject)
	if r.event.Verb == "patch" {
		if sent, why = r.patched(sent, stored, calls); why != "" {
			return why
		}
		was = answer
		was.ResourceVersion = headOf(r.old).ResourceVersion
	}
	r.kind, r.name = was.GroupVersionKind(), cmp.Or(r.event.ObjectRef.Name, was.Name)
	switch {
	case sent == nil || r.kind.Kind == "":
		return "the log does not have the object that was sent"
	case r.req.Operation == admissionv1.Update && (r.old == nil || was.ResourceVersion != headOf(r.old).ResourceVersion):
		return "UPDATE: the log does not have the object as it was before"
	case r.refused.Path != "", answer.Kind == "Status" && r.req.SubResource != "":
		stored = nil
	case answer.TypeMeta != was.TypeMeta:
		return "the log does not have the stored object: level RequestResponse of the audit policy has it"
	}
	metadata, is := sent["metadata"].(object)
	if is && r.req.Namespace != "" && !r.req.AboutNamespace() {
		metadata["namespace"] = r.req.Namespace
	}
	documents, why := rebuild(r.kind, r.req.Operation == admissionv1.Create && r.req.SubResource == "", sent, stored, calls)
	if why != "" {
		return why
	}
	r.called(calls, documents)
	last := documents[len(documents)-1]
	if stored != nil {
		r.name, last = answer.Name, stored
		now, _ := stored["metadata"].(object)
		restore(now, metadata, "resourceVersion")
	}
	r.object = encoded(last)
	r.body = r.review(r.object)
	return ""
}

// called notes the calls of usher's mutating webhooks.
func (r *recording) called(calls []explain.Called, documents []object) {
	var before, body []byte
	for i, c := range calls {
		if i > 0 && len(calls[i-1].Patch) > 0 {
			before = nil
		}
		if !ours(c.Webhook) {
			continue
		}
		if before == nil {
			before = encoded(documents[i])
			body = r.review(before)
		}
		call := report.Call{Path: webhooks.PathOf(c.Webhook), Round: c.Round + 1, Outcome: string(handlers.Allowed), Patch: c.Patch, Before: before,
			Review: body}
		switch {
		case call.Path == r.refused.Path:
			call.Outcome = r.refused.Outcome
		case len(c.Patch) > 0:
			call.Outcome = string(handlers.Mutated)
		}
		r.calls = append(r.calls, call)
	}
}

// review returns the AdmissionReview for an object.
func (r *recording) review(object json.RawMessage) []byte {
	req := &admissionv1.AdmissionRequest{UID: types.UID(cmp.Or(r.event.AuditID, "replay")), Operation: r.req.Operation, Name: r.name,
		Kind: metav1.GroupVersionKind(r.kind), Resource: r.req.Resource, SubResource: r.req.SubResource, RequestSubResource: r.req.SubResource,
		Namespace: r.req.Namespace, UserInfo: r.who, DryRun: new(r.event.DryRun())}
	req.RequestKind, req.RequestResource = &req.Kind, &req.Resource
	if r.req.AboutNamespace() {
		req.Namespace = r.name
	}
	is := metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}
	raw, old := encoded(admissionv1.AdmissionReview{TypeMeta: is, Request: req}), json.RawMessage("null")
	if req.Operation != admissionv1.Create && r.old != nil {
		old = r.old
	}
	const objects = `"object":null,"oldObject":null` // what is known to be JSON is not encoded again
	at := bytes.LastIndex(raw, []byte(objects))
	return slices.Concat(raw[:at], []byte(`"object":`), object, []byte(`,"oldObject":`), old, raw[at+len(objects):])
}
