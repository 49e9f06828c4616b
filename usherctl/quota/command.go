package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/internal/cli"
	"usher.dev/usher/internal/poddefaults"
	"usher.dev/usher/usherctl/quota/usage"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

const help = `Print what the elastic quotas of a namespace have left, and whose limit decides that: the quota's own, or that of one above it.

It needs only the right to list elasticquotas in the namespace: usher writes the numbers to their status. What the user may not read is
"not known", and "at most" means that less may be left, because a quota that may not be read, or whose use is not known, may have less.

With -f, print what the pods of a manifest would take, and whether they fit. Of a Job, the pods that run at the same time count. If pods lack
requests, the right to list limitranges is needed, too.

The exit code is 0 if the pods fit or, without -f, if what is left is known; 1 if some do not fit; and 2 if that is not known.`

// options are the flags of usherctl quota.
type options struct {
	namespace, output string
	files             []string
	clusterSource     flags.Cluster
	gates             gate.Set
}

// Command is `usherctl quota`.
func Command(env tool.Env) *cobra.Command {
	o := options{clusterSource: flags.Cluster{Source: "api"}}
	c := &cobra.Command{Use: "quota [flags]", Short: "what an elastic quota has left, and what a manifest would take", Long: help, Args: cli.NoArgs,
		Example: `  # what is left for the pods of a namespace?
  usherctl quota -n team-a --cluster-dir samples/cluster
  # would these pods fit?
  usherctl quota -n team-a -f samples/manifests/quota-pod.yaml --cluster-dir samples/cluster`}
	set := c.Flags()
	set.SortFlags = false
	set.StringVarP(&o.namespace, "namespace", "n", "", "namespace whose quotas are shown (default: that of kubectl; in files, default)")
	set.StringArrayVarP(&o.files, "file", "f", nil, "manifest whose pods would be created; - is standard input; may be repeated")
	set.StringVarP(&o.output, "output", "o", "text", "text or json")
	o.clusterSource.AddTo(set)
	suites := flags.AddSuites(c, env.Suites, false, env.Err)
	env.Suites = suites.List
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.clusterSource.Dir != "" && !c.Flags().Changed("cluster") {
			o.clusterSource.Source = "files"
		}
		if o.gates, err = suites.Parsed(o.clusterSource.Source); err != nil {
			return err
		}
		if o.output != "text" && o.output != "json" {
			return fmt.Errorf("-o %s: must be text or json", o.output)
		}
		if err := o.clusterSource.Check(); err != nil {
			return err
		}
		return run(c.Context(), env, o)
	}
	return c
}

// run prints what is left, and what the pods of the manifests would take.
func run(ctx context.Context, env tool.Env, o options) error {
	source, err := o.clusterSource.OpenSource()
	if err != nil {
		return err
	}
	ask := usage.Question{Source: source, Gates: o.gates}
	if ask.Namespace, err = o.clusterSource.NamespaceOr(o.namespace); err != nil {
		return err
	}
	for _, file := range o.files {
		pods, err := planOf(requests.ReadFile(env.Streams, file), ask.Namespace, limitRangesIn(ctx, source))
		if err != nil {
			return err
		}
		ask.Pods = append(ask.Pods, pods...)
	}
	answer, err := usage.Of(ctx, ask)
	if err != nil {
		return err
	}
	if len(o.files) > 0 && len(ask.Pods) == 0 {
		answer.Notes = append(answer.Notes, "the manifests have no pods")
	}
	if o.output == "json" {
		err = report.WriteJSON(env.Out, answer)
	} else {
		text(env.Out, answer, env.Style().Color)
	}
	return cmp.Or(err, exitOf(answer).Err("not everything is known"))
}

// limitRangesIn returns a function that lists the LimitRanges of a namespace with the user's rights.
func limitRangesIn(ctx context.Context, source reader.Source) limitRanges {
	return func(namespace string) (all []*corev1.LimitRange, err error) {
		found, err := reader.All[corev1.LimitRange](source.List(ctx, reader.NewKind("", "v1", "LimitRange", "limitranges"), namespace))
		if errors.Is(err, reader.ErrNotFound) {
			err = nil
		}
		for i := range found {
			poddefaults.LimitRange(&found[i]) // files lack what an API server sets
			all = append(all, &found[i])
		}
		return all, err
	}
}
