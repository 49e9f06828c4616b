package playground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/samples"
	"usher.dev/usher/server/recording"
	"usher.dev/usher/usherctl/learn"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

// options are the flags of usherctl playground.
type options struct {
	listen, config, clusterDir, answers, gates, recording string
}

// Command is `usherctl playground`.
func Command(env tool.Env) *cobra.Command {
	o := options{}
	c := &cobra.Command{Use: "playground", Short: "show on a web page what the steps do to an object, as it is typed", Args: cli.NoArgs,
		Example: `  # then open the address that it prints
  usherctl playground --config samples/policy.yaml`,
		Long: `Serve one web page on this machine that shows what the steps do to an object, as it is typed: the object after each step, the patch,
and why an object is refused. It needs no cluster and no network, and what is typed stays on this machine.`}
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:8090", "address of the page; other machines cannot use it")
	c.Flags().StringVar(&o.config, "config", "", "policy file to begin with (default: the embedded policy)")
	c.Flags().StringVar(&o.clusterDir, "cluster-dir", "",
		"directory of manifests that stand for the cluster, to begin with (default: the sample cluster)")
	c.Flags().StringVar(&o.answers, "answers", "",
		"file with the answers of webhooks that are not usher's (default: what they are called for is not judged)")
	c.Flags().StringVar(&o.gates, "feature-gates", samples.FeatureGates(), "feature gates to begin with (default: those of make run)")
	c.Flags().Lookup("feature-gates").DefValue = "" // too long for a help
	c.Flags().StringVar(&o.recording, "recording", "",
		"file that usher serve --record writes: its reviews can be chosen, and walked through step by step")
	c.RunE = func(c *cobra.Command, _ []string) error { return serve(c.Context(), env, o) }
	return c
}

// serve serves the page until the context ends.
func serve(ctx context.Context, env tool.Env, o options) error {
	start, err := o.start(env.Suites.Names()[0])
	if err != nil {
		return err
	}
	answers, err := review.ReadAnswers(o.answers)
	if err != nil {
		return fmt.Errorf("--answers %w", err)
	}
	listener, err := listenHere(o.listen)
	if err != nil {
		return err
	}
	lessons, err := learn.Lessons()
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	hosts := []string{listener.Addr().String(), fmt.Sprintf("localhost:%d", port), fmt.Sprintf("127.0.0.1:%d", port)}
	shown := hosts[1]
	if hosts[0] != hosts[2] {
		shown = hosts[0] // localhost may be another address
	}
	handler := New(Options{Suites: env.Suites, Version: env.Version, Start: start, Examples: examples(), Answers: answers,
		Lessons: lessons, Tools: learn.ToolsOf(env, ""), Records: o.records()}, hosts)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	_, _ = fmt.Fprintf(env.Out, "usherctl playground: http://%s   (Ctrl-C ends it)\n", shown)
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// records returns a function that reads the recording, as it is then; nil if there is none.
func (o options) records() func() ([]recording.Line, error) {
	if o.recording == "" {
		return nil
	}
	return func() ([]recording.Line, error) {
		file, err := os.Open(o.recording)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		return recording.Read(file)
	}
}

// listenHere listens on an address of this machine that no other machine reaches.
func listenHere(address string) (*net.TCPListener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: must be an address and a port, such as 127.0.0.1:8090", address)
	}
	if !at.IP.IsLoopback() {
		return nil, fmt.Errorf("--listen %s: the playground is for this machine only; use 127.0.0.1, and `ssh -L` from another one", address)
	}
	listener, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("%w; --listen 127.0.0.1:PORT chooses another port", err)
	}
	return listener, nil
}

// start returns what the page shows at first, with the routes of one suite.
func (o options) start(suite string) (Input, error) {
	in := Input{Object: samples.Manifest("pod.yaml"), Cluster: samples.Cluster(), Gates: o.gates, Path: suite}
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return in, fmt.Errorf("--config: %w", err)
		}
		in.Policy = string(text)
	}
	if o.clusterDir == "" {
		return in, nil
	}
	files, err := requests.ManifestFiles(o.clusterDir, false)
	if err != nil {
		return in, fmt.Errorf("--cluster-dir: %w", err)
	}
	var b strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return in, fmt.Errorf("--cluster-dir: %w", err)
		}
		b.WriteString("--- # " + file + "\n" + strings.TrimPrefix(string(text), "---\n"))
	}
	in.Cluster = b.String()
	return in, nil
}

// examples returns the shelf of samples.
func examples() (all []Example) {
	for _, s := range samples.Shelf() {
		route, _, _ := strings.Cut(s.Name, "/")
		in := Input{Object: s.Review, Policy: s.Policy, Cluster: samples.Cluster(), Gates: samples.FeatureGates(), Path: "/" + route}
		all = append(all, Example{Name: s.Name, Shows: s.Shows, Input: in})
	}
	return all
}
