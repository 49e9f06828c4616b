// Package overlays installs each overlay of deploy/ in a real cluster, and removes it again, while pods are created.
// The pods of the Deployment and of the Job run as processes: with the arguments and the service accounts of the
// overlay, and no other rights.
package overlays

import (
	"context"
	"fmt"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	binary  string
)

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{Services: true, ServiceAccounts: true, ControllerManager: true}, start)
}

// start creates what is in the cluster before usher: a namespace that asks for usher, and the kinds of cert-manager and
// Koordinator.
func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if binary, err = cluster.BuildUsher(ctx); err != nil {
		return err
	}
	if err := cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled"}}}`); err != nil {
		return err
	}
	for _, kind := range [][2]string{{"Issuer", "issuers"}, {"Certificate", "certificates"}} {
		if err := cluster.Apply(ctx, crd("cert-manager.io", kind[0], kind[1])); err != nil {
			return err
		}
	}
	if err := cluster.ApplyDeploy(ctx, "deploy/crds"); err != nil {
		return err
	}
	if _, err := cluster.Kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all"); err != nil {
		return err
	}
	return kubetest.Eventually(ctx, func(ctx context.Context) error {
		_, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/apps/serviceaccounts/default")
		return err
	})
}

// crd returns the definition of a kind with any content.
func crd(group, kind, plural string) string {
	return fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "%[3]s.%[1]s"},
		"spec": {"group": "%[1]s", "scope": "Namespaced", "names": {"kind": "%[2]s", "plural": "%[3]s"}, "versions": [{"name": "v1", "served": true,
		"storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`, group, kind, plural)
}
