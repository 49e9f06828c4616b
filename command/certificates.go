package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"usher.dev/usher/certs"
	"usher.dev/usher/internal/cli"
)

// certsOptions are the flags of usher certs init.
type certsOptions struct {
	service, out, output, secret string
	days                         int
	overwrite                    bool
}

// certsCommand is `usher certs`: it has the commands init and rotate.
func (p Program) certsCommand() *cobra.Command {
	var o certsOptions
	certs := &cobra.Command{Use: "certs", Short: "create a CA and a serving certificate, or replace those in a cluster", Args: cli.NoArgs,
		Example: "  # a Secret for kubectl apply -f -\n  usher certs init --service usher/usher -o secret",
		RunE: func(*cobra.Command, []string) error {
			return errors.New("usage: usher certs init|rotate [flags]; `usher certs init --help` lists the flags of the first")
		}}
	init := &cobra.Command{Use: "init [flags]", Short: "create a CA and a certificate for a Service, as files or as a Secret", Args: cli.NoArgs,
		Example: "  # files for an usher on this machine\n  usher certs init --out my-certs",
		RunE:    func(*cobra.Command, []string) error { return p.makeCerts(o) }}
	set := init.Flags()
	set.SortFlags = false
	set.StringVar(&o.service, "service", "", "Service that the certificate is for, as namespace/name (default: this machine only)")
	set.StringVar(&o.out, "out", "", "directory to write ca.crt, ca.key, tls.crt and tls.key to (default: usher-certs, or none with -o secret)")
	set.StringVarP(&o.output, "output", "o", "files", "files or secret: secret prints a Secret manifest for kubectl, without the CA key")
	set.StringVar(&o.secret, "secret-name", "usher-tls", "name of the Secret that -o secret prints")
	set.IntVar(&o.days, "days", 365, "number of days for which the certificate is valid; like its CA, at most one year")
	set.BoolVar(&o.overwrite, "overwrite", false, "replace an existing CA; clients that trust it then need the new one")
	certs.AddCommand(init, p.certsRotateCommand())
	return certs
}

// makeCerts makes a CA, and a certificate for a Service, as files or as a Secret.
func (p Program) makeCerts(o certsOptions) error {
	if o.output != "files" && o.output != "secret" {
		return fmt.Errorf("-o %s: must be files or secret", o.output)
	}
	if o.output == "secret" && o.service == "" {
		return errors.New("-o secret: say which Service it is for: --service namespace/name")
	}
	if o.days < 1 || o.days > 365 {
		return fmt.Errorf("--days %d: must be 1 to 365, as the CA is valid for one year", o.days)
	}
	ca, leaf, err := newCertificates(o.service, o.days)
	if err != nil {
		return err
	}
	if o.output == "files" && o.out == "" {
		o.out = "usher-certs"
	}
	if err := p.keepCertificates(o.out, ca, leaf, o.overwrite); err != nil || o.output == "files" {
		return err
	}
	manifest, err := certs.SecretManifest(o.service, o.secret, ca, leaf)
	if err == nil {
		_, err = p.Out.Write(manifest)
	}
	return err
}

// keepCertificates writes all four files to a directory; an empty name keeps nothing.
func (p Program) keepCertificates(dir string, ca, leaf certs.Pair, overwrite bool) error {
	if dir == "" {
		return nil
	}
	if err := certs.WriteFiles(dir, ca, leaf, overwrite); err != nil {
		return fmt.Errorf("%w (flags --out, --overwrite)", err)
	}
	_, err := fmt.Fprintf(p.Err, "wrote %s, %s, %s and %s to %s; keep the CA key out of the cluster, or delete it\n",
		certs.CACertFile, certs.CAKeyFile, certs.CertFile, certs.KeyFile, dir)
	return err
}

func newCertificates(service string, days int) (ca, leaf certs.Pair, err error) {
	names, err := certs.ServiceNames(service)
	if err != nil {
		return ca, leaf, err
	}
	now := time.Now()
	if ca, err = certs.NewAuthority(now); err != nil {
		return ca, leaf, err
	}
	leaf, err = certs.IssueUntil(ca, names, now, now.AddDate(0, 0, days))
	return ca, leaf, err
}
