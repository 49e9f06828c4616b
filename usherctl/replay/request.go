package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"usher.dev/usher/admit"
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
	if slices.Contains(connects, ref.Subresource) {
		req.Operation = admissionv1.Connect
	}
	return req, req.Operation != "" && ref.Resource != ""
}

// mayCover reports whether a route is for requests such as one whose object is not known.
func mayCover(r admit.Route, req *admit.Request) bool {
	return slices.ContainsFunc(r.For, func(m admit.Match) bool {
		if m.Kind == (metav1.GroupVersionKind{}) {
			return m.Rule.Covers(req)
		}
		return slices.Contains(m.Resources, req.ResourceName()) && slices.Contains(m.Operations, req.Operation)
	})
}

// recording is a request as the log has it.
type recording struct {
	request
	kind    schema.GroupVersionKind
	name    string
	body    []byte          // of validating webhooks
	object  json.RawMessage // as validating webhooks saw it
	calls   []report.Call   // of mutating webhooks of usher
	refused report.Call     // that of usher which refused the request; without a path if none did
}

// head is the beginning of an object.
type head struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta `json:"metadata"`
}

func headOf(raw json.RawMessage) (h head) {
	_ = json.Unmarshal(raw, &h)
	return h
}

// record reads what the log has of a request. why says what it lacks.
func record(r request, req *admit.Request) (rec recording, why string) {
	e := r.event
	calls, err := e.Calls()
	rec.request = r
	_, truncated := e.Annotations["audit.k8s.io/truncated"]
	switch {
	case e.Stage != "ResponseComplete":
		return rec, "the API server panicked"
	case truncated:
		return rec, "the event was truncated"
	case err != nil:
		return rec, "the event has annotations of webhooks that cannot be read"
	case e.Verb == "deletecollection":
		return rec, "DELETECOLLECTION: the log does not have the objects"
	case req.Operation == admissionv1.Connect:
		return rec, "CONNECT: the log does not have its options"
	case e.Level == "Metadata":
		return rec, "level Metadata of the audit policy: the log does not have the object"
	case e.Verb == "patch":
		return rec, "PATCH: the log has the patch of the client, and not the object that it made"
	}
	if why := rec.refusal(); why != "" {
		return rec, why
	}
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
	return rec, rec.read(req, calls)
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
	r.refused = report.Call{Path: webhooks.PathOf(refusal.Name), Outcome: "denied", Message: status.Message}
	for _, problem := range refusal.Problems {
		text := problem.Field + ": " + problem.Type + ": " + problem.Detail
		r.refused.Steps = append(r.refused.Steps, report.Step{Name: problem.Step, Mode: string(admit.Enforce), Refused: []string{text}})
	}
	return ""
}

func ours(webhook string) bool { return strings.HasSuffix(webhook, ".usher.dev") }

// deleted reads a request that deletes an object.
func (r *recording) deleted() (why string) {
	was, is := headOf(r.old), headOf(r.event.ResponseObject)
	if r.old == nil || r.refused.Path == "" && (is.Metadata.UID != was.Metadata.UID || is.Metadata.ResourceVersion != was.Metadata.ResourceVersion) {
		return "DELETE: the log does not have the object as it was before"
	}
	r.kind, r.name = was.GroupVersionKind(), was.Metadata.Name
	return r.review(nil)
}

// read reads the object that was sent, and what became of it.
func (r *recording) read(req *admit.Request, calls []explain.Called) (why string) {
	sent, answer := decoded(r.event.RequestObject), headOf(r.event.ResponseObject)
	was := headOf(r.event.RequestObject)
	r.kind, r.name = was.GroupVersionKind(), cmp.Or(r.event.ObjectRef.Name, was.Metadata.Name)
	var stored object
	switch {
	case sent == nil || r.kind.Kind == "":
		return "the log does not have the object that was sent"
	case req.Operation == admissionv1.Update && (r.old == nil || was.Metadata.ResourceVersion != headOf(r.old).Metadata.ResourceVersion):
		return "UPDATE: the log does not have the object as it was before"
	case r.refused.Path != "", answer.Kind == "Status" && req.SubResource != "":
	case answer.Kind != r.kind.Kind || answer.APIVersion != was.APIVersion:
		return "the log does not have the stored object: level RequestResponse of the audit policy has it"
	default:
		stored = decoded(r.event.ResponseObject)
	}
	if metadata, is := sent["metadata"].(object); is && req.Namespace != "" && req.Resource.Resource != "namespaces" {
		metadata["namespace"] = req.Namespace
	}
	documents, why := rebuild(r.kind, req.Operation == admissionv1.Create && req.SubResource == "", sent, stored, calls)
	if why != "" {
		return why
	}
	if r.object = documents[len(documents)-1]; stored != nil {
		metadata, _ := stored["metadata"].(object)
		delete(metadata, "resourceVersion")
		if r.old != nil {
			metadata["resourceVersion"] = headOf(r.old).Metadata.ResourceVersion
		}
		r.object = encoded(stored)
	}
	if why := r.called(calls, documents); why != "" {
		return why
	}
	if stored != nil {
		r.name = headOf(r.object).Metadata.Name
	}
	return r.review(r.object)
}

// called notes the calls of usher's mutating webhooks.
func (r *recording) called(calls []explain.Called, documents []json.RawMessage) (why string) {
	for i, c := range calls {
		if !ours(c.Webhook) {
			continue
		}
		body, err := r.reviewOf(documents[i])
		if err != nil {
			return "the object cannot be sent to usher"
		}
		call := report.Call{Path: webhooks.PathOf(c.Webhook), Round: c.Round + 1, Outcome: "allowed", Patch: c.Patch, Review: body}
		if call.Path == r.refused.Path {
			call.Outcome = r.refused.Outcome
		} else if len(c.Patch) > 0 {
			call.Outcome = "mutated"
		}
		r.calls = append(r.calls, call)
	}
	return ""
}

func (r *recording) review(object json.RawMessage) (why string) {
	var err error
	if r.body, err = r.reviewOf(object); err != nil {
		return "the object cannot be sent to usher"
	}
	return ""
}

// reviewOf returns the AdmissionReview for an object.
func (r *recording) reviewOf(object json.RawMessage) ([]byte, error) {
	e, req := r.event, admissionv1.AdmissionRequest{}
	who := e.User
	if e.ImpersonatedUser != nil {
		who = *e.ImpersonatedUser
	}
	asked, _ := r.asked()
	req.UID, req.Operation, req.SubResource, req.Name = types.UID(cmp.Or(e.AuditID, "replay")), asked.Operation, asked.SubResource, r.name
	req.Kind, req.Resource = metav1.GroupVersionKind(r.kind), asked.Resource
	req.RequestKind, req.RequestResource, req.RequestSubResource = &req.Kind, &req.Resource, req.SubResource
	if req.Namespace = asked.Namespace; req.Resource.Resource == "namespaces" {
		req.Namespace = r.name
	}
	req.UserInfo = authenticationv1.UserInfo{Username: who.Username, UID: who.UID, Groups: who.Groups}
	for key, values := range who.Extra {
		if req.UserInfo.Extra == nil {
			req.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
		}
		req.UserInfo.Extra[key] = values
	}
	req.Object, req.DryRun = runtime.RawExtension{Raw: object}, new(e.DryRun())
	if asked.Operation != admissionv1.Create {
		req.OldObject.Raw = r.old
	}
	is := metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}
	return json.Marshal(admissionv1.AdmissionReview{TypeMeta: is, Request: &req})
}
