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

// conflictingWebhooks are Koordinator's webhook configurations: resource to name. They do the same as usher: two
// translations of one pod, or two amplifications of one node, compound.
var conflictingWebhooks = map[string]string{
	"mutatingwebhookconfigurations":   "koordinator-mutating-webhook-configuration",
	"validatingwebhookconfigurations": "koordinator-validating-webhook-configuration",
}

// ConflictingWebhookRule returns the permission that CheckConflictingWebhooks needs.
func ConflictingWebhookRule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{registration.GroupName}, Verbs: []string{"get"}}
	for resource, name := range conflictingWebhooks {
		rule.Resources, rule.ResourceNames = append(rule.Resources, resource), append(rule.ResourceNames, name)
	}
	slices.Sort(rule.Resources)
	slices.Sort(rule.ResourceNames)
	return rule
}

// ErrConflictingWebhooks is wrapped by the error of CheckConflictingWebhooks if Koordinator's webhooks were found.
var ErrConflictingWebhooks = errors.New("webhooks of Koordinator are registered")

// CheckConflictingWebhooks returns an error if Koordinator's webhooks are registered for any of the resources, which
// are named as in the rules of a webhook, such as pods or nodes/status.
func CheckConflictingWebhooks(ctx context.Context, c *cluster.Cluster, resources []string) error {
	for resource, name := range conflictingWebhooks {
		raw, err := c.Raw(ctx, "/apis/admissionregistration.k8s.io/v1", resource, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for Koordinator's webhooks: %w", err)
		}
		if taken, err := sharedResources(raw, resources); err != nil || len(taken) > 0 {
			return conflictError(resource, name, taken, err)
		}
	}
	return nil
}

func conflictError(resource, name string, taken []string, err error) error {
	if err != nil {
		return fmt.Errorf("looking for Koordinator's webhooks: %s: %w", name, err)
	}
	return fmt.Errorf("%w for %s, and two on one object compound: switch Koordinator's off (its gate WebhookFramework=false), or kubectl delete %s %s",
		ErrConflictingWebhooks, strings.Join(taken, ", "), resource, name)
}

// sharedResources returns the resources that a webhook configuration covers, of those given.
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
