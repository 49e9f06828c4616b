package kubetest

import (
	"context"
	"strconv"
	"time"

	"usher.dev/usher/e2e/binaries"
)

// HollowOptions describe a hollow node. Zero values mean 16 cores, 64Gi, and a status every 3 s.
type HollowOptions struct {
	Cores       int
	Memory      string
	StatusEvery time.Duration
}

// StartHollow starts a real kubelet with a fake container runtime, and waits until its node is registered.
func (c *Cluster) StartHollow(ctx context.Context, name string, o HollowOptions) (*Process, error) {
	kubeconfig, err := c.Kubeconfig("system:node:"+name, "system:nodes")
	if err != nil {
		return nil, err
	}
	args := []string{"-kubeconfig=" + kubeconfig, "-name=" + name, "-port=0"}
	if o.Cores != 0 {
		args = append(args, "-cores="+strconv.Itoa(o.Cores))
	}
	if o.Memory != "" {
		args = append(args, "-memory="+o.Memory)
	}
	if o.StatusEvery == 0 {
		o.StatusEvery = 3 * time.Second
	}
	file, err := binaries.Find(binaries.Hollow)
	if err != nil {
		return nil, err
	}
	p, err := c.sandbox.start("hollow-"+name, file, append(args, "-status-every="+o.StatusEvery.String())...)
	if err != nil {
		return nil, err
	}
	admin := c.Admin()
	return p, eventually(ctx, func(ctx context.Context) error {
		_, err := admin.Get(ctx, "/api/v1/nodes/"+name)
		return err
	}, p)
}
