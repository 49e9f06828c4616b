package installed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"usher.dev/usher/admit/gate"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/config"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// Installation is usher as flags, and else its Deployment, say that it runs.
type Installation struct {
	suite.Instance
	Deployed Usher
	Unusable error  // what is wrong with the policy, or with the gates, of the Deployment: the instance has none
	Unknown  error  // why it is not known how usher runs
	Assumed  string // why it may run with another policy; "": it does not
}

// Of reads how usher is run. Without a Deployment, the instance has the policy of a file, or the embedded one.
func Of(ctx context.Context, source reader.Source, suites suite.List, at webhooks.Address, file string, gates gate.Set,
	gatesSet bool) (in Installation, err error) {
	in.Instance = suite.Instance{Suites: suites, Policy: suite.NoPolicy, Gates: gates}
	var unread error
	in.Deployed, unread = Find(ctx, source, at.Namespace, at.Service)
	switch {
	case errors.Is(unread, ErrNoPolicy) && file == "":
		in.Unusable = unread
	case file != "" || errors.Is(unread, reader.ErrNotFound):
		in.Policy, err = config.Load(file, suites.Schema())
	case unread != nil:
		in.Unknown = unread
	case in.Deployed.Name == "" && in.Deployed.Flag("config") != "":
		in.Unknown = fmt.Errorf("the policy of the Deployment %s/%s, %s, is from no ConfigMap; --config names a file with it", at.Namespace, at.Service,
			in.Deployed.Flag("config"))
	case in.Deployed.Name == "":
		in.Policy, err = config.Load("", suites.Schema())
	default:
		policy, problems := config.Parse(in.Deployed.Text, suites.Schema())
		if in.Unusable = joined(in.Deployed.Name, problems); in.Unusable == nil {
			in.Policy = policy
		}
	}
	if file == "" {
		in.Assumed = assumed(in.Deployed, unread, at)
	}
	if text := in.Deployed.Flag("feature-gates"); text != "" && !gatesSet {
		parsed, wrong := suites.ParseGates(text)
		if in.Gates = parsed; wrong != nil {
			in.Gates, in.Unusable = gates, errors.Join(in.Unusable, fmt.Errorf("the Deployment %s/%s: %w", at.Namespace, at.Service, wrong))
		}
	}
	return in, err
}

// assumed says why usher may run with another policy than that of the Deployment, or than the embedded one; "" if it does not. unread is why
// the Deployment could not be read, or nil.
func assumed(deployed Usher, unread error, at webhooks.Address) string {
	switch {
	case deployed.Idle:
		return fmt.Sprintf("the Deployment %s/%s, whose policy is assumed, has no replicas, so that usher runs elsewhere", at.Namespace, at.Service)
	case errors.Is(unread, reader.ErrNotFound) && !errors.Is(unread, ErrNoPolicy):
		return fmt.Sprintf("no Deployment %s/%s says which policy usher runs with, so that the embedded one is assumed", at.Namespace, at.Service)
	}
	return ""
}

// joined returns the problems of a file in one line, or nil.
func joined(file string, problems []error) error {
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", file, strings.Join(texts, "; "))
}
