package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"usher.dev/usher/certs"
)

// certificateFlags say where the serving certificate comes from.
type certificateFlags struct {
	source         string // local or managed
	dir, stateDir  string
	service        string
	leafLife, life time.Duration
	set            *pflag.FlagSet
}

const minLeafLife = 10 * time.Second

func (o *certificateFlags) addTo(set *pflag.FlagSet) {
	o.set = set
	set.StringVar(&o.dir, "cert-dir", "", "directory with tls.crt and tls.key, reloaded when they change (default: as --certs says)")
	set.StringVar(&o.source, "certs", "local", "where the certificate comes from without --cert-dir: local is a CA of its own in --state-dir, for a laptop; "+
		"managed is Secrets of the cluster: the replicas share and renew them, and write the caBundles")
	set.StringVar(&o.stateDir, "state-dir", ".state", "directory for the CA and the certificate of --certs=local")
	set.StringVar(&o.service, "service", "usher/usher", "with --certs=managed: Service that the certificate is for, as namespace/name; the Secrets are in its namespace")
	set.DurationVar(&o.leafLife, "cert-lifetime", 30*24*time.Hour, "with --certs=managed: how long a certificate is valid; it is renewed after two thirds")
	set.DurationVar(&o.life, "ca-lifetime", 365*24*time.Hour, "with --certs=managed: how long a CA is valid; it is renewed after two thirds")
}

func (o *certificateFlags) managed() bool { return o.source == "managed" }

func (o *certificateFlags) check() error {
	switch {
	case o.source != "local" && o.source != "managed":
		return fmt.Errorf("--certs %s: must be local or managed", o.source)
	case o.managed() && o.dir != "":
		return errors.New("--certs=managed uses no directory: leave out --cert-dir")
	case o.leafLife < minLeafLife:
		return fmt.Errorf("--cert-lifetime %s: must be at least %s", o.leafLife, minLeafLife)
	case o.life < 3*o.leafLife:
		return fmt.Errorf("--ca-lifetime %s: must be at least three times --cert-lifetime, %s, because a certificate does not outlive its CA", o.life, o.leafLife)
	}
	for _, name := range []string{"service", "cert-lifetime", "ca-lifetime"} {
		if !o.managed() && o.set.Changed(name) {
			return fmt.Errorf("--%s is for --certs=managed", name)
		}
	}
	if o.service == "" || !strings.Contains(o.service, "/") {
		return fmt.Errorf("--service %q: must be namespace/name", o.service)
	}
	_, err := certs.ServiceNames(o.service)
	return err
}
