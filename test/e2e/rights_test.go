package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

const rulesReview = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

// The identity of usher in deploy/base has the rights of every service account, and may read how usher is registered.
func TestShippedIdentityHasOneRight(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const accounts = "/api/v1/namespaces/usher/serviceaccounts"
	cluster.DeleteAfter(t, accounts+"/nobody")
	if _, err := cluster.Admin().Create(ctx, accounts, kubetest.Object{"metadata": kubetest.Object{"name": "nobody"}}); err != nil {
		t.Fatal(err)
	}
	nobody, err := cluster.ServiceAccount(ctx, "usher", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := cluster.ServiceAccount(ctx, "usher", "usher")
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"usher", "apps", "kube-system"} {
		var rules []string
		for _, client := range []*kubetest.Client{nobody, identity} {
			review, err := client.Create(ctx, rulesReview, kubetest.Object{"apiVersion": "authorization.k8s.io/v1",
				"kind": "SelfSubjectRulesReview", "spec": kubetest.Object{"namespace": namespace}})
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, sortedRules(review))
		}
		if more := slices.DeleteFunc(strings.Split(rules[1], "\n"), func(rule string) bool { return strings.Contains(rules[0], rule) }); len(more) != 1 ||
			!strings.Contains(more[0], `"resourceNames":["usher"]`) || !strings.Contains(more[0], `"verbs":["get"]`) {
			t.Errorf("in namespace %s usher's account may do more than others: %q", namespace, more)
		}
	}
	// The questions that an auditor would ask.
	for _, path := range []string{"/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/api/v1/namespaces/usher/secrets",
		"/api/v1/namespaces/usher/configmaps/usher-policy", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"} {
		if _, err := identity.Get(ctx, path); code(err) != 403 {
			t.Errorf("usher's account may read %s: %v", path, err)
		}
	}
	for _, kind := range []string{"mutating", "validating"} {
		path := "/apis/admissionregistration.k8s.io/v1/" + kind + "webhookconfigurations/"
		if _, err := identity.Get(ctx, path+"usher"); code(err) == 403 {
			t.Errorf("usher's account may not read how it is registered: %v", err)
		}
		if _, err := identity.Get(ctx, path+"other"); code(err) != 403 {
			t.Errorf("usher's account may read the webhooks of others: %v", err)
		}
		if _, err := identity.Delete(ctx, path+"usher"); code(err) != 403 {
			t.Errorf("usher's account may delete its webhooks: %v", err)
		}
	}
	if _, err := identity.Create(ctx, podPath("apps", "")+"?dryRun=All", pod("apps", "rights", "")); code(err) != 403 {
		t.Errorf("usher's account may create pods: %v", err)
	}
}

// sortedRules returns a line for each right. The API server does not sort them.
func sortedRules(review kubetest.Object) string {
	var rules []string
	for _, kind := range []string{"resourceRules", "nonResourceRules"} {
		for _, rule := range review.List("status", kind) {
			rules = append(rules, kubetest.Encode(rule))
		}
	}
	slices.Sort(rules)
	return strings.Join(rules, "\n")
}

// deploy/base mounts the token of the account into the pods of the Deployment only, and binds one role to it.
func TestShippedPodsGetOneRight(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	account := stored(ctx, t, "/api/v1/namespaces/usher/serviceaccounts/usher")
	if account["automountServiceAccountToken"] != false {
		t.Errorf("pods of the account get a token: %s", kubetest.Encode(account))
	}
	deployment := stored(ctx, t, "/apis/apps/v1/namespaces/usher/deployments/usher")
	spec := kubetest.Object(deployment.At("spec", "template", "spec").(map[string]any))
	if spec.String("serviceAccountName") != "usher" {
		t.Errorf("the Deployment runs as %q", spec.String("serviceAccountName"))
	}
	if spec["automountServiceAccountToken"] != true {
		t.Error("the Deployment mounts no token")
	}
	for _, kind := range []string{"rolebindings", "clusterrolebindings"} {
		bindings := stored(ctx, t, "/apis/rbac.authorization.k8s.io/v1/"+kind)
		for _, binding := range bindings.List("items") {
			for _, subject := range binding.List("subjects") {
				if subject.String("kind") == "ServiceAccount" && subject.String("namespace") == "usher" && binding.String("metadata", "name") != "usher-registration" {
					t.Errorf("%s %s is for usher's account", kind, binding.String("metadata", "name"))
				}
			}
		}
	}
}

// With the flags of deploy/base and outside of a pod, usher never calls the API server, with no identity.
func TestUsherAsksTheAPIServerNothing(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	if _, err := cluster.Admin().Create(ctx, podPath("apps", "")+"?dryRun=All", pod("apps", "rights", "")); err != nil {
		t.Fatal(err) // usher handles a review
	}
	events, err := cluster.Audit(func(e kubetest.AuditEvent) bool {
		// Only the usher of the next test uses the account.
		return strings.HasPrefix(e.UserAgent, "usher") && e.User.Username != "system:serviceaccount:usher:usher"
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		t.Errorf("usher called the API server: %s %s as %s", event.Verb, event.RequestURI, event.User.Username)
	}
}

// With --cluster=api usher watches the cluster. With only the rights of the overlay's ClusterRole it becomes ready, the
// API server refuses none of its requests, and it uses every right of the role.
func TestShippedRightsAreEnoughAndNoMore(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	if _, err := cluster.Kubectl(ctx, "apply", "-k", "deploy/crds"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all"); err != nil {
		t.Fatal(err)
	}
	for _, overlay := range []string{"koordinator", "koordinator-demo"} {
		t.Run(overlay, func(t *testing.T) {
			rendered, err := cluster.RenderDeploy(ctx, "deploy/overlays/"+overlay)
			if err != nil {
				t.Fatal(err)
			}
			var role kubetest.Object
			var flags []string
			for text := range strings.SplitSeq(rendered, "\n---\n") {
				var o kubetest.Object
				if err := yaml.Unmarshal([]byte(text), &o); err != nil {
					t.Fatal(err)
				}
				switch kind := o.String("kind"); kind {
				case "ClusterRole", "ClusterRoleBinding":
					if o.String("metadata", "name") != "usher" {
						continue // for certificates and the registration: see package overlays
					}
					cluster.DeleteAfter(t, "/apis/rbac.authorization.k8s.io/v1/"+strings.ToLower(kind)+"s/"+o.String("metadata", "name"))
					if err := cluster.Apply(ctx, text); err != nil {
						t.Fatal(err)
					}
					if kind == "ClusterRole" {
						role = o
					}
				case "Deployment":
					flags = clusterFlags(o)
				}
			}
			before := len(asUsher(t))
			starting, cancel := context.WithTimeout(ctx, 30*time.Second) // without a right it never becomes ready
			defer cancel()
			watcher, err := cluster.StartUsher(starting, kubetest.UsherOptions{
				Name: fmt.Sprint(overlay, "-", before), Flags: append(flags, "--kubeconfig="+usherKubeconfig(ctx, t))})
			if watcher != nil {
				t.Cleanup(watcher.Stop)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, cluster.LogsOf(10, overlay))
			}
			checkRights(t, role, asUsher(t)[before:])
		})
	}
}

// clusterFlags returns the shipped flags that determine usher's requests to the API server.
func clusterFlags(deployment kubetest.Object) (flags []string) {
	args, _ := deployment.List("spec", "template", "spec", "containers")[0].At("args").([]any)
	for _, arg := range args {
		for _, name := range []string{"--cluster=", "--feature-gates=", "--pod-enhanced-validator-config-namespace="} {
			if flag := arg.(string); strings.HasPrefix(flag, name) {
				flags = append(flags, flag)
			}
		}
	}
	return flags
}

// usherKubeconfig writes a kubeconfig with the token that a pod of the Deployment would have.
func usherKubeconfig(ctx context.Context, t *testing.T) string {
	t.Helper()
	answer, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/usher/serviceaccounts/usher/token",
		kubetest.Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"spec": kubetest.Object{"expirationSeconds": 3600}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cluster.Dir(), "usher-account.kubeconfig")
	if err := os.WriteFile(file, []byte(kubetest.Encode(kubetest.Object{"apiVersion": "v1", "kind": "Config", "current-context": "e2e",
		"clusters": []any{kubetest.Object{"name": "e2e", "cluster": kubetest.Object{
			"server": cluster.URL, "certificate-authority": filepath.Join(cluster.Dir(), "ca.crt")}}},
		"users": []any{kubetest.Object{"name": "usher", "user": kubetest.Object{"token": answer.String("status", "token")}}},
		"contexts": []any{kubetest.Object{"name": "e2e",
			"context": kubetest.Object{"cluster": "e2e", "user": "usher"}}}})), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// asUsher returns the requests of usher's account, without those that tests make as this account.
func asUsher(t *testing.T) []kubetest.AuditEvent {
	t.Helper()
	events, err := cluster.Audit(func(e kubetest.AuditEvent) bool {
		return e.User.Username == "system:serviceaccount:usher:usher" && !strings.HasPrefix(e.UserAgent, "Go-http-client")
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func checkRights(t *testing.T, role kubetest.Object, events []kubetest.AuditEvent) {
	t.Helper()
	used := map[string]bool{}
	for _, event := range events {
		used[event.ObjectRef.Resource] = true
		if event.ResponseStatus.Code == 403 {
			t.Errorf("the role lacks %s %s: %s", event.Verb, event.RequestURI, event.ResponseStatus.Message)
		}
		if !slices.Contains([]string{"get", "list", "watch"}, event.Verb) && event.ObjectRef.Resource != "selfsubjectreviews" {
			t.Errorf("usher writes: %s %s", event.Verb, event.RequestURI)
		}
	}
	for _, rule := range role.List("rules") {
		for _, resource := range rule.At("resources").([]any) {
			if resource != "elasticquotas/status" && !used[resource.(string)] { // there is no quota here: TestStatus of package quota needs the right
				t.Errorf("the role allows %s, which usher does not read", resource)
			}
		}
	}
	if len(role.List("rules")) == 0 {
		t.Error("the overlay has no role")
	}
}
