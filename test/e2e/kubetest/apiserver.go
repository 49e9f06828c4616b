package kubetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"usher.dev/usher/e2e/binaries"
)

func (c *Cluster) startAPIServer(ctx context.Context, etcd ...*Process) error {
	p, err := c.program(binaries.APIServer, append(c.apiServerFlags(), c.options.APIServerFlags...)...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiServer = p
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	admin := c.Admin()
	err = eventually(ctx, func(ctx context.Context) error {
		_, err := admin.Text(ctx, "/readyz")
		return err
	}, append(etcd, p)...)
	if err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	return nil
}

func (c *Cluster) apiServerFlags() []string {
	flags := []string{
		"--etcd-servers=" + localURL(c.ports.etcd),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.api),
		"--endpoint-reconciler-type=none", // it refuses to publish a loopback address
		"--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--client-ca-file=ca.crt",
		"--service-account-issuer=" + c.URL, "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
		"--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--audit-policy-file=audit-policy.yaml", "--audit-log-path=" + auditLog, "--audit-log-mode=blocking",
		"--shutdown-send-retry-after=false", "--shutdown-delay-duration=0s",
	}
	if !c.options.ServiceAccounts {
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	return flags
}

// APIServer returns the current process of the API server.
func (c *Cluster) APIServer() *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServer
}

// StopAPIServer terminates the API server gracefully. Etcd keeps the state.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	defer c.closeIdle() // clients must not reuse connections to the stopped one
	return c.APIServer().Terminate(ctx)
}

// StartAPIServer starts the API server again, at the same address, and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if c.APIServer().Running() {
		return errors.New("the API server is running")
	}
	return c.startAPIServer(ctx)
}

// RestartAPIServer stops and starts the API server.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	if err := c.StopAPIServer(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}
