package doctor

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/doctor/connectivity"
	"usher.dev/usher/usherctl/report"
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
	index         int            // in the configuration
	siblings      int            // other webhooks of the configuration
	needed        *webhooks.Hook // as usher should be registered; nil: it is not usher's
	home          Usher          // the usher that is examined
	file          string         // of an API server, which has the configuration; empty: it is in the API
	webhooks.Hook
}

// readWebhooks decodes a configuration.
func readWebhooks(kind string, raw []byte) (all []entry, err error) {
	var c registration.MutatingWebhookConfiguration // the other kind has the same fields, but for one
	if err := reader.Decode(raw, &c); err != nil {
		return nil, err
	}
	if version := registrationGroup + "/v1"; c.APIVersion != "" && c.APIVersion != version { // lists of an API server leave it out
		return nil, &reader.MalformedError{Object: kind + " " + c.Name, Why: "no API server since Kubernetes 1.22 knows " + c.APIVersion +
			" of it: write " + version}
	}
	for i, hook := range c.Webhooks {
		all = append(all, entry{kind: kind, configuration: c.ObjectMeta, index: i, siblings: len(c.Webhooks) - 1, Hook: hook})
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

// differs reports whether a webhook of usher is not registered as usher needs it, as far as that is known.
func (w entry) differs() bool {
	return w.home.Unknown == nil && (w.needed == nil || len(webhooks.Lacks(*w.needed, w.Hook)) > 0)
}

// called returns what the reachability of the webhook depends on.
func (w entry) called() connectivity.Webhook {
	return connectivity.Webhook{Client: w.ClientConfig, Annotations: w.configuration.Annotations, Ushers: w.ushers(), Consequence: w.consequence()}
}

// calledBy returns what the reachability of webhooks depends on.
func calledBy(all []entry) (called []connectivity.Webhook) {
	for _, w := range all {
		called = append(called, w.called())
	}
	return called
}

// reached returns the finding for a problem of reachability.
func (w entry) reached(p *connectivity.Problem) report.Finding {
	return milder(problem(p.ID, subject{entry: w, Subject: p.Subject}, "%s", p.Text), p.Severity)
}

// pathOf returns the path that a client configuration calls: the API server calls a path without slashes at its end or side by side.
func pathOf(c registration.WebhookClientConfig) string {
	called := ""
	if s := c.Service; s != nil && s.Path != nil {
		called = *s.Path
	} else if c.URL != nil {
		_, after, _ := strings.Cut(*c.URL, "://")
		_, called, _ = strings.Cut(after, "/")
	}
	return path.Join("/", called)
}

// ushersPath returns the path of usher that the webhook calls. A URL may have a base before it.
func (w entry) ushersPath(all []string) (called string, is bool) {
	called = pathOf(w.ClientConfig)
	i := slices.IndexFunc(all, func(p string) bool { return p == called || w.ClientConfig.URL != nil && strings.HasSuffix(called, p) })
	if i < 0 {
		return called, false
	}
	return all[i], true
}

// report returns the report of the webhook, with its findings in order.
func (w entry) report(found []report.Finding) report.Report {
	r := report.Report{Subject: report.Subject{Source: w.file, Kind: w.kind, Name: w.configuration.Name, Webhook: w.Name}}
	for _, f := range found {
		f.Object = w.object()
		r.Findings = append(r.Findings, f)
	}
	return judged(r)
}

// judged sorts the findings of a report, and sets its verdict.
func judged(r report.Report) report.Report {
	slices.SortStableFunc(r.Findings, compare)
	r.Verdict = report.VerdictOf(r.Findings)
	return r
}

// patch returns the command that sets fields of the webhook.
func (w entry) patch(changes ...change) string {
	var all []map[string]any
	for _, c := range changes {
		operation := "add" // also replaces a member
		if last := c.field[strings.LastIndex(c.field, ".")+1:]; last[0] >= '0' && last[0] <= '9' {
			operation = "replace" // an element of a list
		}
		all = append(all, map[string]any{"op": operation, "path": w.path(c.field), "value": c.value})
	}
	return w.patched(all...)
}

// path returns where a field of the webhook, or of an admission policy or a binding, is in its object.
func (w entry) path(field string) string {
	name := strings.ReplaceAll(field, ".", "/")
	switch {
	case w.kind == mutatingKind || w.kind == validatingKind:
		return fmt.Sprintf("/webhooks/%d/%s", w.index, name)
	case field == "policyName":
		return "/spec/policyName"
	}
	name = strings.Replace(name, "rules/", "resourceRules/", 1)
	if strings.HasSuffix(w.kind, "Binding") {
		return "/spec/matchResources/" + name
	}
	return "/spec/matchConstraints/" + name
}

// patched returns the command that changes the configuration, unless its webhooks have moved.
func (w entry) patched(changes ...map[string]any) string {
	test := map[string]any{"op": "test", "path": w.path("name"), "value": w.Name}
	if w.Name == "" { // a policy or a binding
		test = map[string]any{"op": "test", "path": "/metadata/name", "value": w.configuration.Name}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // expressions have && in them
	_ = encoder.Encode(append([]map[string]any{test}, changes...))
	return fmt.Sprintf("kubectl patch %s %s --type=json -p %s", strings.ToLower(w.kind), report.Word(w.configuration.Name),
		report.Word(strings.TrimSpace(text.String())))
}

// drop returns the command that removes the webhook alone.
func (w entry) drop() string {
	return w.patched(map[string]any{"op": "remove", "path": strings.TrimSuffix(w.path(""), "/")})
}

// remove returns the command that removes the whole configuration.
func (w entry) remove() string {
	return "kubectl delete " + strings.ToLower(w.kind) + " " + report.Word(w.configuration.Name)
}

// openFile returns the command that opens the file with the configuration.
func (w entry) openFile() string { return "${EDITOR:-vi} " + report.Word(w.file) }

// edit returns the command with which a person corrects what no command can know.
func (w entry) edit() string {
	return "kubectl edit " + strings.ToLower(w.kind) + " " + report.Word(w.configuration.Name)
}

// show returns the command that prints the configuration.
func (w entry) show() string {
	return "kubectl get " + strings.ToLower(w.kind) + " " + report.Word(w.configuration.Name) + " -o yaml"
}
