// Package static tests what `usher webhooks --static` prints: an API server that is started with these files calls
// usher from its very first request on, and no user can end that through the API.
package static

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

// TestStatic restarts an API server with usher's files. Clients create pods that usher refuses while it starts, so that
// the first request which the API server answers is one of them.
func TestStatic(t *testing.T) {
	if binaries.Emulated() != "" {
		t.Skip("the gate ManifestBasedAdmissionControlConfig came with Kubernetes 1.36")
	}
	dir := t.TempDir()
	admission := filepath.Join(dir, "admission.yaml")
	if err := os.WriteFile(admission, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster, err := kubetest.Start(ctx, kubetest.Options{APIServerFlags: []string{
		"--admission-control-config-file=" + admission, "--feature-gates=ManifestBasedAdmissionControlConfig=true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	usher, err := cluster.StartUsher(ctx, kubetest.UsherOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled"}}}`); err != nil {
		t.Fatal(err)
	}
	if out, err := usher.Run(ctx, "webhooks", "--static", "--static-dir="+dir, "--out="+dir, "--url="+usher.URL, "--ca-file="+usher.CAFile); err != nil || strings.Count(out, "\n") != 3 {
		t.Fatal(out, err)
	}
	if err := cluster.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { first <- firstAnswer(ctx, cluster.Admin()) }()
	if err := cluster.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	kubetest.RefusedWith(t, <-first, `admission webhook "validate-pods.usher.dev" denied the request`)

	admin := cluster.Admin()
	made, err := admin.Create(ctx, "/api/v1/namespaces/apps/pods", pod("harmless"))
	if err != nil || made.String("spec", "containers", 0, "env", 0, "name") != "KUBE" {
		t.Errorf("a pod was not changed: %v %v", made, err)
	}
	for _, kind := range []string{"mutating", "validating"} {
		path := "/apis/admissionregistration.k8s.io/v1/" + kind + "webhookconfigurations"
		if _, err := admin.Delete(ctx, path+"/usher.static.k8s.io"); err == nil {
			t.Errorf("the %s configuration was deleted through the API", kind)
		}
		if list, err := admin.Get(ctx, path); err != nil || len(list.List("items")) > 0 {
			t.Errorf("the API has %v: %v", list, err)
		}
	}
	_, err = admin.Create(ctx, "/api/v1/namespaces/apps/pods", pod("offensive"))
	kubetest.RefusedWith(t, err, "denied-names")
}

// firstAnswer creates a pod again and again, until the API server no longer answers that it, or what an answer needs,
// is not there yet.
func firstAnswer(ctx context.Context, admin *kubetest.Client) error {
	for ctx.Err() == nil {
		_, err := admin.Create(ctx, "/api/v1/namespaces/apps/pods", pod("offensive"))
		var refused *kubetest.StatusError
		switch {
		case err == nil:
			return errors.New("a pod was created that usher refuses")
		case !errors.As(err, &refused) || strings.Contains(refused.Message, "not yet ready") || refused.Code >= 500:
		case strings.Contains(refused.Message, "RBAC: "): // the roles are not read yet
		default:
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

func pod(name string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name},
		"spec": kubetest.Object{"containers": []kubetest.Object{{"name": "c", "image": "i"}}}}
}
