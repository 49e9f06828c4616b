package whole

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// start starts a server that ends with the test.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits until a condition is nil.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	var err error
	for range 600 {
		if err = condition(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error(err)
}

var web = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}

// TestWhole: what a person expects of a cluster is there: namespaces, accounts, roles, quotas and the removal of Namespaces.
func TestWhole(t *testing.T) {
	s := start(t, Options{Controllers: true})
	client, ctx := clientOf(t, s.Config), t.Context()
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, shop, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}}
	if _, err := client.CoreV1().ResourceQuotas("shop").Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := client.CoreV1().Pods("shop").Create(ctx, &web, metav1.CreateOptions{})
		return err
	})
	eventually(t, func() error {
		q, err := client.CoreV1().ResourceQuotas("shop").Get(ctx, "few", metav1.GetOptions{})
		if used := q.Status.Used.Pods(); err == nil && used.String() != "1" {
			return errors.New("used: " + used.String())
		}
		return err
	})
	t.Run("roles", func(t *testing.T) { testRoles(t, s, client) })
	t.Run("network", func(t *testing.T) { testNetwork(t, client) })
	if err := client.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, err := client.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.New("the Namespace is still there")
		}
		return nil
	})
	if _, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{}); err != nil { // it does not keep Stop waiting
		t.Fatal(err)
	}
	s.Stop()
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want none after the end", s.Dir, err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(s.Config.Host, "https://")); err == nil {
		_ = c.Close()
		t.Error("it listens after the end")
	}
}

// testNetwork: the version can be read, and a webhook's Service is not dialled on the network.
func testNetwork(t *testing.T, client kubernetes.Interface) {
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := version.ParseSemantic(info.GitVersion); err != nil || !strings.HasPrefix(info.GitVersion, "v"+Versions()[0]) {
		t.Errorf("%s %v", info.GitVersion, err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}
	if _, err := client.CoreV1().Services("shop").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	none := registration.SideEffectClassNone
	hook := &registration.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Webhooks: []registration.ValidatingWebhook{{
		Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
		ClientConfig: registration.WebhookClientConfig{Service: &registration.ServiceReference{Namespace: "shop", Name: "hook"}},
		Rules: []registration.RuleWithOperations{{Operations: []registration.OperationType{"CREATE"}, Rule: registration.Rule{APIGroups: []string{""},
			APIVersions: []string{"v1"}, Resources: []string{"secrets"}}}}}}}
	hooks := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := hooks.Create(t.Context(), hook, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hooks.Delete(context.WithoutCancel(t.Context()), "hook", metav1.DeleteOptions{}) }()
	eventually(t, func() error {
		_, err := client.CoreV1().Secrets("shop").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "no endpoints available for service") {
			return fmt.Errorf("a call of a Service: %v", err)
		}
		return nil
	})
}

// testRoles: somebody with the role view may see pods, and nobody without a certificate may see anything.
func testRoles(t *testing.T, s *Server, client kubernetes.Interface) {
	ctx := t.Context()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "jane"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: "Group", Name: "readers"}}}
	if _, err := client.RbacV1().RoleBindings("shop").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path, err := s.Kubeconfig("jane", "readers")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: mode %v, %v; want one that only its owner reads", path, info.Mode(), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	jane := clientOf(t, config)
	eventually(t, func() error { _, err := jane.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{}); return err })
	if _, err := jane.CoreV1().Pods("shop").Create(ctx, &web, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a reader creates a pod: %v", err)
	}
	if _, err := clientOf(t, rest.AnonymousClientConfig(config)).CoreV1().Pods("shop").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("without a certificate: %v", err)
	}
}

// versionVariable is the environment variable with the version that TestEmulated emulates in a process of its own.
const versionVariable = "USHER_TEST_EMULATED"

// TestEmulated: each version is emulated, in a process of its own, and another one is refused.
func TestEmulated(t *testing.T) {
	if version := os.Getenv(versionVariable); version != "" {
		testEmulated(t, version)
		return
	}
	if _, err := Start(t.Context(), Options{Version: "1.33"}); err == nil || !strings.Contains(err.Error(), "1.33 cannot be emulated; choose one of 1.37") {
		t.Errorf("1.33: %v", err)
	}
	for _, version := range Versions()[1:] {
		t.Run(version, func(t *testing.T) {
			c := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestEmulated$")
			c.Env = append(os.Environ(), versionVariable+"="+version)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func testEmulated(t *testing.T, version string) {
	s := start(t, Options{Version: version, AllowAll: true})
	info, err := discovery.NewDiscoveryClientForConfigOrDie(s.Config).ServerVersion()
	if err != nil || info.EmulationMajor+"."+info.EmulationMinor != version {
		t.Errorf("it emulates %+v, %v; want %s", info, err, version)
	}
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	if _, err := clientOf(t, config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("anybody may do everything: %v", err)
	}
}
