package main

import (
	"context"
	"fmt"
	"strings"

	"usher.dev/usher/e2e/kubetest"
)

const (
	clientGroup = "throughput-clients"
	usherUser   = "system:serviceaccount:usher:usher"
	service     = "usher" // and its namespace

	quotaLabel = "quota.scheduling.koordinator.sh/"
	leafQuota  = "throughput-leaf"
)

// objects returns the namespaces of the ways, the rights of the clients, and the Service of the webhooks. The Service is an
// ExternalName with an address: the API server then calls the webhooks as through any Service, over HTTP/1.1, and without
// a process in between.
func objects() string {
	all := []string{`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher"}}`,
		`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "usher", "namespace": "usher"},
			"spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}`,
		`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "throughput"},
			"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]}`,
		`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "throughput"},
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "throughput"},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "` + clientGroup + `"}]}`}
	for _, name := range wayNames {
		all = append(all, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q,
			"labels": {"admission-webhook": "enabled", %q: %q}}}`, namespaceOf(name), wayLabel, name))
	}
	return strings.Join(all, "\n---\n")
}

// addColocation creates ten profiles, of which one matches the pods, and a tree of quotas with room.
func (w *world) addColocation(ctx context.Context) error {
	if err := w.cluster.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		return err
	}
	if _, err := w.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"); err != nil {
		return err
	}
	all := []string{quota("throughput-top", "", "true"), quota(leafQuota, "throughput-top", "false")}
	for i := range 10 {
		name := "storefront"
		if i > 0 {
			name = fmt.Sprintf("other-%d", i)
		}
		all = append(all, fmt.Sprintf(`{"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile",
			"metadata": {"name": "throughput-%d"}, "spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": %q}},
			"labels": {"throughput-profile": "applied"}, "qosClass": "LS"}}`, i, name))
	}
	return w.cluster.Apply(ctx, strings.Join(all, "\n---\n"))
}

func quota(name, parent, isParent string) string {
	labels := fmt.Sprintf(`%q: %q`, quotaLabel+"is-parent", isParent)
	if parent != "" {
		labels += fmt.Sprintf(`, %q: %q`, quotaLabel+"parent", parent)
	}
	return fmt.Sprintf(`{"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
		"metadata": {"name": %q, "namespace": %q, "labels": {%s}}, "spec": {"max": {"cpu": "1000000", "memory": "1000Ti"}, "min": {}}}`,
		name, namespaceOf(both), labels)
}

// grant creates the rights that usher prints.
func grant(ctx context.Context, u *kubetest.Usher) error {
	rights, err := u.Run(ctx, "webhooks", "--rbac", suites, gates)
	if err != nil {
		return err
	}
	return u.Cluster().Apply(ctx, rights+"\n---\n"+`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": {"name": "usher"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "usher"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "`+usherUser+`"}]}`)
}
