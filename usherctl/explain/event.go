// Package explain is `usherctl explain`: it says why an object is as it is, or why it is not: which webhooks changed it, from the audit events of
// an API server, what a refusal means, from its message, and why the pods of a workload do not come.
package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Event is a completed request, as the API server's audit log has it. It has only the fields that are read here.
type Event struct {
	Place Place `json:"-"`
	// before is the event with the object as it was before, if the log has both.
	before *Event

	AuditID    string `json:"auditID"`
	Level      string `json:"level"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`

	User             user      `json:"user"`
	ImpersonatedUser *user     `json:"impersonatedUser"`
	ObjectRef        objectRef `json:"objectRef"`
	ResponseStatus   status    `json:"responseStatus"`
	Received         time.Time `json:"requestReceivedTimestamp"`

	// RequestObject is the object that was sent, or the patch for the verb patch. ResponseObject is the stored object.
	RequestObject  json.RawMessage `json:"requestObject"`
	ResponseObject json.RawMessage `json:"responseObject"`

	Annotations map[string]string `json:"annotations"`
}

// Place is the position at which an event was read.
type Place struct {
	File string
	Line int
}

// String returns the place, such as audit.log:12.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

type user = authenticationv1.UserInfo

type objectRef struct {
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	UID         string `json:"uid"`
}

type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// decodeLine reads one line: an event, or if route and verdict say so, a line of usher's own audit log.
func decodeLine(raw []byte) (e Event, own bool, err error) {
	var line struct {
		Kind       string  `json:"kind"`
		APIVersion string  `json:"apiVersion"`
		Route      *string `json:"route"`
		Verdict    *string `json:"verdict"`
		Event
	}
	err = json.Unmarshal(raw, &line)
	if _, isSyntax := errors.AsType[*json.SyntaxError](err); isSyntax {
		return e, false, errors.New("is not JSON")
	}
	switch {
	case line.Route != nil && line.Verdict != nil:
		return e, true, nil
	case line.Kind != "Event" || !strings.HasPrefix(line.APIVersion, "audit.k8s.io/"):
		return e, false, errors.New("is not an audit event of an API server, which has kind: Event and apiVersion: audit.k8s.io/v1")
	case err != nil:
		return e, false, errors.New("is an audit event with a field of a wrong type")
	}
	return line.Event, false, nil
}

// mutatingVerbs are the verbs of requests that admission may change or refuse.
var mutatingVerbs = []string{"create", "update", "patch", "delete", "deletecollection", "connect"}

// complete reports whether the event is the last of its request. Others have no answer, and few annotations.
func (e *Event) complete() bool { return e.Stage == "ResponseComplete" || e.Stage == "Panic" }

// head holds the fields of an object that are needed to find it.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		GenerateName    string `json:"generateName"`
		Namespace       string `json:"namespace"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// heads returns the heads of what was sent and what was stored; empty ones for what is not recorded. A patch is not the
// object.
func (e *Event) heads() (sent, stored head) {
	if e.Verb != "patch" {
		_ = json.Unmarshal(e.RequestObject, &sent)
	}
	_ = json.Unmarshal(e.ResponseObject, &stored)
	return sent, stored
}

// Name returns the name of the object, or its generateName and a star if the event does not have the name.
func (e *Event) Name() string {
	sent, stored := e.heads()
	switch {
	case e.ObjectRef.Name != "":
		return e.ObjectRef.Name
	case stored.Metadata.Name != "" && stored.Kind != "Status":
		return stored.Metadata.Name
	case sent.Metadata.Name == "" && sent.Metadata.GenerateName != "":
		return sent.Metadata.GenerateName + "*"
	}
	return sent.Metadata.Name
}

// Kind returns the kind of the object, or its resource if the event does not have the kind, with the subresource.
func (e *Event) Kind() string {
	sent, stored := e.heads()
	kind := e.ObjectRef.Resource
	for _, known := range []string{stored.Kind, sent.Kind} {
		if known != "" && known != "Status" && known != "DeleteOptions" {
			kind = known
		}
	}
	if e.ObjectRef.Subresource != "" {
		kind += "/" + e.ObjectRef.Subresource
	}
	return kind
}

// Filter says which events are wanted. What is empty is no condition.
type Filter struct {
	Namespace, Name, UID string
	Refusal              string
	// Kind is a resource or a kind, such as pods, pod or Pod, also with a subresource: pods/status.
	Kind string
}

// Matches reports whether an event is a completed request that the filter is for.
func (f Filter) Matches(e *Event) bool {
	return e.complete() && slices.Contains(mutatingVerbs, e.Verb) &&
		(f.Namespace == "" || e.ObjectRef.Namespace == f.Namespace) && f.ofName(e) && f.ofUID(e) && f.ofKind(e) && f.ofRefusal(e)
}

func (f Filter) ofName(e *Event) bool {
	if f.Name == "" {
		return true
	}
	name := e.Name()
	return name == f.Name || Generated(name, f.Name)
}

// Generated reports whether a name may have been made of a generateName, which has a star at its end here. The API
// server appends five characters, and cuts off what is too long before.
func Generated(generateName, name string) bool {
	prefix, isGenerated := strings.CutSuffix(generateName, "*")
	const suffix, most = 5, 63 - 5
	return isGenerated && len(name) > suffix && name[:len(name)-suffix] == prefix[:min(len(prefix), most)]
}

func (f Filter) ofUID(e *Event) bool {
	sent, stored := e.heads()
	return f.UID == "" || f.UID == e.ObjectRef.UID || f.UID == stored.Metadata.UID || f.UID == sent.Metadata.UID
}

func (f Filter) ofKind(e *Event) bool {
	if f.Kind == "" {
		return true
	}
	want, sub, hasSub := strings.Cut(strings.ToLower(f.Kind), "/")
	if hasSub && sub != e.ObjectRef.Subresource {
		return false
	}
	kind, _, _ := strings.Cut(e.Kind(), "/")
	return want == e.ObjectRef.Resource || want == strings.ToLower(kind) || want+"s" == e.ObjectRef.Resource
}

func (f Filter) ofRefusal(e *Event) bool {
	if f.Refusal == "" || strings.Contains(e.ResponseStatus.Message, "refusal "+f.Refusal) {
		return true
	}
	for key, value := range e.Annotations {
		if strings.HasSuffix(key, "/refusal") && value == f.Refusal {
			return true
		}
	}
	return false
}
