// Package examine tests `usherctl doctor` without a manifest against a real API server: what is wrong is the first finding,
// nothing is found in a healthy cluster, and nothing is written. The API accepts no loopback address as an endpoint, so the
// tests run in a network of their own.
package examine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster  *kubetest.Cluster
	binary   string // of usher
	usherctl string // its path
	host     string // an address that endpoints may have
	healthy  *server
)

func TestMain(m *testing.M) {
	if err := kubetest.InOwnNetwork(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kubetest.Main(m, kubetest.Options{Services: true, ServiceAccounts: true}, start)
}

// start installs usher as deploy/overlays/production does, and a webhook of somebody else that is healthy.
func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if host, err = kubetest.OutsideAddress(); err != nil {
		return err
	}
	if usherctl, err = c.BuildUsherctl(ctx); err != nil {
		return err
	}
	if binary, err = c.BuildUsher(ctx); err != nil {
		return err
	}
	for _, namespace := range []string{
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": {"admission-webhook": "enabled", "foreign": "yes"}}}`,
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foreign"}}`,
	} {
		if err := c.Apply(ctx, namespace); err != nil {
			return err
		}
	}
	if err := install(ctx, "production"); err != nil {
		return err
	}
	if healthy, err = serve(ctx, "healthy", tls(certificate{})); err != nil {
		return err
	}
	return c.Apply(ctx, encode(configuration("Validating", "healthy", healthy.webhook("healthy"))))
}

// install applies an overlay, starts a replica with the arguments of its Deployment and the rights of its service
// account, and registers it as its Job does.
func install(ctx context.Context, overlay string) error {
	objects, err := cluster.Rendered(ctx, "deploy/overlays/"+overlay)
	if err != nil {
		return err
	}
	folder := filepath.Join(cluster.Dir(), "etc-usher")
	backend := ""
	if err := cluster.ServeService(ctx, "usher", "usher", func() string { return backend }); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "policy"), 0o700); err != nil {
		return err
	}
	var manifests, serveArgs, applyArgs []string
	for _, o := range objects {
		manifests = append(manifests, strings.ReplaceAll(encode(o), "API-SERVER-CIDR", "127.0.0.1"))
		switch o.String("kind") {
		case "ConfigMap":
			err = os.WriteFile(filepath.Join(folder, "policy", "policy.yaml"), []byte(o.String("data", "policy.yaml")), 0o600)
		case "Deployment":
			serveArgs = arguments(o, folder)
		case "Job":
			applyArgs = arguments(o, folder)
		}
		if err != nil {
			return err
		}
	}
	if err := cluster.Apply(ctx, strings.Join(manifests, "\n---\n")); err != nil {
		return err
	}
	if backend, err = replica(ctx, serveArgs); err != nil {
		return err
	}
	if err := endpoints(ctx, "usher", "usher", backend, true); err != nil {
		return err
	}
	if err := pod(ctx); err != nil {
		return err
	}
	config, err := cluster.ServiceAccountKubeconfig(ctx, "usher", "usher-webhooks")
	if err != nil {
		return err
	}
	// The Deployment has no pods here, so that it is never rolled out.
	if _, err := cluster.Kubectl(ctx, "-n", "usher", "delete", "deployment", "usher"); err != nil {
		return err
	}
	if _, err := cluster.RunProgram(ctx, "env", append([]string{"KUBECONFIG=" + config, binary}, applyArgs...)...); err != nil {
		return err
	}
	if err := cluster.Apply(ctx, strings.Join(manifests, "\n---\n")); err != nil {
		return err
	}
	_, err = cluster.Kubectl(ctx, "-n", "usher", "patch", "deployment", "usher", "--subresource=status", "--type=merge", "-p",
		`{"status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}}`)
	return err
}

// arguments returns the arguments of the container of a workload, with the directory and an address of this machine.
func arguments(o kubetest.Object, folder string) (args []string) {
	for _, arg := range o.List("spec", "template", "spec", "containers")[0].At("args").([]any) {
		text := strings.ReplaceAll(arg.(string), "/etc/usher", folder)
		switch {
		case strings.HasPrefix(text, "--listen=:"):
			text = "--listen=" + host + ":0"
		case strings.HasPrefix(text, "--ops-listen=:"):
			text = "--ops-listen=" + host + strings.TrimPrefix(text, "--ops-listen=") // where the API server's proxy finds it
		}
		args = append(args, text)
	}
	return args
}

// replica starts usher, and returns where it serves reviews.
func replica(ctx context.Context, args []string) (reviews string, err error) {
	config, err := cluster.ServiceAccountKubeconfig(ctx, "usher", "usher")
	if err != nil {
		return "", err
	}
	p, err := cluster.StartProgram("usher-0", "env", append([]string{"KUBECONFIG=" + config, binary}, args...)...)
	if err != nil {
		return "", err
	}
	err = kubetest.Eventually(ctx, func(ctx context.Context) error {
		for line := range strings.Lines(p.Log()) {
			var serving struct{ Msg, Reviews, Operations string }
			if json.Unmarshal([]byte(line), &serving) != nil || serving.Msg != "serving" {
				continue
			}
			reviews = serving.Reviews
			answer, err := http.Get("http://" + serving.Operations + "/readyz")
			if err != nil {
				return err
			}
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		return fmt.Errorf("usher is not ready: %s", p.Tail(5))
	})
	return reviews, err
}

// pod adds the pod that stands for the replica of usher, with the address of this machine.
func pod(ctx context.Context) error {
	err := cluster.Apply(ctx, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "usher-1", "namespace": "usher"}, "spec": {"nodeName": "a", "serviceAccountName": "usher", "securityContext":
		{"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [{"name": "usher", "image": "usher",
		"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`)
	if err == nil {
		_, err = cluster.Kubectl(ctx, "-n", "usher", "patch", "pod", "usher-1", "--subresource=status", "--type=merge", "-p",
			`{"status": {"phase": "Running", "podIP": "`+host+`", "podIPs": [{"ip": "`+host+`"}]}}`)
	}
	return err
}

// endpoints sets what is behind a Service.
func endpoints(ctx context.Context, namespace, service, address string, ready bool) error {
	ip, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	const all = "/apis/discovery.k8s.io/v1/namespaces/"
	if _, err := cluster.Admin().Delete(ctx, all+namespace+"/endpointslices/"+service+"-1"); err != nil && !strings.Contains(err.Error(), "not found") {
		return err
	}
	_, err = cluster.Admin().Create(ctx, all+namespace+"/endpointslices", kubetest.Object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": kubetest.Object{"name": service + "-1", "namespace": namespace, "labels": kubetest.Object{"kubernetes.io/service-name": service}},
		"ports":    []kubetest.Object{{"name": "https", "port": number}},
		"endpoints": []kubetest.Object{{"addresses": []string{ip}, "conditions": kubetest.Object{"ready": ready},
			"targetRef": kubetest.Object{"kind": "Pod", "namespace": namespace, "name": service + "-1"}}},
	})
	return err
}

// report is the tested part of what `usherctl doctor -o json` prints.
type report struct {
	Kind, Name, Webhook, Verdict string
	Findings                     []finding
}

type finding struct{ ID, Severity, Object, Message, Fix, Look, Link string }

// doctor runs `usherctl doctor` with a kubeconfig, and returns all findings in order and the exit code.
func doctor(ctx context.Context, t *testing.T, kubeconfig string, flags ...string) (found []finding, code int) {
	t.Helper()
	out, err := cluster.RunProgram(ctx, usherctl, append([]string{"doctor", "-o", "json", "--kubeconfig=" + kubeconfig}, flags...)...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var reports []report
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range reports {
		found = append(found, r.Findings...)
	}
	return found, code
}

func encode(o any) string {
	text, _ := json.Marshal(o)
	return string(text)
}
