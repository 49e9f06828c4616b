package kubetest

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"
)

const auditLog = "audit.log"

// AuditLog returns the path of the API server's audit log.
func (c *Cluster) AuditLog() string { return c.file(auditLog) }

// auditPolicyOf returns the audit policy with a level for pods and nodes; by default Request.
func auditPolicyOf(level string) string {
	if level == "" {
		return auditPolicy
	}
	return strings.Replace(auditPolicy, "level: Request", "level: "+level, 1)
}

// auditPolicy uses at least level Request where the log must contain the patches of webhooks.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  resources:
  - group: ""
    resources: [pods, pods/status, pods/binding, nodes, nodes/status]
- level: Metadata
`

// AuditEvent is a line of the API server's audit log.
type AuditEvent struct {
	Stage, Level, Verb, RequestURI, UserAgent string

	RequestReceivedTimestamp time.Time
	AuditID                  string
	User                     struct {
		Username string
		Groups   []string
	}
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }

	ResponseStatus struct {
		Code    int
		Reason  string
		Message string
	}
	RequestObject json.RawMessage   // an object, or a patch, which may be a list
	Annotations   map[string]string // including the webhooks', as WEBHOOK/KEY
}

// Audit returns the events that match, oldest first. The log is written before the response is sent, so an event exists
// when its request has returned.
func (c *Cluster) Audit(match func(AuditEvent) bool) ([]AuditEvent, error) {
	file, err := os.Open(c.file(auditLog))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var found []AuditEvent
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF { // an incomplete line is still being written
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		var event AuditEvent
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return nil, err
		}
		if match(event) {
			found = append(found, event)
		}
	}
}

// Of matches the completed requests of one verb for one object: resource is such as "pods" or "nodes/status".
func Of(verb, resource, name string) func(AuditEvent) bool {
	resource, subresource, _ := strings.Cut(resource, "/")
	return func(e AuditEvent) bool {
		return e.Stage == "ResponseComplete" && e.Verb == verb && e.ObjectRef.Resource == resource &&
			e.ObjectRef.Subresource == subresource && e.ObjectRef.Name == name
	}
}
