package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"usher.dev/usher/server/callers"
)

// callerFlags say who may post reviews.
type callerFlags struct {
	auth, clientCA, tokenFile string
	names                     []string
}

const authOff, authLog, authEnforce = "off", "log", "enforce"

func (o *callerFlags) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.auth, "auth", authOff, "who may post reviews: off is everyone; enforce answers 401 to callers without a client certificate of --client-ca or a token of --bearer-token-file; log answers, and counts and logs them")
	set.StringVar(&o.clientCA, "client-ca", "", "file with the CAs of client certificates that --auth accepts, reloaded when it changes")
	set.StringSliceVar(&o.names, "client-names", nil, "common names or subject alternative names, one of which a client certificate must have (default: any)")
	set.StringVar(&o.tokenFile, "bearer-token-file", "", "file with the bearer tokens that --auth accepts, one in each line, reloaded when it changes")
}

func (o *callerFlags) check(plain bool) error {
	switch {
	case !slices.Contains([]string{authOff, authLog, authEnforce}, o.auth):
		return fmt.Errorf("--auth is %q: must be off, log or enforce", o.auth)
	case o.auth == authOff && (o.clientCA != "" || o.tokenFile != "" || len(o.names) > 0):
		return errors.New("--client-ca, --client-names and --bearer-token-file do nothing with --auth=off: " +
			"add --auth=log to see who calls, and then --auth=enforce")
	case o.auth != authOff && o.clientCA == "" && o.tokenFile == "":
		return fmt.Errorf("--auth=%s accepts no one: add --client-ca or --bearer-token-file", o.auth)
	case len(o.names) > 0 && o.clientCA == "":
		return errors.New("--client-names is for the certificates of --client-ca: add it, or leave out --client-names")
	case slices.Contains(o.names, ""):
		return errors.New("--client-names has an empty name")
	case plain && o.clientCA != "":
		return errors.New("--plain has no TLS, and so no client certificates: leave out --client-ca, and use --bearer-token-file")
	}
	return nil
}

// open returns the gate, or nil for --auth=off.
func (o *callerFlags) open(log logrus.FieldLogger) (*callers.Gate, error) {
	if o.auth == authOff || o.auth == "" {
		return nil, nil
	}
	var certificates *callers.Certificates
	var tokens *callers.Tokens
	var err error
	if o.clientCA != "" {
		if certificates, err = callers.OpenCertificates(o.clientCA, o.names); err != nil {
			return nil, err
		}
	}
	if o.tokenFile != "" {
		if tokens, err = callers.OpenTokens(o.tokenFile); err != nil {
			return nil, err
		}
	}
	return callers.NewGate(certificates, tokens, o.auth == authEnforce, log), nil
}
