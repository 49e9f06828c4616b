package main

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/certs"
	"usher.dev/usher/colocation/collections"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
)

// configurationName is the name of both webhook configurations.
const configurationName = "usher"

// address is where the API server reaches usher: a Service, or a URL.
type address struct {
	namespace, service string
	url                string
	caBundle           []byte
	user               string   // who usher is for the API server
	excluded           []string // the namespaces whose pods are left alone, beside kube-system and usher's own
}

// printWebhooks prints the configurations that make an API server call usher, or the rights that usher needs there.
func printWebhooks(_ context.Context, args []string, io stdio) error {
	set := flags("webhooks", io)
	service := set.String("service", "usher/usher", "the Service, as namespace/name")
	base := set.String("url", "", "call this URL instead of a Service, such as https://127.0.0.1:9443")
	user := set.String("user", "", "who usher is for the API server (default: the service account usher in the Service's namespace)")
	caFile := set.String("ca-file", "", "PEM file with the CA of the serving certificate; left out, the caBundle is left out")
	suites := set.StringSlice("suite", []string{string(handlers.Tutorial)}, "which routes: tutorial (what is labelled admission-webhook: enabled), "+
		"colocation (all namespaces but kube-system and usher's own), or both with a comma")
	excluded := set.StringArray("exclude-namespace", nil, "leave the pods of this namespace alone, so that they come back without usher; may be repeated")
	failClosed := set.StringSlice("fail-closed", nil, "paths whose requests are refused while usher does not answer, beside those of which that is the default; "+
		"such as /validate-pod-binding; never those of heartbeats")
	rbac := set.Bool("rbac", false, "print the ClusterRole for --cluster=api instead")
	var source clusterOptions
	source.addRulesTo(set)
	featureGates := gatesFlag(set)
	if err := parseAll(set, args); err != nil {
		return err
	}
	open, err := parseGates(*featureGates)
	if err != nil {
		return err
	}
	if *rbac {
		return writeYAML(io.out, clusterRole(source, routes(world{policy: &config.Policy{}, gates: open, known: source})))
	}
	at, err := newAddress(*service, *base, *caFile)
	if err != nil {
		return err
	}
	if at.excluded, err = excludedNamespaces(*excluded); err != nil {
		return err
	}
	at.user = cmp.Or(*user, "system:serviceaccount:"+at.namespace+":usher")
	served, err := ofSuites(routes(world{policy: &config.Policy{}, gates: open, known: source}), *suites)
	if err != nil {
		return err
	}
	if err := closeFailing(served, *failClosed); err != nil {
		return err
	}
	return writeYAML(io.out, mutatingConfiguration(served, at), validatingConfiguration(served, at))
}

// closeFailing sets failurePolicy Fail for the routes of those paths.
func closeFailing(routes []handlers.Route, paths []string) error {
	for _, path := range paths {
		i := slices.IndexFunc(routes, func(r handlers.Route) bool { return r.Path == path })
		switch {
		case i < 0:
			return fmt.Errorf("--fail-closed %s: --suite and --feature-gates register no such path", path)
		case routes[i].Heartbeat():
			return fmt.Errorf("--fail-closed %s: a node's heartbeat must pass whether usher answers or not", path)
		}
		routes[i].FailurePolicy = registration.Fail
	}
	return nil
}

// ofSuites are the routes of the named suites.
func ofSuites(all []handlers.Route, names []string) (chosen []handlers.Route, err error) {
	for _, name := range names {
		if suite := handlers.Suite(name); suite != handlers.Tutorial && suite != handlers.Colocation {
			return nil, fmt.Errorf("--suite %q: must be %s or %s", name, handlers.Tutorial, handlers.Colocation)
		}
	}
	for _, r := range all {
		if slices.Contains(names, string(r.Suite)) {
			chosen = append(chosen, r)
		}
	}
	return oneAmplifier(chosen), nil
}

// oneAmplifier leaves one route for heartbeats, the last: two amplifiers on one node would compound.
func oneAmplifier(routes []handlers.Route) []handlers.Route {
	last := -1
	for i, r := range routes {
		if r.Heartbeat() {
			last = i
		}
	}
	var kept []handlers.Route
	for i, r := range routes {
		if !r.Heartbeat() || i == last {
			kept = append(kept, r)
		}
	}
	return kept
}

// clusterRole is what usher may do with --cluster=api: watch what its steps need, write the records of its quota ledger if it has one, and
// look whether Koordinator's webhooks stand there.
func clusterRole(source clusterOptions, served []handlers.Route) rbacv1.ClusterRole {
	rules := source.watchOptions(served).Rules()
	if holdsPods(served) {
		rules = append(rules, collections.WriteRule())
	}
	return rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: configurationMeta(),
		Rules:      append(rules, collections.RivalRule()),
	}
}

func newAddress(service, base, caFile string) (a address, err error) {
	if _, err := certs.ServiceNames(service); err != nil || service == "" {
		return a, fmt.Errorf("--service %q: must be namespace/name", service)
	}
	a.namespace, a.service, _ = strings.Cut(service, "/")
	if a.url = strings.TrimSuffix(base, "/"); a.url != "" {
		if parsed, err := url.Parse(a.url); err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
			return a, fmt.Errorf("--url %q: must be https://host[:port][/path], as the API server wants it", base)
		}
	}
	if caFile == "" {
		return a, nil
	}
	if a.caBundle, err = os.ReadFile(caFile); err != nil {
		return a, err
	}
	if block, _ := pem.Decode(a.caBundle); block == nil || block.Type != "CERTIFICATE" {
		return a, fmt.Errorf("--ca-file %s: holds no PEM certificate first", caFile)
	}
	if strings.Contains(string(a.caBundle), "PRIVATE KEY") {
		return a, errors.New("--ca-file " + caFile + ": holds a private key; only certificates belong into a caBundle")
	}
	return a, nil
}

func mutatingConfiguration(routes []handlers.Route, at address) registration.MutatingWebhookConfiguration {
	c := registration.MutatingWebhookConfiguration{TypeMeta: configurationType("Mutating"), ObjectMeta: configurationMeta()}
	for _, r := range routes {
		if !r.Chain.Mutates() {
			continue
		}
		c.Webhooks = append(c.Webhooks, registration.MutatingWebhook{
			Name: r.Webhook(), ClientConfig: at.client(r.Path), Rules: rules(r), FailurePolicy: &r.FailurePolicy,
			MatchPolicy: new(registration.Equivalent), NamespaceSelector: namespaces(r, at), ObjectSelector: objects(r),
			SideEffects: new(r.SideEffects()), TimeoutSeconds: &r.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
			MatchConditions:    conditions(r, at),
			ReinvocationPolicy: &r.Reinvocation,
		})
	}
	return c
}

func validatingConfiguration(routes []handlers.Route, at address) registration.ValidatingWebhookConfiguration {
	c := registration.ValidatingWebhookConfiguration{TypeMeta: configurationType("Validating"), ObjectMeta: configurationMeta()}
	for _, r := range routes {
		if r.Chain.Mutates() {
			continue
		}
		c.Webhooks = append(c.Webhooks, registration.ValidatingWebhook{
			Name: r.Webhook(), ClientConfig: at.client(r.Path), Rules: rules(r), FailurePolicy: &r.FailurePolicy,
			MatchPolicy: new(registration.Equivalent), NamespaceSelector: namespaces(r, at), ObjectSelector: objects(r),
			SideEffects: new(r.SideEffects()), TimeoutSeconds: &r.TimeoutSeconds, AdmissionReviewVersions: []string{"v1"},
			MatchConditions: conditions(r, at),
		})
	}
	return c
}

func configurationType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: registration.SchemeGroupVersion.String(), Kind: kind + "WebhookConfiguration"}
}

func configurationMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: configurationName, Labels: map[string]string{"app.kubernetes.io/name": "usher"}}
}

func (a address) client(path string) registration.WebhookClientConfig {
	if a.url != "" {
		return registration.WebhookClientConfig{URL: new(a.url + path), CABundle: a.caBundle}
	}
	return registration.WebhookClientConfig{CABundle: a.caBundle, Service: &registration.ServiceReference{
		Namespace: a.namespace, Name: a.service, Path: &path, Port: new(int32(443))}}
}

func rules(r handlers.Route) []registration.RuleWithOperations {
	rule := registration.Rule{APIGroups: []string{r.For.Kind.Group}, APIVersions: []string{r.For.Kind.Version}, Resources: r.For.Resources, Scope: &r.For.Scope}
	var operations []registration.OperationType
	for _, o := range r.For.Operations {
		operations = append(operations, registration.OperationType(o))
	}
	return []registration.RuleWithOperations{{Operations: operations, Rule: rule}}
}

// conditions are the route's, one that leaves usher's own requests out, and one that leaves out updates of what no step reads.
func conditions(r handlers.Route, at address) []registration.MatchCondition {
	all := slices.Clip(r.Conditions)
	if r.NotForUsher {
		all = append(all, registration.MatchCondition{
			Name: "not-usher", Expression: fmt.Sprintf("request.userInfo.username != %q", at.user)})
	}
	if len(r.Reads) > 0 {
		all = append(all, registration.MatchCondition{Name: "changed", Expression: changed(r.Reads)})
	}
	return all
}

// optIn is the label by which namespaces and nodes opt in to the tutorial suite.
var optIn = map[string]string{"admission-webhook": "enabled"}

// objects lets nodes opt in to the tutorial suite.
func objects(r handlers.Route) *metav1.LabelSelector {
	if r.Suite == handlers.Tutorial && r.For.Scope == registration.ClusterScope {
		return &metav1.LabelSelector{MatchLabels: optIn}
	}
	return nil
}

func writeYAML(to io.Writer, objects ...any) error {
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
	return nil
}
