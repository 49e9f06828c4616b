package explain

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/webhookmatch"
)

// The templates of kubectl get that print one line for each webhook, matchCondition or conversion webhook.
const (
	callsTemplate = `{{range .items}}{{$c := .}}{{range .webhooks}}{{$c.kind}} {{$c.metadata.name}}, webhook {{.name}}: ` + clientTemplate +
		`{{"\n"}}{{end}}{{end}}`

	conditionsTemplate = `{{range .items}}{{$c := .}}{{range .webhooks}}{{$w := .}}{{range .matchConditions}}{{$c.kind}} {{$c.metadata.name}}, ` +
		`webhook {{$w.name}}, matchCondition {{.name}}: {{.expression}}{{"\n"}}{{end}}{{end}}{{end}}`

	conversionsTemplate = `{{range .items}}{{.metadata.name}} {{.spec.names.kind}}: {{with .spec.conversion.webhook}}` + clientTemplate +
		`{{end}}{{"\n"}}{{end}}`

	clientTemplate = `{{with .clientConfig.service}}service {{.namespace}}/{{.name}}{{with .path}} {{.}}{{end}}{{end}}{{with ` +
		`.clientConfig.url}}{{.}}{{end}}`
)

const getConfigurations = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o go-template="

var (
	// reason matches the reason of a failed call, which begins like a request unless the server has answered.
	reason   = regexp.MustCompile(notCalled.String() + `: (?:failed to call webhook: )?(Post "|could not get REST client: |[^\s])`)
	timedOut = regexp.MustCompile(`(?:context deadline exceeded|Client\.Timeout exceeded|request canceled)[^"]*$`)
	// dialled matches a timeout before the request was sent.
	dialled = regexp.MustCompile(`dial tcp|TLS handshake timeout`)
	// seenByDoctor matches the answers of usher that usherctl doctor looks into: a wrong path, and that usher is not ready.
	seenByDoctor = regexp.MustCompile(`the server (?:could not find the requested resource|is currently unable)`)
	// inCluster matches the Service in the URL of a request.
	inCluster = regexp.MustCompile(`Post "https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc[:/]`)
)

// answered reports whether a call failed though the server was reached: its answer is an error, or no review.
func answered(text string) bool {
	why := reason.FindStringSubmatch(text)
	return why != nil && len(why[2]) == 1 && !timedOut.MatchString(text)
}

// registered returns the registered webhooks that a refusal may be of.
func (p Policy) registered(refusal Refusal) (all []webhookmatch.Hook) {
	if p.Hooks == nil || !slices.Contains([]string{ByCall, ByCondition, ByWebhook}, refusal.By) {
		return nil
	}
	return slices.DeleteFunc(p.Hooks(), func(h webhookmatch.Hook) bool { return !refusal.mayBeOf(h) })
}

// mayBeOf reports whether a webhook may have refused, or may be the one because of which the API server has.
func (r Refusal) mayBeOf(h webhookmatch.Hook) bool {
	ignores := h.FailurePolicy != nil && *h.FailurePolicy == registration.Ignore
	switch r.By {
	case ByWebhook:
		return h.Name == r.Name
	case ByCall:
		return !ignores && h.Name == r.Name
	}
	return !ignores && slices.ContainsFunc(h.MatchConditions, func(c registration.MatchCondition) bool { return c.Expression == r.Expression })
}

// onDisk changes a finding with a command that shows webhook configurations, if one of the webhooks is in a file of the API server, which
// kubectl does not show: its command opens the first such file.
func onDisk(f report.Finding, hooks []webhookmatch.Hook) report.Finding {
	i := slices.IndexFunc(hooks, isOnDisk)
	if i < 0 || !strings.Contains(f.Look, "webhookconfiguration") {
		return f
	}
	f.Message += ". " + nameOf(hooks[i]) + " is in a file of the API server, and every API server has its own"
	f.Look = "${EDITOR:-vi} " + report.Word(hooks[i].File)
	return f
}

func isOnDisk(h webhookmatch.Hook) bool { return h.File != "" }

// nameOf names a registered webhook with its configuration.
func nameOf(h webhookmatch.Hook) string {
	return kindOfHook(h) + " " + h.Configuration + ", webhook " + h.Name
}

func kindOfHook(h webhookmatch.Hook) string {
	if h.Mutating {
		return "MutatingWebhookConfiguration"
	}
	return "ValidatingWebhookConfiguration"
}

// conditionFailed names the webhooks whose matchCondition could not be evaluated, as far as they are known, and says where to look.
func conditionFailed(refusal Refusal, hooks []webhookmatch.Hook) (object, message, look string) {
	var names []string
	for _, h := range hooks {
		names = append(names, nameOf(h))
	}
	message = "no rule refused this: a webhook's matchConditions could not be evaluated for the object, and its failurePolicy is Fail. has() or " +
		".?field.orValue() in the expression mends that; usherctl doctor --cluster=api -f FILE shows the value for an object"
	if len(hooks) == 1 {
		return names[0], message, "kubectl get " + strings.ToLower(kindOfHook(hooks[0])) + " " + report.Word(hooks[0].Configuration) + " -o yaml"
	}
	if len(hooks) == 0 {
		message += ". The API server does not name the webhook"
	}
	return strings.Join(names, "; "), message, getConfigurations + report.Word(conditionsTemplate) + " | grep -F -e " + report.Word(refusal.Expression)
}

// notCalledBecause says what is known of a call that failed, and returns the command that can show more: usherctl doctor sees what keeps
// the API server from reaching a server, but sends it no review.
func notCalledBecause(refusal Refusal, hooks []webhookmatch.Hook) (message, look string) {
	server := "its server"
	if len(hooks) > 0 {
		server += " (" + targetOf(hooks[0]) + ")"
	}
	doctor := doctorOf(hooks)
	switch ushers := strings.HasSuffix(refusal.Name, ".usher.dev"); {
	case otherVersion.MatchString(refusal.Text):
		message = "no rule refused this: " + server + " was reached, and answered with another version of AdmissionReview than it was sent; its " +
			"failurePolicy is Fail. Its admissionReviewVersions may have only versions that it answers with"
		return message, getConfigurations + report.Word(callsTemplate) + " | grep -F -e " + report.Word(refusal.Name)
	case answered(refusal.Text):
		message = "no rule refused this: " + server + " was reached, and its answer is an error, or no review; its failurePolicy is Fail. Its path may " +
			"be wrong, or its log says why"
		if ushers && seenByDoctor.MatchString(refusal.Text) {
			return message, doctor
		}
		return message, lookAtServer(refusal, hooks)
	case timedOut.MatchString(refusal.Text) && !dialled.MatchString(refusal.Text):
		message = "no rule refused this: " + server + " has not answered within timeoutSeconds, and its failurePolicy is Fail. It is slow or " +
			"overloaded, or cannot be reached, which " + doctor + " can show"
		return message, lookAtServer(refusal, hooks)
	}
	message = "no rule refused this: the API server could not call the webhook, and its failurePolicy is Fail"
	for _, c := range causes {
		if c.text.MatchString(refusal.Text) {
			message += ". " + c.says
			if namespace, name, known := serviceOf(refusal, hooks); c.look != "" && known {
				return message, fmt.Sprintf(c.look, report.Word(namespace), report.Word(name))
			}
			return message, doctor
		}
	}
	return message, doctor
}

// causes explain failed calls by the error at the end of the message. look is a command for the Service; if empty, usherctl doctor is named.
var causes = []struct {
	text       *regexp.Regexp
	says, look string
}{
	{regexp.MustCompile(`x509: certificate has expired|is not yet valid`), "The server's certificate is out of date: renew it", ""},
	{regexp.MustCompile(`x509: certificate is (?:valid for|not valid for)|x509: certificate relies on|x509: cannot validate`),
		"The server's certificate is for another name than that of its Service: issue it for NAME.NAMESPACE.svc", ""},
	{regexp.MustCompile(`x509: `),
		"The caBundle of the webhook does not verify the server's certificate: it is of another CA, or the server has another certificate now", ""},
	{regexp.MustCompile(`no endpoints available for service|connect: connection refused`),
		"No pod of its Service answers: none is ready, the Service's selector matches none, or nothing listens at the port", endpointSlices},
	{regexp.MustCompile(`service "[^"]+" not found`), "Its Service does not exist", "kubectl get services -n %s %s"},
	{regexp.MustCompile(`no such host`), "The name of the server in the URL is not known to the API server's DNS", ""},
	{regexp.MustCompile(`i/o timeout|TLS handshake timeout|deadline exceeded|no route to host`),
		"No connection came about: a NetworkPolicy or firewall may drop it, or the server is overloaded", ""},
}

const endpointSlices = "kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s"

// serviceOf returns the Service that a call was for.
func serviceOf(refusal Refusal, hooks []webhookmatch.Hook) (namespace, name string, known bool) {
	for _, h := range hooks {
		if of := h.ClientConfig.Service; of != nil {
			return of.Namespace, of.Name, true
		}
	}
	if of := inCluster.FindStringSubmatch(refusal.Text); of != nil {
		return of[2], of[1], true
	}
	return "", "", false
}

// doctorOf returns the command that examines webhooks, also those in files of the API server.
func doctorOf(hooks []webhookmatch.Hook) string {
	if i := slices.IndexFunc(hooks, isOnDisk); i >= 0 {
		return "usherctl doctor --cluster=api --static-dir " + report.Word(filepath.Dir(hooks[i].File))
	}
	return "usherctl doctor --cluster=api"
}

// lookAtServer returns the command that shows the log of a webhook's server, tries the same again, or shows what is called.
func lookAtServer(refusal Refusal, hooks []webhookmatch.Hook) string {
	if namespace, name, known := serviceOf(refusal, hooks); known {
		return fmt.Sprintf("kubectl logs -n %s service/%s --tail=100", report.Word(namespace), report.Word(name))
	}
	switch {
	case len(hooks) == 0 && strings.HasSuffix(refusal.Name, ".usher.dev"):
		return "kubectl -n usher logs deployment/usher"
	case refusal.Namespace != "":
		return "usherctl doctor --cluster=api --canary -n " + report.Word(refusal.Namespace)
	}
	return getConfigurations + report.Word(callsTemplate) + " | grep -F -e " + report.Word(refusal.Name)
}

// targetOf names what a webhook calls.
func targetOf(h webhookmatch.Hook) string {
	c := h.ClientConfig
	if c.Service == nil && c.URL != nil {
		return *c.URL
	}
	if c.Service == nil {
		return "none"
	}
	target := "Service " + c.Service.Namespace + "/" + c.Service.Name
	if c.Service.Path != nil {
		target += ", path " + *c.Service.Path
	}
	return target
}
