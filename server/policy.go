package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/override"
	"usher.dev/usher/config"
	"usher.dev/usher/server/callers"
	"usher.dev/usher/server/ratelimit"
	"usher.dev/usher/server/webhooks"
)

// accept returns an error for a policy that must not be used. The API server is not asked about the first one, so that usher starts
// without it; what it says of another one, run follows.
func (s *service) accept(policy *config.Policy) (j judgement, err error) {
	if err := s.usable(policy); err != nil {
		return j, err
	}
	j.of = policy.Trials()
	if s.inForce.Load() != nil {
		j = s.trials.judge(j.of)
	}
	return j, config.Refusal(s.Config, j.refused)
}

// logPolicy logs that a policy is in force, and what is probably not meant.
func (s *service) logPolicy(policy *config.Policy) {
	for _, warning := range policy.Warnings() {
		s.Log.Warn("policy: " + warning)
	}
	s.warnOfForgers(config.SectionOf[ratelimit.Policy](policy))
	s.warnOfEnds()
	off := strings.Join(policy.LeftOut(s.Suites.Schema()), ",")
	s.Log.WithFields(logrus.Fields{"file": cmp.Or(s.Config, "embedded default"), "off": off}).Info("policy in force")
}

// usable returns an error for a policy without a required section. It does so, too, for a policy that depends on namespaces if none can
// be known: what it selects by their labels would be selected never, and what it restricts be allowed.
func (s *service) usable(policy *config.Policy) error {
	if missing := without(s.RequireSections, policy.Sections()); len(missing) > 0 {
		return fmt.Errorf("policy %s: it lacks the sections %s, which --require-sections names: restore them, or take them out of the flag",
			cmp.Or(s.Config, "embedded default"), strings.Join(missing, ", "))
	}
	if s.Cluster.From == "api" || s.Cluster.Dir != "" || s.Cluster.Manifests != nil {
		return nil
	}
	if paths := policy.NamespaceReaders(); len(paths) > 0 {
		return fmt.Errorf("policy %s: %s: usher does not know any Namespace; serve with --cluster=api, or with --cluster-dir to try it",
			s.Config, admit.SomeNames(paths))
	}
	return nil
}

// compareRegistration warns if a new policy needs other webhooks than the policy before it.
func (s *service) compareRegistration(routes []admit.Route) {
	needed := webhooks.HooksOf(webhooks.OneAmplifier(routes), webhooks.Address{})
	if s.hooks != nil {
		for _, line := range webhooks.Differences(needed, s.hooks) {
			s.Log.Warnf("policy: the webhooks that the policy before it needed do not fit: %s; apply usher webhooks --config %s", line, s.Config)
		}
	}
	s.hooks = needed
}

// compareSections warns of sections that an earlier policy had and this one lacks: a file of which only a part was written is often
// valid, and switches off what the rest says.
func (s *service) compareSections(policy *config.Policy) {
	has := policy.Sections()
	dropped := without(s.sections, has)
	s.sections = slices.Concat(dropped, has)
	s.policy.dropped.Set(float64(len(dropped)))
	if len(dropped) > 0 {
		s.Log.WithField("sections", strings.Join(dropped, ",")).Warn("policy: sections that an earlier policy had are missing, and what they say " +
			"is switched off; usher serve --require-sections refuses a policy without them")
	}
}

// warnOfForgers warns that limits count by the user and namespace in a review, which any client can forge.
func (s *service) warnOfForgers(limits ratelimit.Policy) {
	refuses := func(l ratelimit.Limit) bool { return l.Mode != ratelimit.LimitLog }
	if s.Callers.Auth != callers.Enforce && slices.ContainsFunc(limits, refuses) {
		s.Log.Warn("policy: limits: without --auth=enforce, every client that reaches the port can use up the tokens of a user or namespace " +
			"with forged reviews, and requests of that user are refused; identify the API server, or use mode: log")
	}
}

// without returns the names that others do not contain.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// warnOfEnds logs the overrides of the policy in force that end soon, or have ended.
func (s *service) warnOfEnds() {
	if policy := s.inForce.Load(); policy != nil {
		for _, text := range config.SectionOf[override.List](policy).Ending(time.Now()) {
			s.Log.Warn("policy: " + text)
		}
	}
}

// daily calls a function once a day until ctx ends.
func daily(ctx context.Context, call func()) {
	for days := time.Tick(24 * time.Hour); ; {
		select {
		case <-ctx.Done():
			return
		case <-days:
			call()
		}
	}
}
