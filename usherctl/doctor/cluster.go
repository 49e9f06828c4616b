package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/server"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/live"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
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

// examineCluster examines all webhook configurations of the cluster.
func examineCluster(ctx context.Context, env tool.Env, o options) ([]report.Report, error) {
	source, err := o.clusterSource.OpenSource()
	if err != nil {
		return nil, err
	}
	usher, err := usherIn(ctx, env, source, o)
	if err != nil {
		return nil, err
	}
	return Examine(ctx, source, o.clusterSource.Roots(), usher), nil
}

// ExamineFiles examines the cluster that the manifests in a directory stand for.
func ExamineFiles(ctx context.Context, env tool.Env, dir string) ([]report.Report, error) {
	return examineCluster(ctx, env, options{service: "usher/usher", clusterSource: flags.Cluster{Source: "files", Dir: dir}})
}

// usherIn returns what usher serves in a cluster and how it should be registered: as the flags say, and else as its
// Deployment does.
func usherIn(ctx context.Context, env tool.Env, source reader.Source, o options) (u Usher, err error) {
	if u.At, err = webhooks.NewAddress(o.service, "", ""); err != nil {
		return u, err
	}
	if u.At.User = o.examine.user; u.At.User == "" {
		u.At.User = "system:serviceaccount:" + u.At.Namespace + ":usher"
	}
	in, err := installed.Of(ctx, source, env.Suites, u.At, o.examine.config, o.gates, o.gatesSet)
	if err != nil {
		return u, err
	}
	u.Deployed, u.Unusable, u.Unknown, u.Assumed = in.Deployed, in.Unusable, in.Unknown, in.Assumed
	if u.Unusable != nil {
		u.Unknown = errors.New("usher has no policy that it can load")
	}
	for _, r := range in.Table() {
		u.Paths = append(u.Paths, r.Path)
	}
	u.Needed = func(registered []string) []webhooks.Hook {
		return webhooks.HooksOf(webhooks.OneAmplifier(server.RegisteredRoutes(in.Instance, o.examine.suites, registered)), u.At)
	}
	u.Idle = func(registered []string) bool {
		overridden := len(config.SectionOf[override.List](in.Policy)) > 0
		return !overridden && !slices.ContainsFunc(server.RegisteredRoutes(in.Instance, o.examine.suites, registered), works)
	}
	u.Running = func(ctx context.Context) (live.Running, error) {
		return live.ReadRunning(ctx, source, u.At, in.Deployed, in.Routes(), true)
	}
	u.Apply = o.apply
	if in.Deployed.Flag("cluster") == "api" {
		u.Watching = env.Suites.Rights(in.Routes())
	}
	if in.Deployed.Flag("certs") == "managed" {
		u.Writing = slices.Concat(rotation.SecretRights(), rotation.ConfigurationRights())
	}
	return u, nil
}

// works reports whether a step of a route is on, and has something to do.
func works(r admit.Route) bool {
	return slices.ContainsFunc(r.Chain.Steps(), func(s admit.Step) bool { return !s.Idle && s.Mode != admit.Off })
}

// applyCommand returns the command that restores usher's registration, with the flags of doctor that say how usher is run.
func applyCommand(doctor *pflag.FlagSet) string {
	words := []string{"usher webhooks apply --as-installed"}
	doctor.Visit(func(f *pflag.Flag) {
		if cli.SuiteOf(f) != "" || slices.Contains([]string{"config", "suite", "user", "feature-gates"}, f.Name) {
			words = append(words, report.Word("--"+f.Name+"="+strings.Trim(f.Value.String(), "[]")))
		}
	})
	return strings.Join(words, " ")
}
