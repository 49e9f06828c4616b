package kubetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"usher.dev/usher/e2e/binaries"
)

// Options define what a cluster has in addition to etcd and the API server. The zero value is valid.
type Options struct {
	Scheduler         bool
	ServiceAccounts   bool // pods need a service account, which a test creates; else they need none
	ControllerManager bool // service accounts, deletion of namespaces, Deployments, garbage collection

	Services bool // the API server reaches usher through its Service, and not at a URL: see ServeService

	// AuditLevel is the level of the audit policy for pods and nodes: by default Request, which has the patches of webhooks;
	// RequestResponse also has what was stored.
	AuditLevel string

	APIServerFlags []string // after the default flags, so that they override them
	EtcdFlags      []string // likewise

	Prepare func(dir string) error // writes files for the API server, whose working directory is dir; may be nil
}

// Cluster is a control plane on loopback. It writes only to one temporary directory.
type Cluster struct {
	URL string // of the API server; it does not change when the API server is restarted

	*sandbox
	options  Options
	ca       *authority
	ports    struct{ api, etcd, etcdPeer int }
	adminCfg string // path of the admin's kubeconfig

	services *services // nil without Options.Services

	mu        sync.Mutex
	apiServer *Process
	clients   map[string]*http.Transport
}

// Start starts a control plane and waits until it is ready. ctx limits only the start; Stop ends the cluster. The
// cluster also ends if this process ends in another way, even by SIGKILL.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	box, err := newSandbox()
	if err != nil {
		return nil, err
	}
	c := &Cluster{sandbox: box, options: o, clients: map[string]*http.Transport{}}
	if err := c.start(ctx); err != nil {
		_ = c.Stop()
		return nil, err
	}
	return c, nil
}

// WithoutControlPlane returns a cluster that is only a directory: for StartUsher, and for tests of usher without an API
// server.
func WithoutControlPlane() (*Cluster, error) {
	box, err := newSandbox()
	return &Cluster{sandbox: box, clients: map[string]*http.Transport{}}, err
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if err := freePorts(&c.ports.api, &c.ports.etcd, &c.ports.etcdPeer); err != nil {
		return err
	}
	c.URL = "https://127.0.0.1:" + strconv.Itoa(c.ports.api)
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := c.writeIdentities(); err != nil {
		return err
	}
	if c.adminCfg, err = c.Kubeconfig(adminUser, adminGroup); err != nil {
		return err
	}
	if c.options.Services {
		flag, err := c.openServices()
		if err != nil {
			return err
		}
		c.options.APIServerFlags = append([]string{flag}, c.options.APIServerFlags...)
	}
	if c.options.Prepare != nil {
		if err := c.options.Prepare(c.dir); err != nil {
			return err
		}
	}
	etcd, err := c.startEtcd() // not waited for: the API server retries until it is available
	if err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, etcd); err != nil {
		return err
	}
	return c.startControllers()
}

// Stop immediately ends everything that was started in the cluster, and removes the directory.
func (c *Cluster) Stop() error {
	if c.services != nil {
		_ = c.services.socket.Close()
	}
	return c.close()
}

// Dir returns the cluster's directory, which is removed when the cluster stops.
func (c *Cluster) Dir() string { return c.dir }

// Logs returns the last lines of each process's log, to be printed after a failure.
func (c *Cluster) Logs(lines int) string { return c.tails(lines) }

// LogsOf is like Logs for the processes whose names begin with one of the prefixes.
func (c *Cluster) LogsOf(lines int, prefixes ...string) string {
	var text strings.Builder
	for _, p := range c.all() {
		for _, prefix := range prefixes {
			if strings.HasPrefix(p.Name, prefix) {
				fmt.Fprintf(&text, "--- %s, last lines of its log:\n%s\n", p.Name, p.Tail(lines))
				break
			}
		}
	}
	return text.String()
}

// AdminKubeconfig returns the path of a kubeconfig with all rights.
func (c *Cluster) AdminKubeconfig() string { return c.adminCfg }

// Ended returns the names of the processes that have ended. A restarted process counts as a new one.
func (c *Cluster) Ended() (names []string) {
	for _, p := range c.all() {
		if !p.Running() {
			names = append(names, p.Name)
		}
	}
	return names
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) startEtcd() (*Process, error) {
	client, peer := localURL(c.ports.etcd), localURL(c.ports.etcdPeer)
	flags := []string{"--name=e2e", "--data-dir=" + c.file("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=e2e=" + peer}
	return c.program(binaries.Etcd, append(flags, c.options.EtcdFlags...)...)
}

// EtcdURL returns the URL of etcd's API and metrics. It needs no certificate.
func (c *Cluster) EtcdURL() string { return localURL(c.ports.etcd) }

// RestartEtcd terminates etcd and starts it again with its data.
func (c *Cluster) RestartEtcd(ctx context.Context) error {
	if err := c.Etcd().Terminate(ctx); err != nil {
		return err
	}
	_, err := c.startEtcd()
	return err
}

// Etcd returns the process of etcd.
func (c *Cluster) Etcd() *Process {
	for _, p := range c.all() {
		if p.Name == binaries.Etcd {
			return p
		}
	}
	return nil
}

func localURL(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }

// program starts one of the built programs. All of a control plane emulate the same version.
func (c *Cluster) program(name string, args ...string) (*Process, error) {
	file, err := binaries.Find(name)
	if err != nil {
		return nil, err
	}
	if version := binaries.Emulated(); version != "" && slices.Contains([]string{binaries.APIServer, binaries.ControllerManager, binaries.Scheduler}, name) {
		args = append([]string{"--emulated-version=kube=" + version}, args...)
	}
	return c.sandbox.start(name, file, args...)
}

// startControllers starts the controllers of the options. It does not wait for them; their effects are visible in the
// API.
func (c *Cluster) startControllers() error {
	flags := []string{"--kubeconfig=" + c.adminCfg, "--authentication-kubeconfig=" + c.adminCfg,
		"--authorization-kubeconfig=" + c.adminCfg, "--bind-address=127.0.0.1", "--leader-elect=false"}
	for _, program := range []struct {
		name   string
		wanted bool
		flags  []string
	}{
		{binaries.ControllerManager, c.options.ControllerManager,
			[]string{"--service-account-private-key-file=sa.key", "--root-ca-file=ca.crt", "--use-service-account-credentials"}},
		{binaries.Scheduler, c.options.Scheduler, nil},
	} {
		if !program.wanted {
			continue
		}
		var port int
		if err := freePorts(&port); err != nil {
			return err
		}
		all := append(append(program.flags, "--secure-port="+strconv.Itoa(port)), flags...)
		if _, err := c.program(program.name, all...); err != nil {
			return err
		}
	}
	return nil
}

// FreePort returns a free port for a program of the caller.
func FreePort() (port int, err error) {
	err = freePorts(&port)
	return port, err
}

// freePorts returns free ports below the range that the kernel uses for outgoing connections, so that no connection
// takes a port by chance before the server starts, or while it is restarted.
func freePorts(ports ...*int) error {
	taken := map[int]bool{}
	for _, port := range ports {
		for range 100 {
			n := 20000 + rand.IntN(12000)
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(n))
			if err != nil {
				continue
			}
			_ = l.Close()
			if !taken[n] {
				taken[n], *port = true, n
				break
			}
		}
		if *port == 0 {
			return errors.New("no free port between 20000 and 32000")
		}
	}
	return nil
}

// pathSafe turns a user name into a file name.
func pathSafe(name string) string { return strings.NewReplacer(":", "-", "/", "-").Replace(name) }

// write writes a file into the cluster's directory.
func (c *Cluster) write(name, text string) (string, error) {
	return c.file(name), os.WriteFile(c.file(name), []byte(text), 0o600)
}
