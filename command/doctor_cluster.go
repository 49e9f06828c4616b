package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/installed"
	"usher.dev/usher/command/review"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// examineFlags say how usher is run, where its Deployment does not.
type examineFlags struct {
	config, user string
	suites       []string
}

func (o *examineFlags) addTo(set *pflag.FlagSet, suites suite.List) {
	set.StringVar(&o.user, "user", "", "user name of usher at the API server (default: that of the service account usher in the Service's "+
		"namespace)")
	set.StringVar(&o.config, "config", "", "policy file that usher serves (default: that of its Deployment, or else the embedded policy)")
	set.StringSliceVar(&o.suites, "suite", nil, "suites whose routes should be registered, separated by commas (default: those of which any "+
		"is): "+suites.Describe())
}

// examine examines all webhook configurations of the cluster.
func (p Program) examine(ctx context.Context, o doctorOptions) ([]review.Report, error) {
	source, err := o.clusterSource.openSource()
	if err != nil {
		return nil, err
	}
	usher, err := p.usherIn(ctx, source, o)
	if err != nil {
		return nil, err
	}
	return doctor.Examine(ctx, source, o.clusterSource.roots(), usher), nil
}

// roots returns the CAs that the API server is verified with; nil: none are configured.
func (o *clusterFlags) roots() *x509.CertPool {
	if o.source != "api" {
		return nil
	}
	from, err := apiserver.LoadConfig(o.kubeconfig, "")
	if err != nil {
		return nil
	}
	verifying, err := rest.TLSConfigFor(from)
	if err != nil || verifying == nil {
		return nil
	}
	return verifying.RootCAs
}

// usherIn returns what usher serves in a cluster and how it should be registered: as the flags say, and else as its
// Deployment does.
func (p Program) usherIn(ctx context.Context, source reader.Source, o doctorOptions) (u doctor.Usher, err error) {
	if u.At, err = webhooks.NewAddress(o.service, "", ""); err != nil {
		return u, err
	}
	if u.At.User = o.examine.user; u.At.User == "" {
		u.At.User = "system:serviceaccount:" + u.At.Namespace + ":usher"
	}
	deployed, unread := installed.Find(ctx, source, u.At.Namespace, u.At.Service)
	policy, err := p.policyIn(deployed, o.examine.config)
	if err != nil {
		return u, err
	}
	gates := o.gates
	if text := deployed.Flag("feature-gates"); text != "" && !o.gatesSet {
		if gates, err = p.Suites.ParseGates(text); err != nil {
			return u, fmt.Errorf("the Deployment %s: %w", o.service, err)
		}
	}
	if !errors.Is(unread, reader.ErrNotFound) && o.examine.config == "" {
		u.Unknown = unread
	}
	in := suite.Instance{Suites: p.Suites, Policy: policy, Gates: gates}
	for _, r := range in.Table() {
		u.Paths = append(u.Paths, r.Path)
	}
	u.Needed = func(registered []string) []webhooks.Hook {
		return webhooks.HooksOf(webhooks.OneAmplifier(chosen(in, o.examine.suites, registered)), u.At)
	}
	u.Rights = p.rightsOf(deployed, in.Routes())
	return u, nil
}

// policyIn returns the policy of a file, else of a Deployment, or else the embedded one.
func (p Program) policyIn(deployed installed.Usher, file string) (*config.Policy, error) {
	if file != "" || deployed.Text == nil {
		return config.Load(file, p.Suites.Schema())
	}
	policy, problems := config.Parse(deployed.Text, p.Suites.Schema())
	if len(problems) > 0 {
		return nil, fmt.Errorf("the policy of usher's Deployment: %w", errors.Join(problems...))
	}
	return policy, nil
}

// chosen returns the routes of the named suites or, without names, of the suites with a registered webhook.
func chosen(in suite.Instance, names, registered []string) (all []admit.Route) {
	for _, s := range in.Suites {
		in.Suites = suite.List{s}
		routes := in.Routes()
		isRegistered := slices.ContainsFunc(webhooks.Entries(routes), func(e webhooks.Entry) bool { return slices.Contains(registered, e.Name) })
		if len(names) == 0 && isRegistered || slices.Contains(names, s.Name) {
			all = append(all, routes...)
		}
	}
	return all
}

// rightsOf returns the rights that usher needs as a Deployment runs it.
func (p Program) rightsOf(deployed installed.Usher, served []admit.Route) (rules []rbacv1.PolicyRule) {
	if deployed.Flag("cluster") == "api" {
		rules = clusterRole(p.Suites, served).Rules
	}
	if deployed.Flag("certs") == "managed" {
		rules = slices.Concat(rules, rotation.SecretRights(), rotation.ConfigurationRights())
	}
	return rules
}

// printExamination prints the findings, the worst first, and how much was examined.
func (p Program) printExamination(reports []review.Report) {
	review.Findings(p.Out, reports, p.style())
	for _, r := range reports {
		if r.Hint != "" {
			_, _ = fmt.Fprintln(p.Out, r.Hint)
		}
	}
	_, _ = io.WriteString(p.Out, doctor.Summary(reports)+"\n")
}
