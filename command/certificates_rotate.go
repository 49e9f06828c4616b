package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"usher.dev/usher/certs"
	"usher.dev/usher/certs/rotation"
	"usher.dev/usher/internal/cli"
)

// rotateOptions are the flags of usher certs rotate.
type rotateOptions struct {
	ca, distrust        bool
	service, kubeconfig string
	wait                time.Duration
}

// certsRotateCommand is `usher certs rotate`.
func (p Program) certsRotateCommand() *cobra.Command {
	var o rotateOptions
	c := &cobra.Command{Use: "rotate [flags]", Short: "make the replicas of usher serve --certs=managed use a new certificate or CA", Args: cli.NoArgs,
		Long: `Make the replicas of usher serve --certs=managed use a new certificate, or a new CA, and show each stage.

No request fails: a new CA signs only when every webhook has trusted it for a minute, and the old one stays trusted until its last
certificate has ended. The command writes a request into the Secrets; the replicas do the rest, even if the command is interrupted.

The exit code is 0 when the new certificate is in use, and 2 if it is not after --wait, or for an error.`,
		Example: `  # after a key was stolen: a new CA, and no trust in the old one
  usher certs rotate --ca --distrust`,
		RunE: func(c *cobra.Command, _ []string) error { return p.rotate(c.Context(), o) }}
	set := c.Flags()
	set.SortFlags = false
	set.BoolVar(&o.ca, "ca", false, "also make a new CA")
	set.BoolVar(&o.distrust, "distrust", false, "with --ca: stop trusting the old CA as soon as all replicas use the new one; for a stolen key")
	set.StringVar(&o.service, "service", "usher/usher", "Service that the certificate is for, as namespace/name; the Secrets are in its namespace")
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does, or as a pod of the cluster)")
	set.DurationVar(&o.wait, "wait", 5*time.Minute, "how long to show the stages; 0 only makes the request")
	return c
}

func (p Program) rotate(ctx context.Context, o rotateOptions) error {
	if o.distrust && !o.ca {
		return errors.New("--distrust is for --ca")
	}
	if o.service == "" {
		return errors.New("--service: must be namespace/name")
	}
	names, err := certs.ServiceNames(o.service)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	client, _, err := (&reachFlags{kubeconfig: o.kubeconfig}).client()
	if err != nil {
		return err
	}
	r := rotation.Rotation{Client: client, Target: rotation.TargetOf(o.service), CA: o.ca, Distrust: o.distrust}
	r.Target.Hosts = names
	if err := r.Request(ctx); err != nil {
		return err
	}
	p.streams().Say("requested")
	if o.wait == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	return r.Follow(ctx, func(stage string) { p.streams().Say(stage) })
}
