package webhooks

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"

	"usher.dev/usher/admit"
)

// TestEntries: a route has a webhook for each scope that it is for. What the policy names need not opt in.
func TestEntries(t *testing.T) {
	create := []admissionv1.Operation{admissionv1.Create}
	named := func(scope registration.ScopeType, resources ...string) admit.Match {
		return admit.Match{Rule: admit.Rule{Groups: []string{""}, Versions: []string{"v1"}, Resources: resources, Operations: create, Scope: scope}}
	}
	usual := admit.Call{FailurePolicy: registration.Fail, TimeoutSeconds: 5, OptIn: admit.Label{Key: "in", Value: "yes"}}
	for _, c := range []struct {
		name string
		is   []admit.Match
		want string // name, scope, resources, namespaces left out, labels of namespaces and objects
	}{
		{"nothing", nil, ""},
		{"pods", admit.Pods(admissionv1.Create), "validate-x.usher.dev Namespaced pods [usher.dev/exempt=true kube-system,usher] in=yes -"},
		{"heartbeats", admit.NodeStatus(), "validate-x.usher.dev Cluster nodes/status - - in=yes"},
		{"one rule for one group", admit.Workloads(admissionv1.Create),
			"validate-x.usher.dev Namespaced deployments,statefulsets,daemonsets + jobs,cronjobs [usher.dev/exempt=true kube-system,usher] in=yes -"},
		{"by the policy", []admit.Match{named(registration.AllScopes, "secrets", "namespaces")},
			"validate-x.usher.dev Namespaced secrets,namespaces [usher.dev/exempt=true kube-system,usher] in=yes -; " +
				"cluster.validate-x.usher.dev Cluster secrets,namespaces [kube-system,usher] - -"},
		{"all, and one of them", []admit.Match{named(registration.NamespacedScope, "*"), named(registration.NamespacedScope, "secrets"),
			named(registration.NamespacedScope, "pods"), named(registration.NamespacedScope, "pods/*"), named(registration.NamespacedScope, "pods/*")},
			"validate-x.usher.dev Namespaced * + secrets,pods + pods/* [usher.dev/exempt=true kube-system,usher] in=yes -"},
		{"of the cluster, by the policy", []admit.Match{named(registration.ClusterScope, "namespaces")},
			"validate-x.usher.dev Cluster namespaces [kube-system,usher] - -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			routes := admit.OfSuite("core", usual, []admit.Route{{Path: "/validate-x", For: c.is, Chain: admit.Chain{}}})
			config := Validating(routes, Address{Namespace: "usher", Service: "usher"})
			var got []string
			for _, w := range config.Webhooks {
				got = append(got, inShort(w))
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), c.want)
			}
		})
	}
}

// inShort describes a webhook in one line.
func inShort(w Hook) string {
	var resources, exempt []string
	for _, r := range w.Rules {
		resources = append(resources, strings.Join(r.Resources, ","))
	}
	namespaces, objects := "-", "-"
	if s := w.NamespaceSelector; s != nil {
		for _, e := range s.MatchExpressions {
			if e.Key == admit.ExemptLabel {
				exempt = append([]string{e.Key + "=" + e.Values[0]}, exempt...)
			} else {
				exempt = append(exempt, strings.Join(e.Values, ","))
			}
		}
		if len(s.MatchLabels) > 0 {
			namespaces = "in=" + s.MatchLabels["in"]
		}
	}
	if w.ObjectSelector != nil {
		objects = "in=" + w.ObjectSelector.MatchLabels["in"]
	}
	out := "-"
	if len(exempt) > 0 {
		out = "[" + strings.Join(exempt, " ") + "]"
	}
	return strings.Join([]string{w.Name, string(*w.Rules[0].Scope), strings.Join(resources, " + "), out, namespaces, objects}, " ")
}
