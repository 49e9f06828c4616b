package command

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/doctor"
	"usher.dev/usher/command/installed"
	"usher.dev/usher/command/review"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server"
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
	set.StringSliceVar(&o.suites, "suite", nil, "suites whose routes should be registered, separated by commas (default: those with a "+
		"registered route): "+suites.Describe())
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
	in, err := p.installationOf(ctx, source, u.At, o.examine.config, o.gates, o.gatesSet)
	if err != nil {
		return u, err
	}
	u.Deployed, u.Unusable, u.Unknown, u.Assumed = in.deployed, in.unusable, in.unknown, in.assumed
	if u.Unusable != nil {
		u.Unknown = errors.New("usher has no policy that it can load")
	}
	for _, r := range in.Table() {
		u.Paths = append(u.Paths, r.Path)
	}
	u.Needed = func(registered []string) []webhooks.Hook {
		return webhooks.HooksOf(webhooks.OneAmplifier(server.RegisteredRoutes(in.Instance, o.examine.suites, registered)), u.At)
	}
	u.Apply = o.apply
	if in.deployed.Flag("cluster") == "api" {
		u.Watching = clusterRole(p.Suites, in.Routes()).Rules
	}
	if in.deployed.Flag("certs") == "managed" {
		u.Writing = slices.Concat(rotation.SecretRights(), rotation.ConfigurationRights())
	}
	return u, nil
}

// applyCommand returns the command that restores usher's registration, with the flags of doctor that say how usher is run.
func applyCommand(doctor *pflag.FlagSet) string {
	words := []string{"usher webhooks apply --as-installed"}
	doctor.Visit(func(f *pflag.Flag) {
		if suiteOf(f) != "" || slices.Contains([]string{"config", "suite", "user", "feature-gates"}, f.Name) {
			words = append(words, review.Word("--"+f.Name+"="+strings.Trim(f.Value.String(), "[]")))
		}
	})
	return strings.Join(words, " ")
}

// installation is usher as flags, and else its Deployment, say that it runs.
type installation struct {
	suite.Instance
	deployed installed.Usher
	unusable error  // what is wrong with the policy, or with the gates, of the Deployment: the instance has none
	unknown  error  // why it is not known how usher runs
	assumed  string // why it may run with another policy; "": it does not
}

// installationOf reads how usher is run. Without a Deployment, the instance has the policy of a file, or the embedded one.
func (p Program) installationOf(ctx context.Context, source reader.Source, at webhooks.Address, file string, gates gate.Set, gatesSet bool) (in installation, err error) {
	in.Instance = suite.Instance{Suites: p.Suites, Policy: suite.NoPolicy, Gates: gates}
	var unread error
	in.deployed, unread = installed.Find(ctx, source, at.Namespace, at.Service)
	switch {
	case errors.Is(unread, installed.ErrNoPolicy) && file == "":
		in.unusable = unread
	case file != "" || errors.Is(unread, reader.ErrNotFound):
		in.Policy, err = config.Load(file, p.Suites.Schema())
	case unread != nil:
		in.unknown = unread
	case in.deployed.Name == "" && in.deployed.Flag("config") != "":
		in.unknown = fmt.Errorf("the policy of the Deployment %s/%s, %s, is from no ConfigMap; --config names a file with it", at.Namespace, at.Service,
			in.deployed.Flag("config"))
	case in.deployed.Name == "":
		in.Policy, err = config.Load("", p.Suites.Schema())
	default:
		policy, problems := config.Parse(in.deployed.Text, p.Suites.Schema())
		if in.unusable = joined(in.deployed.Name, problems); in.unusable == nil {
			in.Policy = policy
		}
	}
	if file == "" {
		in.assumed = assumed(in.deployed, unread, at)
	}
	if text := in.deployed.Flag("feature-gates"); text != "" && !gatesSet {
		parsed, wrong := p.Suites.ParseGates(text)
		if in.Gates = parsed; wrong != nil {
			in.Gates, in.unusable = gates, errors.Join(in.unusable, fmt.Errorf("the Deployment %s/%s: %w", at.Namespace, at.Service, wrong))
		}
	}
	return in, err
}

// assumed says why usher may run with another policy than that of the Deployment, or than the embedded one; "" if it does not. unread is why
// the Deployment could not be read, or nil.
func assumed(deployed installed.Usher, unread error, at webhooks.Address) string {
	switch {
	case deployed.Idle:
		return fmt.Sprintf("the Deployment %s/%s, whose policy is assumed, has no replicas, so that usher runs elsewhere", at.Namespace, at.Service)
	case errors.Is(unread, reader.ErrNotFound) && !errors.Is(unread, installed.ErrNoPolicy):
		return fmt.Sprintf("no Deployment %s/%s says which policy usher runs with, so that the embedded one is assumed", at.Namespace, at.Service)
	}
	return ""
}

// joined returns the problems of a file in one line, or nil.
func joined(file string, problems []error) error {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", file, strings.Join(texts, "; "))
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
