package probe

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/command/flags"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl probe.
type options struct {
	url, kind, file, address, caFile, serverName string
	samples                                      []string
	webhooks                                     []string
	run, skip, output, save                      string
	list, yes                                    bool
	bound                                        Bound
	cluster                                      flags.Cluster
	chosen, skipped                              *regexp.Regexp
}

const help = `Test an admission webhook from outside: send it what an API server sends, and what others could, and check each answer.

Name the webhook by one of

  --url URL      an address; its samples are Pods, or the objects of --sample
  -f FILE        its webhook configuration; samples are objects for which the API server's own code calls it
  NAME           the name of its configuration in the cluster that kubectl uses: only dry runs are sent, after a question

A webhook behind a Service is reached by --address: forward a port to it. A sample that it refuses, and one that it changes, make more tests
possible: pass them with --sample.

The command says beforehand how many requests it sends, and sends them to no other address. Some are meant to break the webhook: do not
probe one that a cluster depends on.

The exit code is 0 if all tests pass or are not for such a webhook, 1 if one fails, and 2 if something could not be tested.`

// Command is `usherctl probe`.
func Command(env tool.Env) *cobra.Command {
	o := options{cluster: flags.Cluster{Source: "api"}}
	c := &cobra.Command{Use: "probe [flags] [NAME]", Short: "test any admission webhook: answers, patches, nonsense, load, certificate", Long: help,
		Args: cobra.MaximumNArgs(1),
		Example: `  # the webhook that listens here, such as usher after make run
  usherctl probe --url https://127.0.0.1:9443/mutate-pods --ca-file .state/ca.crt
  # what is tested, and why
  usherctl probe --list`}
	o.addTo(c.Flags())
	c.RunE = func(c *cobra.Command, names []string) error {
		if err := o.check(names); err != nil {
			return err
		}
		if o.list {
			return printTests(env, o)
		}
		return probe(c.Context(), env, o, names)
	}
	return c
}

func (o *options) addTo(set *pflag.FlagSet) {
	set.SortFlags = false
	set.StringVar(&o.url, "url", "", "address of the webhook, such as https://127.0.0.1:8443/mutate-pods")
	set.StringVar(&o.kind, "type", "", "with --url: mutating or validating (default: validating if the path has \"validat\", else mutating)")
	set.StringVarP(&o.file, "filename", "f", "", "file with the webhook configuration")
	set.StringVar(&o.address, "address", "", "address that stands for the Service, or for the host of the URL, of the configuration")
	set.StringVar(&o.caFile, "ca-file", "", "CA of its certificate (default: caBundle of the configuration; with --url those of the system)")
	set.StringVar(&o.serverName, "server-name", "", "name in its certificate (default: that of the Service, or of the URL)")
	set.StringSliceVar(&o.samples, "sample", nil, "files of objects for which it is called, and of the definitions of custom resources")
	set.StringVar(&o.run, "run", "", "run only the tests whose names this regular expression matches")
	set.StringVar(&o.skip, "skip", "", "leave out the tests whose names this regular expression matches")
	set.StringSliceVar(&o.webhooks, "webhook", nil, "names of the webhooks of the configuration that are probed (default: all)")
	set.BoolVar(&o.list, "list", false, "print the tests with their reasons, as text or json, and send nothing")
	set.StringVar(&o.save, "save", "", "directory for the bodies of requests that show a failure; the commands for curl then name these files")
	set.StringVarP(&o.output, "output", "o", "text", "text, json or junit")
	set.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	set.IntVar(&o.bound.Requests, "max-requests", 400, "bound of the requests to one webhook")
	set.DurationVar(&o.bound.Time, "max-time", 3*time.Minute, "bound of the time for one webhook")
	set.DurationVar(&o.bound.Patience, "patience", 40*time.Second, "how long connections may stay open on which nothing comes")
	set.StringVar(&o.cluster.Kubeconfig, "kubeconfig", "", "with NAME: how to reach the API server (default: as kubectl does)")
}

func (o *options) check(names []string) (err error) {
	if o.chosen, err = regexp.Compile(o.run); err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if o.skipped, err = regexp.Compile(o.skip); err != nil {
		return fmt.Errorf("--skip: %w", err)
	}
	given := len(names)
	for _, value := range []string{o.url, o.file} {
		if value != "" {
			given++
		}
	}
	switch {
	case !slices.Contains([]string{"text", "json", "junit"}, o.output):
		return fmt.Errorf("-o %s: must be text, json or junit", o.output)
	case o.list && (given > 0 || o.output == "junit"):
		return errors.New("--list names no webhook, and prints text or json")
	case !o.list && given != 1:
		return errors.New("name one webhook: by --url URL, by -f FILE, or by the NAME of a configuration of the cluster; " +
			"`usherctl probe --list` shows the tests")
	case o.kind != "" && o.url == "":
		return errors.New("--type goes with --url: a configuration says which it is")
	case !slices.Contains([]string{"", "mutating", "validating"}, o.kind):
		return fmt.Errorf("--type %s: must be mutating or validating", o.kind)
	case o.address != "" && o.url != "":
		return errors.New("--address goes with -f FILE or NAME: --url is an address")
	case !slices.ContainsFunc(Tests(), func(t Test) bool { return o.chosen.MatchString(t.Name) }):
		return fmt.Errorf("--run %s: matches no test; `usherctl probe --list` shows them", o.run)
	}
	if u, err := url.Parse(o.address); o.address != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("--address %s: want https://HOST:PORT", o.address)
	}
	return nil
}

// probe probes the webhooks that the flags name.
func probe(ctx context.Context, env tool.Env, o options, names []string) error {
	given := requests.ReadFiles(env.Streams, o.samples, false)
	if len(o.samples) == 0 {
		given = nil
	}
	if err := checkGiven(given); err != nil {
		return err
	}
	hooks, err := o.hooks(ctx, env, names)
	if err != nil {
		return err
	}
	all := hooks
	if hooks, err = o.named(all); err != nil {
		return err
	}
	if err := announce(env, o, hooks, names); err != nil {
		return err
	}
	for _, h := range hooks {
		h.OnlyDryRuns = len(names) > 0
		if err := h.addSamples(ctx, given, h.OnlyDryRuns, all...); err != nil {
			return err
		}
		defer h.close()
	}
	for _, h := range hooks { // what is for others of them need not be said
		h.uncalled = slices.DeleteFunc(h.uncalled, func(source string) bool {
			return slices.ContainsFunc(hooks, func(other *registered) bool { return !slices.Contains(other.uncalled, source) })
		})
	}
	reports, err := o.runAll(ctx, env, hooks)
	if err != nil {
		return err
	}
	return report.ExitOfReview(reports).Err("some tests could not be judged")
}

// named returns the webhooks that --webhook names.
func (o *options) named(all []*registered) (chosen []*registered, err error) {
	var names []string
	for _, h := range all {
		names = append(names, h.Name)
		if len(o.webhooks) == 0 || slices.Contains(o.webhooks, h.Name) {
			chosen = append(chosen, h)
		}
	}
	for _, name := range o.webhooks {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--webhook %s: there is none of this name, but %s", name, report.List(names))
		}
	}
	return chosen, nil
}

// tests returns the tests that --run and --skip choose.
func (o *options) tests() []Test {
	return slices.DeleteFunc(Tests(), func(t Test) bool {
		return !o.chosen.MatchString(t.Name) || o.skip != "" && o.skipped.MatchString(t.Name)
	})
}

// runAll runs the tests of webhooks, and prints the results.
func (o *options) runAll(ctx context.Context, env tool.Env, hooks []*registered) (reports []report.Report, err error) {
	slow := map[string]bool{} // addresses that had the test slow-clients
	for _, h := range hooks {
		if o.output == "text" {
			h.printHead(env)
			h.Progress = env.Progress
		}
		address := h.host()
		h.slowTested = slow[address]
		Run(ctx, &h.Hook, o.tests(), o.bound, func(res Result) {
			slow[address] = slow[address] || res.Test.slow && res.NotJudged == ""
			reports = append(reports, res.Report())
			if o.output == "text" {
				env.Progress("")
				res.print(env.Out, env.Style(), o.save)
			}
		})
	}
	if o.output == "text" {
		_, err = fmt.Fprintln(env.Out, report.TestSummary(reports))
	} else {
		err = report.Write(env.Out, o.output, "usherctl probe", slices.Values(reports))
	}
	return reports, err
}

// hooks returns the webhooks that the flags name.
func (o *options) hooks(ctx context.Context, env tool.Env, names []string) ([]*registered, error) {
	to := place{address: o.address, serverName: o.serverName}
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		to.roots = x509.NewCertPool()
		if !to.roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s: holds no certificate in PEM form", o.caFile)
		}
	}
	switch {
	case o.url != "":
		mutates := o.kind == "mutating" || o.kind == "" && !strings.Contains(strings.ToLower(o.url), "validat")
		h, err := unregistered(o.url, mutates, to)
		return []*registered{h}, err
	case o.file != "":
		hooks, err := hooksOf(requests.ReadFiles(env.Streams, []string{o.file}, false), to)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.file, err)
		}
		return hooks, nil
	}
	documents, err := readConfigurations(ctx, o.cluster, names[0])
	if err != nil {
		return nil, err
	}
	return hooksOf(documents, to)
}

// readConfigurations reads the configurations of a name from the cluster.
func readConfigurations(ctx context.Context, from flags.Cluster, name string) (all []requests.Document, err error) {
	source, err := from.OpenSource()
	if err != nil {
		return nil, err
	}
	const group = "admissionregistration.k8s.io"
	for kind, resource := range map[string]string{"MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
		"ValidatingWebhookConfiguration": "validatingwebhookconfigurations"} {
		raw, err := source.Get(ctx, reader.NewKind(group, "v1", kind, resource), "", name)
		if err != nil && !errors.Is(err, reader.ErrNotFound) {
			return nil, err
		}
		if raw != nil {
			all = append(all, requests.Document{Source: kind + " " + name, JSON: json.RawMessage(raw)})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the cluster has no webhook configuration %s; look: "+
			"kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations", name)
	}
	slices.SortFunc(all, func(a, b requests.Document) int { return strings.Compare(a.Source, b.Source) })
	return all, nil
}

// announce says what will be sent where, and asks if the user has not named the address.
func announce(env tool.Env, o options, hooks []*registered, names []string) error {
	var where []string
	for _, h := range hooks {
		if !slices.Contains(where, h.host()) {
			where = append(where, h.host())
		}
	}
	text := fmt.Sprintf("at most %d requests in %s to each webhook (%d) at %s, and waits at most %s for it to end silent connections",
		o.bound.Requests, o.bound.Time, len(hooks), report.List(where), o.bound.Patience)
	if o.url != "" || o.address != "" && len(names) == 0 {
		_, _ = fmt.Fprintln(env.Err, "sends "+text)
		return nil
	}
	return env.Confirm(o.yes, "Send "+text+"? Some are meant to break it.")
}

func (h *registered) printHead(env tool.Env) {
	title := h.Name
	if h.Configuration != "" {
		title = h.Configuration + ", webhook " + h.Name
	}
	env.Say("", env.Style().Heading(title))
	for _, s := range slices.Concat(h.Samples, h.Updates) {
		env.Say("  sends " + s.Source)
	}
	for _, s := range h.notes {
		env.Say("  " + s)
	}
	for _, s := range h.uncalled {
		env.Say("  not called for " + s)
	}
}

// printTests prints what is tested.
func printTests(env tool.Env, o options) error {
	tests := o.tests()
	if o.output == "json" {
		return report.WriteJSON(env.Out, tests)
	}
	for _, t := range tests {
		env.Say(fmt.Sprintf("%-16s %s", t.Name, t.Does), "                 "+t.Why)
		for _, from := range t.From {
			env.Say("                 " + from)
		}
	}
	return nil
}
