package command

import (
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	registration "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/certs"
	"usher.dev/usher/config"
	"usher.dev/usher/gate"
	"usher.dev/usher/handlers"
	"usher.dev/usher/suite"
)

// address is where the API server reaches usher: a Service, or a URL.
type address struct {
	namespace, service string
	url                string
	caBundle           []byte
	user               string   // who usher is for the API server
	excluded           []string // the namespaces whose pods are left alone, beside kube-system and usher's own
}

// webhooksOptions are the flags of usher webhooks.
type webhooksOptions struct {
	service, url, user, caFile   string
	config, compare              string
	suites, excluded, failClosed []string
	rbac                         bool
}

// webhooksCommand is `usher webhooks`: the configurations that make an API server call usher, or the rights that usher needs there.
func (p Program) webhooksCommand() *cobra.Command {
	var o webhooksOptions
	c := &cobra.Command{Use: "webhooks [flags]", Short: "print the webhook configurations for an API server", Args: cobra.NoArgs}
	o.addTo(c.Flags(), p.Suites)
	suites := p.addSuiteFlags(c, false)
	_ = c.RegisterFlagCompletionFunc("suite", p.completeSuites)
	_ = c.RegisterFlagCompletionFunc("fail-closed", p.completePaths)
	c.RunE = func(*cobra.Command, []string) error {
		gates, err := suites.parsed("files")
		if err != nil {
			return err
		}
		if o.rbac {
			return writeYAML(p.Out, clusterRole(p.Suites, p.Suites.Routes(suite.NoPolicy, gates, admit.Surroundings{})))
		}
		return p.printWebhooks(o, gates)
	}
	return c
}

func (o *webhooksOptions) addTo(set *pflag.FlagSet, suites suite.List) {
	set.SortFlags = false
	set.StringVar(&o.service, "service", "usher/usher", "Service that the API server calls, as namespace/name")
	set.StringVar(&o.url, "url", "", "URL that the API server calls instead of a Service, such as https://127.0.0.1:9443")
	set.StringVar(&o.user, "user", "", "user name of usher at the API server (default: that of the service account usher in the Service's namespace)")
	set.StringVar(&o.caFile, "ca-file", "", "PEM file with the CA of the serving certificate, to be used as caBundle (default: no caBundle)")
	set.StringVar(&o.config, "config", "", "policy file that usher serves: what it is registered for depends on it (default: the embedded policy)")
	set.StringVar(&o.compare, "compare", "", "file with the registered configurations, or - for standard input: print how they differ from what is "+
		"needed, instead of configurations; the exit code is 1 if they do")
	set.StringSliceVar(&o.suites, "suite", suites.Names()[:1], "suites whose routes are registered, separated by commas: "+suites.Describe())
	set.StringArrayVar(&o.excluded, "exclude-namespace", nil, "namespace whose pods are not sent to usher, so that they can start while usher is unavailable; may be repeated")
	set.StringSliceVar(&o.failClosed, "fail-closed", nil, "paths to register with failurePolicy Fail, in addition to those that have it by default, such as /validate-pod-binding; "+
		"not possible for the heartbeats of nodes")
	set.BoolVar(&o.rbac, "rbac", false, "print the ClusterRole that usher serve --cluster=api needs, instead of webhook configurations")
}

func (p Program) printWebhooks(o webhooksOptions, gates gate.Set) error {
	at, err := newAddress(o.service, o.url, o.caFile)
	if err != nil {
		return err
	}
	if at.excluded, err = excludedNamespaces(o.excluded); err != nil {
		return err
	}
	at.user = cmp.Or(o.user, "system:serviceaccount:"+at.namespace+":usher")
	chosen, err := p.Suites.Named(o.suites)
	if err != nil {
		return err
	}
	policy, err := config.Load(o.config, p.Suites.Schema())
	if err != nil {
		return err
	}
	served := oneAmplifier(chosen.Routes(policy, gates, admit.Surroundings{}))
	if err := closeFailing(served, o.failClosed); err != nil {
		return err
	}
	if o.compare != "" {
		return p.compareWebhooks(hooksOf(served, at), o)
	}
	return writeYAML(p.Out, mutatingConfiguration(served, at), validatingConfiguration(served, at))
}

// compareWebhooks prints how the registered webhooks differ from those that are needed.
func (p Program) compareWebhooks(needed []hook, o webhooksOptions) error {
	registered, err := readRegistered(o.compare, p.In)
	if err != nil {
		return err
	}
	lines := differences(needed, registered)
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.Out, line); err != nil {
			return err
		}
	}
	if len(lines) > 0 {
		return errDenied
	}
	_, err = fmt.Fprintln(p.Out, "the registered webhooks are those that are needed")
	return err
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

// clusterRole is what usher may do with --cluster=api: watch what its steps need, and what its suites need beside that.
func clusterRole(s suite.List, served []handlers.Route) rbacv1.ClusterRole {
	rules := s.Watched(served).Rules()
	for _, suite := range s {
		if suite.Rights != nil {
			rules = append(rules, suite.Rights(served)...)
		}
	}
	return rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: configurationMeta(),
		Rules:      rules,
	}
}

func newAddress(service, base, caFile string) (a address, err error) {
	if service == "" {
		return a, errors.New("--service: must be namespace/name")
	}
	if _, err := certs.ServiceNames(service); err != nil {
		return a, fmt.Errorf("--%w", err)
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

func (a address) client(path string) registration.WebhookClientConfig {
	if a.url != "" {
		return registration.WebhookClientConfig{URL: new(a.url + path), CABundle: a.caBundle}
	}
	return registration.WebhookClientConfig{CABundle: a.caBundle, Service: &registration.ServiceReference{
		Namespace: a.namespace, Name: a.service, Path: &path, Port: new(int32(443))}}
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
