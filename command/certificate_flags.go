package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"usher.dev/usher/certs"
	"usher.dev/usher/server"
)

// certificateFlags say where the serving certificate comes from.
type certificateFlags struct {
	server.Certificates
	source string // local or managed
	set    *pflag.FlagSet

	minVersion     string // of the profile
	suites, curves []string
}

const minLeafLife = 10 * time.Second

func (o *certificateFlags) addTo(set *pflag.FlagSet) {
	o.set = set
	set.StringVar(&o.Dir, "cert-dir", "", "directory with tls.crt and tls.key, reloaded when they change (default: as --certs says)")
	set.StringVar(&o.source, "certs", "local",
		"where the certificate comes from without --cert-dir: local is usher's own CA in --state-dir, for a laptop; "+
			"managed is Secrets of the cluster, which the replicas share and renew; they also write the caBundles")
	set.StringVar(&o.StateDir, "state-dir", ".state", "directory for the CA and the certificate of --certs=local")
	set.StringVar(&o.Service, "service", "usher/usher",
		"Service that the API server calls, as namespace/name: --certs=managed makes a certificate for it, and keeps the Secrets in its namespace")
	set.StringVar(&o.minVersion, "tls-min-version", "intermediate",
		"oldest version of TLS that is accepted: VersionTLS12 or VersionTLS13; or one of Mozilla's profiles: intermediate (1.2), modern (1.3)")
	set.StringSliceVar(&o.suites, "tls-cipher-suites", nil,
		"cipher suites for TLS 1.2, by their names in Go or OpenSSL (default: all with forward secrecy and authenticated encryption)")
	set.StringSliceVar(&o.curves, "tls-curves", nil,
		"groups for the key exchange, such as X25519MLKEM768,P256 (default: those of Go, with post-quantum ones first)")
	set.DurationVar(&o.LeafLife, "cert-lifetime", 30*24*time.Hour,
		"with --certs=managed: how long a certificate is valid; it is renewed after two thirds")
	set.DurationVar(&o.Life, "ca-lifetime", 365*24*time.Hour, "with --certs=managed: how long a CA is valid; it is renewed after two thirds")
}

func (o *certificateFlags) managed() bool { return o.source == "managed" }

func (o *certificateFlags) check() error {
	switch {
	case o.source != "local" && o.source != "managed":
		return fmt.Errorf("--certs %s: must be local or managed", o.source)
	case o.managed() && o.Dir != "":
		return errors.New("--certs=managed uses no directory: leave out --cert-dir")
	case o.LeafLife < minLeafLife:
		return fmt.Errorf("--cert-lifetime %s: must be at least %s", o.LeafLife, minLeafLife)
	case o.Life < 3*o.LeafLife:
		return fmt.Errorf("--ca-lifetime %s: must be at least three times --cert-lifetime, %s, because a certificate does not outlive its CA",
			o.Life, o.LeafLife)
	}
	for _, name := range []string{"cert-lifetime", "ca-lifetime"} {
		if !o.managed() && o.set.Changed(name) {
			return fmt.Errorf("--%s is for --certs=managed", name)
		}
	}
	if o.Service == "" || !strings.Contains(o.Service, "/") {
		return fmt.Errorf("--service %q: must be namespace/name", o.Service)
	}
	_, err := certs.ServiceNames(o.Service)
	return err
}
