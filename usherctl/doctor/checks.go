package doctor

import (
	"fmt"
	"slices"

	"usher.dev/usher/usherctl/report"
)

// Check is a kind of findings.
type Check struct {
	ID       string          `json:"id"`       // also the anchor of its section in docs/troubleshooting.md
	Severity report.Severity `json:"severity"` // the worst that a finding has
	Doc      string          `json:"doc"`
	command  func(subject) command
}

// checks are in the order of their weight, those that cause others first: findings of the same severity are in this order.
var checks = []Check{
	{"service-missing", report.Error, "the Service that a webhook calls does not exist", removeOrphan},
	{"service-headless", report.Error, "the Service that a webhook calls has no ClusterIP", showCalled},
	{"service-port-missing", report.Error, "the Service that a webhook calls does not have the port", setPort},
	{"service-external-name", report.Warning, "the Service that a webhook calls is an ExternalName", showCalled},
	{"no-endpoints", report.Error, "no pod is behind the Service that a webhook calls", listPods},
	{"no-ready-endpoints", report.Error, "no pod behind the Service that a webhook calls is ready", listPods},
	{"some-endpoints-down", report.Error, "some pods behind the Service that a webhook calls are not ready, or do not answer", listPods},
	{"url-invalid", report.Error, "the URL of a webhook is not one that an API server can call", show},
	{"url-host-unknown", report.Error, "the host in the URL of a webhook is not known", showCalled},
	{"connection-refused", report.Error, "nothing listens where a webhook should be", showCalled},
	{"plain-http", report.Error, "the server of a webhook speaks HTTP, not HTTPS", showCalled},
	{"handshake-timeout", report.Error, "the server of a webhook does not answer a TLS handshake", showCalled},
	{"handshake-failed", report.Error, "the server of a webhook ends the TLS handshake", showCalled},
	{"ca-bundle-missing", report.Error, "the caBundle of a webhook is empty", replaceBundle},
	{"ca-bundle-invalid", report.Error, "the caBundle of a webhook holds something else than certificates", replaceBundle},
	{"ca-bundle-private-key", report.Error, "the caBundle of a webhook holds a private key", replaceBundle},
	{"ca-source-missing", report.Warning, "what cert-manager is to fill in a caBundle from does not exist", show},
	{"certificate-expired", report.Error, "the certificate of a webhook has expired", replaceCertificate},
	{"certificate-not-yet-valid", report.Error, "the certificate of a webhook, or its CA, is not valid yet", replaceEarly},
	{"ca-expired", report.Error, "the CA of a webhook has expired", replaceCA},
	{"ca-bundle-mismatch", report.Error, "the caBundle of a webhook does not verify its certificate", replaceBundle},
	{"certificate-common-name-only", report.Error, "the certificate of a webhook names its host only as the common name", replaceCertificate},
	{"certificate-name", report.Error, "the certificate of a webhook is for another host", replaceCertificate},
	{"certificate-usage", report.Error, "the certificate of a webhook is not for servers", replaceCertificate},
	{"match-condition-invalid", report.Error, "a match condition does not compile", restoreOr(edit)},
	{"match-condition-never", report.Error, "a match condition is false for every request (of webhooks of others: a warning)", restoreOr(edit)},
	{"match-condition-fails", report.Error, "a match condition has no result for requests, which are refused", restoreOr(edit)},
	{"usher-policy-unusable", report.Error, "the policy of usher's Deployment is missing or not valid", correctPolicy},
	{"usher-not-deployed", report.Warning, "usher's Service has no Deployment", func(subject) command {
		return look("kubectl get deployments,daemonsets,statefulsets --all-namespaces -l app.kubernetes.io/name=usher", "")
	}},
	{"usher-pods-refused", report.Error, "the API server refuses the pods of usher's Deployment", list("events --field-selector reason=FailedCreate")},
	{"usher-replicas", report.Error, "usher's Deployment has no replicas, or one", scale},
	{"usher-idle", report.Warning, "the policy and the gates of usher switch every step off", correctPolicy},
	{"usher-steps-differ", report.Warning, "usher runs other steps, or in other modes, than this usherctl", showImage},
	{"usher-path-unknown", report.Error, "usher does not serve the path of its webhook", subject.restore},
	{"usher-path-differs", report.Error, "a webhook of usher calls the path of another one", subject.restore},
	{"usher-servers-differ", report.Warning, "webhooks of usher call different servers", subject.restore},
	{"registered-twice", report.Warning, "the same is registered twice, or a configuration has a name twice", removeTwins},
	{"two-amplifiers", report.Error, "two webhooks change the status of nodes, and their factors multiply", removeAmplifier},
	{"koordinator-beside-usher", report.Error, "a webhook of Koordinator does what one of usher does", edit},
	{"policy-param-kind", report.Error, "the parameters of an admission policy are of a kind that is not served", show},
	{"policy-param-missing", report.Error, "the parameters that a binding names do not exist", show},
	{"fail-token-reviews", report.Error, "TokenReviews or SubjectAccessReviews are refused while a webhook does not answer", keepAway},
	{"fail-own-namespace", report.Error, "what brings back a webhook is refused while it does not answer", keepAway},
	{"fail-nodes", report.Error, "nodes cannot report while a webhook does not answer", keepAway},
	{"fail-leases", report.Error, "leases are refused while a webhook does not answer", keepAway},
	{"fail-kube-system", report.Error, "the pods of kube-system cannot be created while a webhook does not answer", keepAway},
	{"fail-control-plane", report.Error, "what a cluster needs to start or to be repaired is refused while a webhook does not answer", keepAway},
	{"fail-events", report.Warning, "events are lost while a webhook does not answer", keepAway},
	{"rule-unknown-resource", report.Error, "a rule names a resource that does not exist", restoreOr(edit)},
	{"rule-wrong-group", report.Error, "a rule names a resource in the wrong group", restoreOr(edit)},
	{"rule-wrong-version", report.Error, "a rule names a version that is not served", restoreOr(edit)},
	{"rule-wrong-scope", report.Error, "the scope of a rule is not that of its resource", restoreOr(edit)},
	{"rule-never-sent", report.Error, "a rule names an operation that does not occur", restoreOr(edit)},
	{"selector-no-namespace", report.Error, "a namespaceSelector matches no namespace, or is invalid", compareLabels},
	{"selector-near-miss", report.Warning, "the label of a namespace differs by one letter from that of a namespaceSelector", compareLabels},
	{"selector-no-effect", report.Warning, "a namespaceSelector has no effect on cluster-scoped objects", set},
	{"object-selector-never", report.Error, "an objectSelector asks for labels of objects that have none, or is invalid", restoreOr(edit)},
	{"usher-not-registered", report.Error, "usher needs a webhook that is not registered", subject.restore},
	{"usher-registration-differs", report.Warning, "a webhook of usher is not registered as its policy needs", subject.restore},
	{"usher-leaves-out", report.Warning, "a webhook of usher is registered for less than usher asks for", edit},
	{"usher-rights-missing", report.Error, "usher lacks rights that it needs", grant},
	{"usher-disruption-budget", report.Warning, "a PodDisruptionBudget keeps nodes with usher from being drained", list("poddisruptionbudgets -o yaml")},
	{"pod-runs-again", report.Warning, "the status of a pod that has ended says that it runs", removePod},
	{"match-policy-exact", report.Warning, "matchPolicy Exact misses versions of what a webhook is for", restoreOr(edit)},
	{"review-version-v1", report.Error, "admissionReviewVersions lacks v1", edit},
	{"side-effects", report.Warning, "a webhook that may have side effects refuses dry runs", restoreOr(edit)},
	{"pod-timeouts", report.Warning, "the timeouts of the webhooks for a pod are too long together", edit},
	{"rule-everything", report.Warning, "a rule matches every resource of every group", show},
	{"policy-missing", report.Warning, "a binding names an admission policy that does not exist", edit},
	{"policy-refuses", report.Error, "an admission policy refuses the request that a file stands for", show},
	{"certificate-expires-soon", report.Warning, "the certificate of a webhook expires soon", replaceCertificate},
	{"ca-expires-soon", report.Warning, "the CA of a webhook expires soon", replaceCA},
	{"ca-bundle-stale", report.Info, "the caBundle of a webhook also holds what has expired", replaceBundle},
	{"rule-not-installed", report.Info, "a rule is for a custom resource that is not installed", restoreOr(listResources)},
	{"policy-not-bound", report.Info, "an admission policy has no binding", show},
	{"timeout-long", report.Info, "requests wait long for a webhook that does not answer", edit},
	{"not-readable", report.Unknown, "a part of the cluster could not be read", checkRights},
	{"client-certificate-demanded", report.Unknown, "the server of a webhook demands a certificate of the API server", showCalled},
	{"certificate-not-seen", report.Unknown, "the certificate of a webhook could not be seen", findSecret},
}

// Checks returns the kinds of findings, those that cause others first.
func Checks() []Check { return slices.Clone(checks) }

// rank returns the position of a check; -1 if there is none with the id.
func rank(id string) int {
	return slices.IndexFunc(checks, func(c Check) bool { return c.ID == id })
}

// problem returns a finding of a check. Its object is filled in later.
func problem(id string, about subject, format string, args ...any) report.Finding {
	c := checks[rank(id)]
	f := report.Finding{ID: id, Severity: c.Severity, Message: fmt.Sprintf(format, args...), Link: "docs/troubleshooting.md#" + id}
	way := onDisk(about, c.command(about))
	if way.looks {
		f.Look = way.text
	} else {
		f.Fix = way.text
	}
	if way.todo != "" {
		f.Message += " " + way.todo
	}
	return f
}

// milder returns a finding with another severity than the worst of its check.
func milder(f report.Finding, severity report.Severity) report.Finding {
	f.Severity = severity
	return f
}

// severities are in the order in which findings are printed.
var severities = []report.Severity{report.Error, report.Unknown, report.Warning, report.Info}

// compare orders findings: the worst first, and of those the causes of others first.
func compare(a, b report.Finding) int {
	if d := slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity); d != 0 {
		return d
	}
	return rank(a.ID) - rank(b.ID)
}
