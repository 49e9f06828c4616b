package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/command/doctor/reach"
	"usher.dev/usher/command/review"
	"usher.dev/usher/server/webhooks"
)

// The kinds of webhook configurations.
const (
	mutatingKind   = "MutatingWebhookConfiguration"
	validatingKind = "ValidatingWebhookConfiguration"
)

// entry is a webhook of a configuration, in the form of a mutating one.
type entry struct {
	kind          string
	configuration metav1.ObjectMeta
	index         int // in the configuration
	webhooks.Hook
}

// readWebhooks decodes a configuration.
func readWebhooks(kind string, raw []byte) (all []entry, err error) {
	var c struct {
		Metadata metav1.ObjectMeta
		Webhooks []webhooks.Hook
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	for i, hook := range c.Webhooks {
		all = append(all, entry{kind, c.Metadata, i, hook})
	}
	return all, nil
}

// object returns what findings say that they are about.
func (w entry) object() string {
	return fmt.Sprintf("%s %s, webhook %s", w.kind, w.configuration.Name, w.Name)
}

func (w entry) mutating() bool { return w.kind == mutatingKind }

// fails reports whether requests are refused while the webhook does not answer.
func (w entry) fails() bool { return w.FailurePolicy == nil || *w.FailurePolicy == registration.Fail }

// consequence says what becomes of requests that the webhook is called for while that is not possible.
func (w entry) consequence() string {
	if w.fails() {
		return "With failurePolicy Fail, the requests that it is for are refused."
	}
	return "With failurePolicy Ignore, the requests that it is for pass as if it did not exist."
}

// timeout returns for how many seconds the API server waits for an answer.
func (w entry) timeout() int32 {
	if w.TimeoutSeconds == nil {
		return 10
	}
	return *w.TimeoutSeconds
}

// ushers reports whether usher registers the webhook.
func (w entry) ushers() bool {
	return w.configuration.Name == webhooks.Name && strings.HasSuffix(w.Name, ".usher.dev")
}

// called returns what the reachability of the webhook depends on.
func (w entry) called() reach.Webhook {
	return reach.Webhook{Client: w.ClientConfig, Annotations: w.configuration.Annotations, Ushers: w.ushers(), Consequence: w.consequence()}
}

// reached returns the finding for a problem of reachability.
func (w entry) reached(p *reach.Problem) review.Finding {
	return milder(problem(p.ID, subject{entry: w, Subject: p.Subject}, "%s", p.Text), p.Severity)
}

// path returns the path that is called.
func (w entry) path() string {
	if s := w.ClientConfig.Service; s != nil && s.Path != nil {
		return *s.Path
	}
	if w.ClientConfig.URL != nil {
		_, after, _ := strings.Cut(*w.ClientConfig.URL, "://")
		if i := strings.Index(after, "/"); i >= 0 {
			return after[i:]
		}
	}
	return "/"
}

// report returns the report of the webhook, with its findings in order.
func (w entry) report(found []review.Finding) review.Report {
	r := review.Report{Subject: review.Subject{Kind: w.kind, Name: w.configuration.Name, Webhook: w.Name}}
	for _, f := range found {
		f.Object = w.object()
		r.Findings = append(r.Findings, f)
	}
	return judged(r)
}

// judged sorts the findings of a report, and sets its verdict.
func judged(r review.Report) review.Report {
	slices.SortStableFunc(r.Findings, compare)
	r.Verdict = review.VerdictOf(r.Findings)
	return r
}

// patch returns the command that sets a field of the webhook, such as "timeoutSeconds" or "rules.0.resources.1". It
// changes nothing if the webhooks of the configuration have moved.
func (w entry) patch(field string, value any) string {
	at, operation := fmt.Sprintf("/webhooks/%d/", w.index), "add" // also replaces a member
	if last := field[strings.LastIndex(field, ".")+1:]; last[0] >= '0' && last[0] <= '9' {
		operation = "replace" // an element of a list
	}
	text, _ := json.Marshal([]map[string]any{
		{"op": "test", "path": at + "name", "value": w.Name},
		{"op": operation, "path": at + strings.ReplaceAll(field, ".", "/"), "value": value},
	})
	return fmt.Sprintf("kubectl patch %s %s --type=json -p %s", strings.ToLower(w.kind), review.Word(w.configuration.Name), review.Word(string(text)))
}

// remove returns the command that removes the whole configuration.
func (w entry) remove() string {
	return "kubectl delete " + strings.ToLower(w.kind) + " " + review.Word(w.configuration.Name)
}

// edit returns the command with which a person corrects what no command can know.
func (w entry) edit() string {
	return "kubectl edit " + strings.ToLower(w.kind) + " " + review.Word(w.configuration.Name)
}

// show returns the command that prints the configuration.
func (w entry) show() string {
	return "kubectl get " + strings.ToLower(w.kind) + " " + review.Word(w.configuration.Name) + " -o yaml"
}
