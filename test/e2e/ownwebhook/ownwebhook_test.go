// Package ownwebhook tests samples/webhook with its own manifests in a real API server, which calls it by URL instead of by Service.
package ownwebhook

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

var cluster *kubetest.Cluster

func TestMain(m *testing.M) {
	kubetest.Main(m, kubetest.Options{}, func(_ context.Context, c *kubetest.Cluster) error {
		cluster = c
		return nil
	})
}

const (
	namespaces = "/api/v1/namespaces"
	pods       = namespaces + "/class/pods"
	node       = "/api/v1/nodes/own-node"
)

// TestOwnWebhook deploys samples/webhook, creates pods, and lets a kubelet and a controller write the status of a node.
func TestOwnWebhook(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	deploy(ctx, t)
	admin := cluster.Admin()
	for path, object := range map[string]string{
		namespaces:      `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "class", "labels": {"admission-webhook": "enabled"}}}`,
		"/api/v1/nodes": `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "own-node", "labels": {"admission-webhook": "enabled"}}}`,
	} {
		if _, err := admin.Create(ctx, path, object); err != nil {
			t.Fatal(err)
		}
	}
	if err := kubetest.Eventually(ctx, func(ctx context.Context) error { // until the API server has seen the configurations
		_, err := admin.Create(ctx, pods+"?dryRun=All", pod("offensive", "3"))
		if err == nil {
			return fmt.Errorf("an offensive pod is created")
		}
		if !strings.Contains(err.Error(), `contains "offensive"`) {
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	created, err := admin.Create(ctx, pods, pod("web", "12"))
	if err != nil {
		t.Fatal(err)
	}
	if text := kubetest.Encode(created); strings.Count(text, "lifespan-remaining") != 3 || strings.Count(text, "KUBE") != 2 {
		t.Errorf("want tolerations of 12 to 14 days, and KUBE in both containers: %s", text)
	}
	_, err = admin.Create(ctx, pods, pod("web-15", "15"))
	kubetest.RefusedWith(t, err, "must be a number of days from 0 to 14")
	if _, err := admin.Delete(ctx, pods+"/web"); err != nil {
		t.Error(err)
	}
	mirrors(ctx, t)
	heartbeats(ctx, t)
}

// mirrors creates the mirror pod of a static pod: from the kubelet it passes unchanged, from anyone else it is judged.
func mirrors(ctx context.Context, t *testing.T) {
	t.Helper()
	stored, err := cluster.Admin().Get(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	mirror := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "offensive-static", "annotations": {"kubernetes.io/config.mirror": "x"},
		"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "own-node", "uid": %q, "controller": true}]},
		"spec": {"nodeName": "own-node", "containers": [{"name": "a", "image": "example.com/a:1"}]}}`, stored.String("metadata", "uid"))
	_, err = cluster.Admin().Create(ctx, pods, mirror)
	kubetest.RefusedWith(t, err, `contains "offensive"`)
	created, err := cluster.Node("own-node").Create(ctx, pods, mirror)
	if err != nil {
		t.Fatal(err)
	}
	if text := kubetest.Encode(created); strings.Contains(text, "KUBE") || strings.Contains(text, "lifespan") {
		t.Errorf("a mirror pod is changed: %s", text)
	}
}

// heartbeats writes a status again and again: what was measured as 15900m stays 31800m.
func heartbeats(ctx context.Context, t *testing.T) {
	t.Helper()
	kubelet, controller := cluster.Node("own-node"), cluster.User("system:serviceaccount:kube-system:attachdetach-controller", "system:masters")
	for i, write := range []struct {
		by     *kubetest.Client
		status string
		want   string
	}{
		{kubelet, `"capacity": {"cpu": "16"}, "allocatable": {"cpu": "15900m"}`, "31800m"},
		{kubelet, `"phase": "Running"`, "31800m"},
		{controller, `"volumesAttached": [{"name": "v", "devicePath": "d"}]`, "31800m"},
		{controller, `"phase": "Pending"`, "31800m"},
		{kubelet, `"allocatable": {"cpu": "15900m"}`, "31800m"},
		{kubelet, `"allocatable": {"cpu": "15"}`, "30"},
		{controller, `"phase": "Running"`, "30"},
	} {
		stored, err := write.by.Patch(ctx, node+"/status", kubetest.StrategicPatch, `{"status": {`+write.status+`}}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := stored.String("status", "allocatable", "cpu"); got != write.want {
			t.Errorf("write %d: allocatable cpu %s, want %s: %v", i, got, write.want, stored.At("metadata", "annotations"))
		}
	}
}

func pod(name, days string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {"acme.com/lifespan-requested": %q}}, "spec": {
		"initContainers": [{"name": "init", "image": "example.com/a:1"}], "containers": [{"name": "a", "image": "example.com/a:1"}]}}`, name, days)
}

var service = regexp.MustCompile(`service: \{.*path: (\S+)\}`)

// deploy does what `make deploy` of samples/webhook does, with the process in the place of the image, and its URL in that of the Service.
func deploy(ctx context.Context, t *testing.T) {
	t.Helper()
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	host, ca := start(t, filepath.Join(root, "samples", "webhook"))
	dir := filepath.Join("samples", "webhook", "deploy")
	for _, file := range []string{"namespace.yaml", "deployment.yaml"} {
		if _, err := cluster.Kubectl(ctx, "apply", "-f", filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, dir, "webhooks.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	configurations := strings.ReplaceAll(string(text), "CA_BUNDLE", base64.StdEncoding.EncodeToString(ca))
	for _, apply := range []string{configurations, service.ReplaceAllString(configurations, "url: https://"+host+"$1")} { // as it is, and reachable
		cluster.MustApply(ctx, t, apply)
		if _, err := cluster.Kubectl(ctx, "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "webhook"); err != nil {
			t.Fatal(err) // the rescue in the manifest works
		}
	}
	cluster.MustApply(ctx, t, service.ReplaceAllString(configurations, "url: https://"+host+"$1"))
}

// start builds and starts the program in a folder, and returns its address and the CA that it made.
func start(t *testing.T, source string) (host string, ca []byte) {
	t.Helper()
	dir := t.TempDir()
	program, certs := filepath.Join(dir, "webhook"), filepath.Join(dir, "certs")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", source, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = listener.Addr().String()
	_ = listener.Close()
	if out, err := exec.CommandContext(t.Context(), program, "-certs", certs, "-make-certs").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ca, err = os.ReadFile(filepath.Join(certs, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	process := exec.CommandContext(ctx, program, "-listen", host, "-certs", certs)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = process.Wait() })
	return host, ca
}
