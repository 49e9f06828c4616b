package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"usher.dev/usher/server/callers"
)

// callerFlags say who may post reviews.
type callerFlags struct{ callers.Options }

func (o *callerFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.Auth, "auth", callers.Off,
		"who may post reviews: with off, everyone; with enforce, callers without a client certificate of --client-ca or a token of "+
			"--bearer-token-file get 401; with log, they are only counted and logged")
	set.StringVar(&o.ClientCA, "client-ca", "", "file with the CAs of client certificates that --auth accepts, reloaded when it changes")
	set.StringSliceVar(&o.Names, "client-names", nil,
		"common names or subject alternative names, one of which a client certificate must have (default: any)")
	set.StringVar(&o.TokenFile, "bearer-token-file", "", "file with the bearer tokens that --auth accepts, one per line, reloaded when it changes")
}

func (o *callerFlags) check(plain bool) error {
	switch {
	case !slices.Contains([]string{callers.Off, callers.Log, callers.Enforce}, o.Auth):
		return fmt.Errorf("--auth is %q: must be off, log or enforce", o.Auth)
	case o.Auth == callers.Off && (o.ClientCA != "" || o.TokenFile != "" || len(o.Names) > 0):
		return errors.New("--client-ca, --client-names and --bearer-token-file do nothing with --auth=off: " +
			"add --auth=log to see who calls, and then --auth=enforce")
	case o.Auth != callers.Off && o.ClientCA == "" && o.TokenFile == "":
		return fmt.Errorf("--auth=%s accepts no one: add --client-ca or --bearer-token-file", o.Auth)
	case len(o.Names) > 0 && o.ClientCA == "":
		return errors.New("--client-names is for the certificates of --client-ca: add it, or leave out --client-names")
	case slices.Contains(o.Names, ""):
		return errors.New("--client-names has an empty name")
	case plain && o.ClientCA != "":
		return errors.New("--plain has no TLS, and so no client certificates: leave out --client-ca, and use --bearer-token-file")
	}
	return nil
}
