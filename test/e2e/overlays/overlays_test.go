package overlays

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestDemo and the others: see through.
func TestDemo(t *testing.T) { through(t, "demo", nil, nil) }

func TestKoordinator(t *testing.T) { through(t, "koordinator", nil, nil) }

func TestHostNetwork(t *testing.T) { through(t, "host-network", nil, nil) }

func TestKoordinatorDemo(t *testing.T) { through(t, "koordinator-demo", nil, nil) }

// TestCertManager plays cert-manager, which issues into the Secret, and its cainjector.
func TestCertManager(t *testing.T) {
	through(t, "cert-manager", func(ctx context.Context, t *testing.T, i *installation) {
		certificate := i.object("Certificate", "usher-tls")
		if certificate.String("spec", "secretName") != "usher-tls" || fmt.Sprint(certificate.At("spec", "dnsNames")) != "[usher.usher.svc]" {
			t.Errorf("the Certificate is not for the Service: %v", certificate)
		}
		i.issue(ctx, t, true)
	}, annotated("cert-manager.io/inject-ca-from", "usher/usher-tls"))
}

// TestOpenShift plays its service CA, which writes no CA into the Secret, and fills in the caBundle where the
// annotation asks for it.
func TestOpenShift(t *testing.T) {
	through(t, "openshift", func(ctx context.Context, t *testing.T, i *installation) {
		if name := i.object("Service", "usher").String("metadata", "annotations", "service.beta.openshift.io/serving-cert-secret-name"); name != "usher-tls" {
			t.Errorf("the Service asks for the Secret %q", name)
		}
		ca := i.issue(ctx, t, false)
		go fillIn(ctx, ca)
	}, annotated("service.beta.openshift.io/inject-cabundle", "true"))
}

// TestProduction also lets a kubelet create a mirror pod, which usher is not asked about.
func TestProduction(t *testing.T) {
	through(t, "production", nil, func(ctx context.Context, t *testing.T, i *installation) {
		mutating, validating := configuration(ctx, t, "mutating"), configuration(ctx, t, "validating")
		for name, want := range map[string]string{"mutate-pods.usher.dev": "Ignore", "mutate-nodes.usher.dev": "Ignore", "validate-pods.usher.dev": "Fail"} {
			for _, w := range append(mutating.List("webhooks"), validating.List("webhooks")...) {
				if w.String("name") == name && w.String("failurePolicy") != want {
					t.Errorf("%s: failurePolicy %s, want %s", name, w.String("failurePolicy"), want)
				}
			}
		}
		node, err := cluster.Admin().Create(ctx, "/api/v1/nodes", kubetest.Object{"metadata": kubetest.Object{"name": "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		cluster.DeleteAfter(t, "/api/v1/nodes/n1", pods+"/offensive-n1")
		mirror := pod("offensive-n1")
		mirror["metadata"] = kubetest.Object{"name": "offensive-n1", "annotations": kubetest.Object{"kubernetes.io/config.mirror": "x"},
			"ownerReferences": []kubetest.Object{{"apiVersion": "v1", "kind": "Node", "name": "n1", "controller": true, "uid": node.String("metadata", "uid")}}}
		mirror["spec"].(kubetest.Object)["nodeName"] = "n1"
		if _, err := cluster.Node("n1").Create(ctx, pods, mirror); err != nil {
			t.Errorf("a mirror pod: %v", err)
		}
		for _, p := range i.pods {
			if strings.Contains(p.Log(), `"name":"offensive-n1"`) {
				t.Error("usher was asked about a mirror pod")
			}
		}
		delete(mirror["metadata"].(kubetest.Object), "ownerReferences")
		_, err = cluster.Admin().Create(ctx, pods, mirror) // the annotation alone is not enough
		kubetest.RefusedWith(t, err, "denied-names")
	})
}

// through installs an overlay, registers it, creates a pod that usher changes and a pod that it refuses, and removes
// the overlay again. Meanwhile pods are created, and none fails. before does what the cluster does for the overlay,
// after looks closer.
func through(t *testing.T, name string, before, after func(context.Context, *testing.T, *installation)) {
	ctx := cluster.Within(t, 3*time.Minute)
	stop := load(ctx, t)
	defer stop()
	i := install(ctx, t, name)
	if before != nil {
		before(ctx, t, i)
	}
	i.serve(ctx, t)
	if out := i.register(ctx, t); !strings.Contains(out, "registered") {
		t.Error(out)
	}
	called(ctx, t, true)
	changed, err := cluster.Admin().Create(ctx, pods, pod("changed"))
	if err != nil || changed.String("spec", "containers", 0, "env", 0, "name") != "KUBE" {
		t.Errorf("a pod was not changed: %v %v", changed, err)
	}
	cluster.DeleteAfter(t, pods+"/changed")
	_, err = cluster.Admin().Create(ctx, pods, pod("offensive"))
	kubetest.RefusedWith(t, err, "denied-names")
	if out := i.register(ctx, t); !strings.Contains(out, "nothing to do") {
		t.Errorf("a second time:\n%s", out)
	}
	if after != nil {
		after(ctx, t, i)
	}
	i.uninstall(ctx, t)
	stop()
	noneForbidden(t)
}

// noneForbidden fails the test if the API server refused anything to the accounts of the overlay.
func noneForbidden(t *testing.T) {
	t.Helper()
	events, err := cluster.Audit(func(e kubetest.AuditEvent) bool {
		return strings.HasPrefix(e.User.Username, "system:serviceaccount:usher:") && e.ResponseStatus.Code == 403
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		t.Errorf("%s may not %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Message)
	}
}

const pods = "/api/v1/namespaces/apps/pods"

// pod is a pod with a name.
func pod(name string) kubetest.Object {
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name},
		"spec": kubetest.Object{"automountServiceAccountToken": false, "containers": []kubetest.Object{{"name": "c", "image": "i"}}}}
}

// called waits until the API server asks usher about pods, or no longer does.
func called(ctx context.Context, t *testing.T, is bool) {
	t.Helper()
	err := kubetest.Eventually(ctx, func(ctx context.Context) error {
		if _, err := cluster.Admin().Create(ctx, pods+"?dryRun=All", pod("offensive")); (err != nil) != is {
			return fmt.Errorf("called must be %t: %v", is, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// load creates pods, as a dry run, until it is stopped, which fails the test if any request failed.
func load(ctx context.Context, t *testing.T) (stop func()) {
	t.Helper()
	return kubetest.Load(ctx, t, 10*time.Millisecond, func(ctx context.Context) error {
		_, err := cluster.Admin().Create(ctx, pods+"?dryRun=All", pod("harmless"))
		return err
	})
}

// annotated returns a check that both configurations have an annotation.
func annotated(key, value string) func(context.Context, *testing.T, *installation) {
	return func(ctx context.Context, t *testing.T, _ *installation) {
		for _, kind := range []string{"mutating", "validating"} {
			if got := configuration(ctx, t, kind).String("metadata", "annotations", key); got != value {
				t.Errorf("%s: annotation %s: %q, want %q", kind, key, got, value)
			}
		}
	}
}

func configurationPath(kind string) string {
	return "/apis/admissionregistration.k8s.io/v1/" + kind + "webhookconfigurations/usher"
}

func configuration(ctx context.Context, t *testing.T, kind string) kubetest.Object {
	t.Helper()
	c, err := cluster.Admin().Get(ctx, configurationPath(kind))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fillIn sets the caBundle of every entry that has none, until ctx ends.
func fillIn(ctx context.Context, ca string) {
	for ctx.Err() == nil {
		for _, kind := range []string{"mutating", "validating"} {
			c, err := cluster.Admin().Get(ctx, configurationPath(kind))
			if err != nil {
				continue
			}
			missing := false
			for _, w := range c.List("webhooks") {
				if w.String("clientConfig", "caBundle") == "" {
					w["clientConfig"].(map[string]any)["caBundle"], missing = ca, true
				}
			}
			if missing {
				_, _ = cluster.Admin().Update(ctx, configurationPath(kind)+"?fieldManager=service-ca-operator", c)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}
