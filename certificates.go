package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"usher.dev/usher/certs"
)

// makeCerts is `usher certs init`: a CA, and a certificate for a Service, as files or as a Secret.
func makeCerts(_ context.Context, args []string, io stdio) error {
	set := flags("certs", io)
	service := set.String("service", "", "the Service that the certificate is for, as namespace/name; left out: this machine only")
	out := set.String("out", "", "directory to write ca.crt, ca.key, tls.crt and tls.key to (default: usher-certs, or nothing with -o secret)")
	output := set.StringP("output", "o", "files", "files, or secret: print a Secret manifest for kubectl; it has no CA key")
	secret := set.String("secret-name", "usher-tls", "the name of that Secret")
	overwrite := set.Bool("overwrite", false, "replace a CA that is there; whoever trusts it must then be given the new one")
	if err := set.Parse(args); err != nil {
		return err
	}
	if set.NArg() != 1 || set.Arg(0) != "init" {
		return errors.New("usage: usher certs init [flags]; `usher certs --help` lists the flags")
	}
	if *output != "files" && *output != "secret" {
		return fmt.Errorf("-o %s: must be files or secret", *output)
	}
	if *output == "secret" && *service == "" {
		return errors.New("-o secret: say which Service it is for: --service namespace/name")
	}
	ca, leaf, err := newCertificates(*service)
	if err != nil {
		return err
	}
	if *output == "files" && *out == "" {
		*out = "usher-certs"
	}
	if err := keepCertificates(*out, ca, leaf, *overwrite, io); err != nil {
		return err
	}
	if *output == "files" {
		return nil
	}
	manifest, err := certs.SecretManifest(*service, *secret, ca, leaf)
	if err == nil {
		_, err = io.out.Write(manifest)
	}
	return err
}

// keepCertificates writes all four files to a directory; an empty name keeps nothing.
func keepCertificates(dir string, ca, leaf certs.Pair, overwrite bool, io stdio) error {
	if dir == "" {
		return nil
	}
	if err := certs.WriteFiles(dir, ca, leaf, overwrite); err != nil {
		return fmt.Errorf("%w (flags --out, --overwrite)", err)
	}
	_, err := fmt.Fprintf(io.err, "wrote %s, %s, %s and %s to %s; keep the CA key out of the cluster, or throw it away\n",
		certs.CACertFile, certs.CAKeyFile, certs.CertFile, certs.KeyFile, dir)
	return err
}

func newCertificates(service string) (ca, leaf certs.Pair, err error) {
	names, err := certs.ServiceNames(service)
	if err != nil {
		return ca, leaf, err
	}
	now := time.Now()
	if ca, err = certs.NewAuthority(now); err != nil {
		return ca, leaf, err
	}
	leaf, err = certs.Issue(ca, names, now)
	return ca, leaf, err
}
