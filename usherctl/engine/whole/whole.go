// Package whole runs kube-apiserver in this process, with etcd's API in memory, on loopback: a whole API server for people to try
// things with, and for the tests of package engine to compare it with.
//
//	whole.go        starts and stops it
//	flags.go        the flags of kube-apiserver
//	credentials.go  certificates and kubeconfigs
//	bootstrap.go    what is in every cluster
//	controllers.go  what a person expects of a cluster without nodes
package whole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"usher.dev/usher/usherctl/engine/memetcd"
)

// Options configure an API server. The zero value is one of the version of the code, in which roles decide.
type Options struct {
	Version     string    // of Kubernetes that is emulated: one of Versions. All servers of a process must have the same
	AllowAll    bool      // any authenticated user may do everything, also those that are impersonated
	Controllers bool      // default ServiceAccounts are made, deleted Namespaces go, and quotas have a status
	Log         io.Writer // of the errors of all Kubernetes code of the process; nil for none
}

// Versions are those that can be emulated, the newest first.
func Versions() []string { return []string{"1.37", "1.36", "1.35", "1.34"} }

// shutdownTimeout bounds the wait for requests at the end: watches do not end by themselves.
const shutdownTimeout = 500 * time.Millisecond

// Server is a running API server.
type Server struct {
	Config *rest.Config // of an administrator, without limits of a client
	Dir    string       // private, and gone after Stop

	authority authority
	cancel    context.CancelFunc
	running   sync.WaitGroup // the API server
	stopEtcd  func()
}

// Start starts an API server, and returns when it is ready, or when ctx ends. A server that was returned runs until Stop.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Version != "" && !slices.Contains(Versions(), o.Version) {
		return nil, fmt.Errorf("version %s cannot be emulated; choose one of %s", o.Version, strings.Join(Versions(), ", "))
	}
	logTo(o.Log)
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // a fifth of the time to start would be garbage collection
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	s := &Server{cancel: cancel, stopEtcd: func() {}}
	if err := s.start(running, o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) (err error) {
	if s.Dir, err = os.MkdirTemp("", "usher-"); err != nil {
		return err
	}
	s.endWith(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	run, err := s.prepare(ctx, o, listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	failed := make(chan error, 1)
	s.running.Go(func() { failed <- run(ctx) })
	if err := s.ready(ctx, failed); err != nil || !o.Controllers {
		return err
	}
	return s.control(ctx)
}

// endWith replaces what Kubernetes' code does when a hook fails at the start: it ends the process, and leaves the server's directory. If
// the hook fails because ctx has ended, only the hook ends.
func (s *Server) endWith(ctx context.Context) {
	klog.OsExit = func(code int) {
		if ctx.Err() != nil {
			goruntime.Goexit()
		}
		_ = os.RemoveAll(s.Dir)
		os.Exit(code)
	}
}

// prepare makes all that an API server needs, and returns how it is run.
func (s *Server) prepare(ctx context.Context, o Options, listener net.Listener) (run func(context.Context) error, err error) {
	if s.authority, err = newAuthority(); err != nil {
		return nil, err
	}
	if err := s.authority.writeTo(s.Dir); err != nil {
		return nil, err
	}
	address, stop, err := memetcd.ServeIn(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w; if the path is too long for a socket, set TMPDIR to a shorter one", err)
	}
	s.stopEtcd = stop
	if s.Config, err = s.authority.client("https://"+listener.Addr().String(), "kubernetes-admin", "system:masters"); err != nil {
		return nil, err
	}
	s.Config.QPS = -1
	completed, err := o.complete(ctx, s.Dir, address, listener)
	if err != nil {
		return nil, err
	}
	if completed.InformerName, err = cache.NewInformerName(s.Dir); err != nil {
		return nil, err
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, err
	}
	of := named{config.KubeAPIs.ControlPlane.Generic.EffectiveVersion}
	config.KubeAPIs.ControlPlane.Generic.EffectiveVersion, config.Aggregator.GenericConfig.EffectiveVersion = of, of
	config.KubeAPIs.ControlPlane.Generic.DisabledPostStartHooks.Insert(slowHooks...)
	config.Aggregator.GenericConfig.DisabledPostStartHooks.Insert(slowHooks...) // it runs those of the server below it
	done, err := config.Complete()
	if err != nil {
		return nil, err
	}
	chain, err := app.CreateServerChain(done)
	if err != nil {
		return nil, err
	}
	chain.GenericAPIServer.ShutdownTimeout = shutdownTimeout
	prepared, err := chain.PrepareRun()
	return prepared.Run, err
}

// named is a version whose name kubectl can read: that of the code has placeholders of a release.
type named struct{ compatibility.EffectiveVersion }

// Info returns what /version has.
func (n named) Info() *version.Info {
	info := n.EffectiveVersion.Info()
	info.GitVersion = fmt.Sprintf("v%s.%s.0", info.Major, info.Minor)
	return info
}

// ready waits until all checks of the API server are green, and what is in every cluster is there.
func (s *Server) ready(ctx context.Context, failed <-chan error) error {
	config := rest.CopyConfig(s.Config)
	config.ContentType = runtime.ContentTypeProtobuf // roles are read and written faster
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for {
		var code int
		client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&code)
		if code == http.StatusOK {
			return bootstrap(ctx, client)
		}
		select {
		case err := <-failed:
			return fmt.Errorf("kube-apiserver: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop ends the API server, and removes its directory.
func (s *Server) Stop() {
	s.cancel()
	s.running.Wait()
	s.stopEtcd()
	if s.Dir != "" {
		_ = os.RemoveAll(s.Dir)
	}
}

// Kubeconfig writes a kubeconfig of a user into the server's directory, and returns its path.
func (s *Server) Kubeconfig(user string, groups ...string) (path string, err error) {
	config, err := s.authority.client(s.Config.Host, user, groups...)
	if err != nil {
		return "", err
	}
	path = filepath.Join(s.Dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
	return path, writeKubeconfig(path, config)
}

// logTo sends the errors of Kubernetes' code to a writer, or nowhere: it has one log in a process.
func logTo(w io.Writer) {
	if w == nil {
		w = io.Discard
	}
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelError})))
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}
