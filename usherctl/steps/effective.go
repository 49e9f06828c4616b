package steps

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/gate"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/cluster"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// effectiveOptions are the flags of usherctl steps --effective.
type effectiveOptions struct {
	on            bool
	namespace     string
	file          string
	user          string
	groups        []string
	clusterSource flags.Cluster
}

func (o *effectiveOptions) addTo(set *pflag.FlagSet) {
	set.BoolVar(&o.on, "effective", false,
		"show the mode that each step has for the requests that the following flags describe, and the override that sets it")
	set.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the objects")
	set.StringVarP(&o.file, "filename", "f", "", "file with the object; if it has a pod template, its pod is also shown (default: any object)")
	set.StringVar(&o.user, "as", "", "user who sends the request (default: any user)")
	set.StringSliceVar(&o.groups, "as-group", nil, "groups of the user (default: with --as as in usherctl review)")
	o.clusterSource.AddDirTo(set)
}

// check returns an error if flags of --effective are used without it.
func (o *effectiveOptions) check(set *pflag.FlagSet) error {
	for _, name := range []string{"namespace", "filename", "as", "as-group", "cluster-dir"} {
		if set.Changed(name) && !o.on {
			return fmt.Errorf("--%s goes with --effective", name)
		}
	}
	if o.user != "" && !set.Changed("as-group") {
		o.groups = requests.GroupsOf(o.user)
	}
	return nil
}

// effectiveRow is the mode of one step, as `usherctl steps --effective -o json` prints it.
type effectiveRow struct {
	Object string `json:"object,omitempty"`
	Path   string `json:"path"`
	Suite  string `json:"suite"`
	Step   string `json:"step"`
	Mode   string `json:"mode"`
	Idle   bool   `json:"idle,omitempty"` // the policy has nothing for it to do
	// Override sets the mode; without it the modes of the policy do. Perhaps come first, and match some of the requests.
	Override *overrideRow  `json:"override,omitempty"`
	Perhaps  []overrideRow `json:"perhaps,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// described is a request as the flags describe it, and what it is about; "" for any object.
type described struct {
	about, namespace string
	body             []byte // empty for any object
}

// printEffective prints the modes that the steps have for the requests that the flags describe.
func printEffective(env tool.Env, gates gate.Set, listed suite.List, policy *config.Policy, all options, names []string) error {
	o := all.effective
	opened, err := o.clusterSource.From().Open(cluster.Options{
		Catalogue: []cluster.Declared{cluster.Namespaces}, Needs: []string{admit.CollectionNamespaces}})
	if err != nil {
		return err
	}
	in := suite.Instance{Suites: listed, Policy: policy, Gates: gates, Cluster: opened}
	routes := in.Routes()
	requests, err := describedRequests(env, o, gates, routes)
	if err != nil {
		return err
	}
	rows := []effectiveRow{}
	for _, d := range requests {
		for _, r := range routes {
			some, err := o.rows(d, in, r)
			if err != nil {
				return err
			}
			rows = append(rows, some...)
		}
	}
	rows = slices.DeleteFunc(rows, func(r effectiveRow) bool { return len(names) > 0 && !slices.Contains(names, r.Step) })
	if all.output == "json" {
		return report.WriteJSON(env.Out, rows)
	}
	printEffectiveText(env.Out, rows)
	printUnknownNamespaces(env.Out, policy, opened, requests)
	printEnds(env, policy)
	return nil
}

// printUnknownNamespaces names the namespaces whose labels are not known, if an override depends on them.
func printUnknownNamespaces(to io.Writer, policy *config.Policy, opened *cluster.Cluster, requests []described) {
	if !slices.ContainsFunc(config.SectionOf[override.List](policy), func(o override.Spec) bool { return o.NamespaceSelector != nil }) {
		return
	}
	reader, printed := opened.Reader([]string{admit.CollectionNamespaces}), []string(nil)
	for _, d := range requests {
		if _, known, err := reader.Namespace(d.namespace); err != nil || known || d.namespace == "" || slices.Contains(printed, d.namespace) {
			continue
		}
		printed = append(printed, d.namespace)
		_, _ = fmt.Fprintf(to, "namespace %s is not in --cluster-dir: it is taken for one without labels\n", d.namespace)
	}
}

// describedRequests returns the requests about the objects of the file, and the pods that controllers make of them.
func describedRequests(env tool.Env, o effectiveOptions, gates gate.Set, routes []admit.Route) (all []described, err error) {
	if o.file == "" {
		return []described{{namespace: o.namespace}}, nil
	}
	options := requests.Options{Operation: admissionv1.Create, User: o.user, Groups: o.groups, Namespace: o.namespace}
	kinds := requests.NewCatalogue(env.Suites.Table(suite.NoPolicy, gates))
	flags := requests.Flags{Options: options}
	for _, d := range flags.WithPods(requests.ReadFiles(env.Streams, []string{o.file}, false), routes) {
		body, err := requests.AsReview(d, options, kinds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, err)
		}
		_, req, err := handlers.ReadReview(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Source, err)
		}
		about := strings.TrimPrefix(d.Of+": ", ": ") + req.Kind.Kind + " " + strings.TrimPrefix(req.Namespace+"/"+req.ObjectName(), "/")
		all = append(all, described{about, req.Namespace, body})
	}
	return all, nil
}

// request makes a request anew for each route, because a request remembers what it has asked.
func (o effectiveOptions) request(d described, r admit.Route) (*admit.Request, error) {
	if len(d.body) > 0 {
		_, req, err := handlers.ReadReview(d.body)
		return req, err
	}
	req := &admit.Request{
		Operation: admissionv1.Create, Namespace: o.namespace, UserInfo: authenticationv1.UserInfo{Username: o.user, Groups: o.groups},
	}
	if !slices.ContainsFunc(r.For, func(m admit.Match) bool { return m.Scope != registration.ClusterScope }) {
		req.Namespace = ""
	}
	return req, nil
}

// rows returns the modes of the steps of a route for a request; none if the route is for other kinds.
func (o effectiveOptions) rows(d described, in suite.Instance, r admit.Route) (rows []effectiveRow, err error) {
	req, err := o.request(d, r)
	if err != nil {
		return nil, err
	}
	isFor := func(m admit.Match) bool { return m.Kind == req.Kind || m.Covers(req) }
	if len(d.body) > 0 && !slices.ContainsFunc(r.For, isFor) {
		return nil, nil
	}
	now := time.Now()
	overrides, around := in.Overrides(r)
	for _, e := range override.Modes(r.Chain.Steps(), overrides, around, req) {
		row := effectiveRow{Object: d.about, Path: r.Path, Suite: r.Suite, Step: e.Name, Mode: string(e.Mode), Idle: e.Idle}
		for _, perhaps := range e.Perhaps {
			row.Perhaps = append(row.Perhaps, rowOf(&perhaps, now))
		}
		if e.Override != nil {
			row.Override = new(rowOf(e.Override, now))
		}
		if e.Drawn {
			row.Override.Draw = &e.Draw
		}
		if e.Err != nil {
			row.Error = e.Err.Error()
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func printEffectiveText(to io.Writer, rows []effectiveRow) {
	about, path, n := "", "", 0
	for _, r := range rows {
		if r.Object != about {
			_, _ = fmt.Fprintln(to, r.Object)
		}
		if r.Path != path || r.Object != about {
			about, path, n = r.Object, r.Path, 0
			_, _ = fmt.Fprintf(to, "%s  %s\n", r.Path, r.Suite)
		}
		n++
		mode := r.Mode
		if r.Idle {
			mode += ", idle: the policy has nothing for it to do"
		}
		_, _ = fmt.Fprintf(to, "  %d. %-22s %s\n", n, r.Step, mode)
		for _, perhaps := range r.Perhaps {
			_, _ = fmt.Fprintf(to, "     perhaps %s\n", perhaps.text(true))
		}
		switch {
		case r.Override != nil:
			_, _ = fmt.Fprintf(to, "     %s\n", r.Override.text(false))
		case r.Mode != string(admit.Enforce):
			_, _ = fmt.Fprintln(to, "     modes of the policy")
		}
		if r.Error != "" {
			_, _ = fmt.Fprintf(to, "     %s\n", r.Error)
		}
	}
}
