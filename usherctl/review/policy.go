package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/live"
	"usher.dev/usher/usherctl/policyfile"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// policyOfReview returns the policy of --config or, with --doctor, of the installed usher, whose gates are used unless
// --feature-gates is set. It prints which one that is, and why it is not the installed one.
func policyOfReview(ctx context.Context, env tool.Env, o *options) (*config.Policy, error) {
	if o.config != "" || !o.doctor && !o.live() {
		policy, err := policyfile.Load(ctx, o.config, env.Suites.Schema())
		if err == nil {
			env.WarnOfPolicy(cmp.Or(o.config, "embedded default"), policy)
		}
		return policy, err
	}
	at, err := webhooks.NewAddress(o.service, "", "")
	if err != nil {
		return nil, err
	}
	source, err := o.registered.OpenSource()
	if err != nil {
		return nil, err
	}
	in, err := installed.Of(ctx, source, env.Suites, at, "", o.gates, o.gatesSet)
	if err != nil {
		return nil, err
	}
	name, why := in.Deployed.Name, cmp.Or(in.Unusable, in.Unknown)
	o.assumed = why != nil || in.Deployed.Arguments == nil
	switch {
	case why != nil:
		_, _ = fmt.Fprintf(env.Err, "warning: the policy of usher in the cluster is not known: %v; reviewed with the embedded default, --config names "+
			"another\n", why)
		return config.Load("", env.Suites.Schema())
	case in.Deployed.Arguments == nil:
		_, _ = fmt.Fprintf(env.Err, "policy: embedded default: the cluster has no Deployment %s; --service or --config names another\n", o.service)
	case name == "":
		_, _ = fmt.Fprintf(env.Err, "policy: embedded default, as the Deployment %s has it\n", o.service)
	default:
		_, _ = fmt.Fprintf(env.Err, "policy: %s, as the Deployment %s has it\n", name, o.service)
	}
	o.gates = in.Gates
	env.WarnOfPolicy(cmp.Or(name, "embedded default"), in.Policy)
	return in.Policy, nil
}

// doubtPolicy notes in a report that a webhook of usher is registered for a route that the assumed policy does not use: usher has another policy,
// and may decide otherwise what it is asked about.
func (r *reviewing) doubtPolicy(of *report.Report, registered []report.Webhook) {
	unused := func(path string) string {
		i := slices.IndexFunc(r.routes, func(route admit.Route) bool { return route.Unused() != "" && strings.HasSuffix(path, route.Path) })
		if i < 0 {
			return ""
		}
		return r.routes[i].Path
	}
	found, asked := "", slices.ContainsFunc(of.Calls, func(c report.Call) bool { return c.Path != "" })
	for _, w := range registered {
		if path := unused(w.Path); path != "" && strings.HasSuffix(w.Name, ".usher.dev") {
			found, asked = path, asked || w.Called
		}
	}
	if !r.o.assumed || found == "" || !asked {
		return
	}
	of.Calls = slices.DeleteFunc(slices.Clone(of.Calls), func(c report.Call) bool { return unused(c.Path) != "" })
	of.Unjudged = append(of.Unjudged, found+" is registered, and the embedded default does not use it: usher in the cluster has another policy, "+
		"and may decide otherwise; --config names its file")
	refused := of.Verdict == report.Denied && slices.ContainsFunc(of.Calls, func(c report.Call) bool { return c.Path != "" && !passed(c) })
	if of.Hint = ""; refused || of.Verdict == report.Allowed || of.Verdict == report.Skipped {
		of.Verdict = report.NotJudged
	}
}

// warnOfRunning warns of the usher that runs in a cluster, if that is of another version than this program, or has other steps than an instance
// has here. Its modes are those of --config only if it runs with this file, which nobody says.
func warnOfRunning(ctx context.Context, env tool.Env, o options, source reader.Source, policy *config.Policy) error {
	at, err := webhooks.NewAddress(o.service, "", "")
	if err != nil {
		return err
	}
	deployed, _ := installed.Find(ctx, source, at.Namespace, at.Service) // an error was reported for the policy
	here := suite.Instance{Suites: env.Suites, Policy: policy, Gates: o.gates}
	running, unread := live.ReadRunning(ctx, source, at, deployed, here.Routes(), o.config == "")
	if unread != nil {
		_, _ = fmt.Fprintf(env.Err, "warning: the steps of the running usher are not known: %s\n", printable.Line(unread.Error()))
	}
	if tag := tagOf(deployed.Image); len(running.Versions) == 0 && tag != "" {
		running.Versions = []string{tag}
	}
	is := func(version string) bool {
		return strings.TrimPrefix(version, "v") == strings.TrimPrefix(env.Version, "v")
	}
	if len(running.Differ) == 0 && !slices.ContainsFunc(running.Versions, func(version string) bool { return !is(version) }) {
		return nil
	}
	_, _ = fmt.Fprintf(env.Err, "warning: usher in the cluster is %s, and this usherctl is %s: where their steps differ, usher may decide otherwise%s\n",
		printable.Line(report.List(running.Versions)), env.Version, printable.Line(strings.Join(append([]string{""}, running.Differ...), "; ")))
	return nil
}

// tagOf returns the tag of an image, or else its digest; "" if it has neither.
func tagOf(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return cmp.Or(tag, digest)
}
