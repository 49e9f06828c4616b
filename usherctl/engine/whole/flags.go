package whole

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Packages of kube-apiserver add --version to the flags of every program that links them, and cobra to all commands.
var _ = forgetFlags()

func forgetFlags() *pflag.FlagSet {
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	return pflag.CommandLine
}

// complete returns the options of kube-apiserver.
func (o Options) complete(ctx context.Context, dir, etcd string, listener net.Listener) (options.CompletedOptions, error) {
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(o.flags(dir, etcd)); err != nil {
		return options.CompletedOptions{}, err
	}
	s.SecureServing.Listener, s.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	s.SecureServing.ExternalAddress = net.IPv4(127, 0, 0, 1)
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return options.CompletedOptions{}, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return completed, err
	}
	return completed, errors.Join(completed.Validate()...)
}

func (o Options) flags(dir, etcd string) []string {
	in := func(name string) string { return filepath.Join(dir, name) }
	mode := "RBAC"
	if o.AllowAll {
		mode = "AlwaysAllow"
	}
	flags := []string{
		"--etcd-servers=" + etcd,
		"--endpoint-reconciler-type=none", // it refuses to publish a loopback address
		"--tls-cert-file=" + in(serverCert), "--tls-private-key-file=" + in(serverKey), "--client-ca-file=" + in(caCert),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + in(serverKey),
		"--service-account-signing-key-file=" + in(serverKey),
		"--enable-aggregator-routing=true", // a Service without endpoints is not called: its ClusterIP would be dialled on the machine's network
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true", "--anonymous-auth=false", "--authorization-mode=" + mode,
		"--shutdown-send-retry-after=false", "--shutdown-delay-duration=0s", "--profiling=false", "--enable-priority-and-fairness=false",
	}
	if o.Version != "" {
		flags = append(flags, "--emulated-version=kube="+o.Version)
	}
	return flags
}
