package collections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/cluster"
)

// rivals are Koordinator's webhook configurations, by resource and name. usher does what they do: two translations of one pod, or two
// amplifiers of one node, compound.
var rivals = map[string]string{
	"mutatingwebhookconfigurations":   "koordinator-mutating-webhook-configuration",
	"validatingwebhookconfigurations": "koordinator-validating-webhook-configuration",
}

// RivalRule is the permission that CheckRivals takes.
func RivalRule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{registration.GroupName}, Verbs: []string{"get"}}
	for resource, name := range rivals {
		rule.Resources, rule.ResourceNames = append(rule.Resources, resource), append(rule.ResourceNames, name)
	}
	slices.Sort(rule.Resources)
	slices.Sort(rule.ResourceNames)
	return rule
}

// ErrRivals is the cause of CheckRivals' error when Koordinator's webhooks were found.
var ErrRivals = errors.New("webhooks of Koordinator are registered")

// CheckRivals gives an error if Koordinator's webhooks are registered for any of the resources, which are named as in a webhook's rule,
// such as pods or nodes/status.
func CheckRivals(ctx context.Context, c *cluster.Cluster, resources []string) error {
	for resource, name := range rivals {
		raw, err := c.Raw(ctx, "/apis/admissionregistration.k8s.io/v1", resource, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for Koordinator's webhooks: %w", err)
		}
		if taken, err := sharedResources(raw, resources); err != nil || len(taken) > 0 {
			return rivalry(resource, name, taken, err)
		}
	}
	return nil
}

func rivalry(resource, name string, taken []string, err error) error {
	if err != nil {
		return fmt.Errorf("looking for Koordinator's webhooks: %s: %w", name, err)
	}
	return fmt.Errorf("%w for %s, and two on one object compound: switch Koordinator's off (its gate WebhookFramework=false), or kubectl delete %s %s",
		ErrRivals, strings.Join(taken, ", "), resource, name)
}

// sharedResources are those of the resources that a webhook configuration is for.
func sharedResources(raw []byte, resources []string) (taken []string, err error) {
	var configuration struct {
		Webhooks []struct {
			Rules []registration.RuleWithOperations `json:"rules"`
		} `json:"webhooks"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &configuration); err != nil {
		return nil, err
	}
	for _, webhook := range configuration.Webhooks {
		for _, rule := range webhook.Rules {
			for _, r := range rule.Resources {
				if slices.Contains(resources, r) && !slices.Contains(taken, r) {
					taken = append(taken, r)
				}
			}
		}
	}
	return taken, nil
}
