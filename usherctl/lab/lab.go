package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/engine/whole"
	"usher.dev/usher/usherctl/tool"
)

// lab is a running API server with usher.
type lab struct {
	tool.Env
	options
	server     *whole.Server
	kubeconfig string // of an administrator
	manifests  []loaded
}

// run runs a lab until ctx ends, by a signal too, or usher fails.
func run(ctx context.Context, env tool.Env, o options) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if !slices.Contains(whole.Versions(), o.version) {
		return fmt.Errorf("--kubernetes %s: cannot be emulated; choose one of %s", o.version, strings.Join(whole.Versions(), ", "))
	}
	policy, err := config.Load(o.config, env.Suites.Schema())
	if err != nil {
		return err
	}
	file := o.config
	if file == "" {
		file = "embedded default"
	}
	env.WarnOfPolicy(file, policy)
	l := &lab{Env: env, options: o}
	if l.manifests, err = l.readLoaded(); err != nil {
		return err
	}
	l.Say("Kubernetes " + l.version + " is starting, which takes some seconds.")
	err = l.open(ctx)
	if l.server != nil {
		defer l.server.Stop()
	}
	if err != nil {
		return untilInterrupted(ctx, err)
	}
	return untilInterrupted(ctx, l.serve(ctx))
}

// untilInterrupted returns an error, or none if ctx has ended: then whatever is ended fails.
func untilInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// open starts the API server, and loads manifests.
func (l *lab) open(ctx context.Context) (err error) {
	var log io.Writer
	if l.verbose {
		log = l.Err
	}
	if l.server, err = whole.Start(ctx, whole.Options{Version: l.version, Controllers: true, Log: log}); err != nil {
		return err
	}
	if l.kubeconfig, err = l.server.Kubeconfig("kubernetes-admin", "system:masters"); err != nil {
		return err
	}
	if err := l.enableDefault(ctx); err != nil {
		return err
	}
	return l.loadAll(ctx)
}

// greet says how to reach the lab, and what to try.
func (l *lab) greet() {
	policy, flag := "the embedded policy", ""
	if l.config != "" {
		policy, flag = l.config+", which is followed", " --config "+l.config
	}
	l.Say("Kubernetes "+l.version+" is on "+l.server.Config.Host+", and calls usher. Policy: "+policy, "", "In another terminal:", "",
		"  export KUBECONFIG="+l.kubeconfig,
		"  kubectl run web --image=nginx --dry-run=server -o yaml",
		"  kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
		"  kubectl create deployment web --image=nginx --dry-run=client -o yaml | usherctl review --cluster=api"+flag+" -",
		"  kubectl auth can-i create pods --as=jane", "",
		"usher is asked about Namespaces with the label admission-webhook: enabled, as default has it here.",
		"There are no nodes, no scheduler and no controllers of workloads, so no pod runs: a checkout's make cluster has them.",
		"Ctrl-C ends it, and nothing stays.")
}
