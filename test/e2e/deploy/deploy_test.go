// Package deploy keeps what the overlays of deploy/ promise, as they are rendered.
package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/e2e/kubetest"
)

// overlay holds the objects that a directory of deploy/overlays renders to.
type overlay struct {
	name     string
	objects  []kubetest.Object
	service  corev1.PodSpec
	job      corev1.PodSpec
	rollout  appsv1.Deployment
	template batchv1.Job
}

// The overlays, rendered once: it takes a second each.
var (
	cluster *kubetest.Cluster // without a control plane
	all     []overlay
)

func TestMain(m *testing.M) {
	code, err := runRendered(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runRendered renders all overlays and runs the tests.
func runRendered(m *testing.M) (code int, err error) {
	if cluster, err = kubetest.WithoutControlPlane(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	root, err := kubetest.Repository()
	if err != nil {
		return 0, err
	}
	files, _ := filepath.Glob(filepath.Join(root, "deploy", "overlays", "*", "kustomization.yaml"))
	if len(files) < 5 {
		return 0, fmt.Errorf("only the overlays %q were found", files)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		objects, err := cluster.Rendered(context.Background(), "deploy/overlays/"+name)
		if err != nil {
			return 0, err
		}
		o := overlay{name: name, objects: objects}
		if o.rollout, err = one[appsv1.Deployment](o, "Deployment", "usher"); err != nil {
			return 0, err
		}
		if o.template, err = one[batchv1.Job](o, "Job", "usher-webhooks"); err != nil {
			return 0, err
		}
		o.service, o.job = o.rollout.Spec.Template.Spec, o.template.Spec.Template.Spec
		all = append(all, o)
	}
	return m.Run(), nil
}

// of returns the objects of a kind.
func of[T any](t *testing.T, o overlay, kind string) (found []T) {
	t.Helper()
	for _, object := range o.objects {
		if object.String("kind") != kind {
			continue
		}
		value, err := as[T](object)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, value)
	}
	return found
}

// one returns the object of a kind and a name.
func one[T any](o overlay, kind, name string) (found T, err error) {
	for _, object := range o.objects {
		if object.String("kind") == kind && object.String("metadata", "name") == name {
			return as[T](object)
		}
	}
	return found, fmt.Errorf("%s: there is no %s %s", o.name, kind, name)
}

// as decodes an object.
func as[T any](object kubetest.Object) (value T, err error) {
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", object.String("kind"), object.String("metadata", "name"), err)
	}
	return value, err
}

// must returns a value that every overlay has.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// promise reports what is not kept.
func promise(t *testing.T, o overlay, kept bool, fix string, args ...any) {
	t.Helper()
	if !kept {
		t.Errorf("deploy/overlays/%s: %s", o.name, fmt.Sprintf(fix, args...))
	}
}

// TestObjects: neither keys nor configurations are applied, all has the label and is in one namespace, and rendering it
// twice gives the same.
func TestObjects(t *testing.T) {
	for _, o := range all {
		for _, object := range o.objects {
			kind, name := object.String("kind"), object.String("metadata", "name")
			promise(t, o, !slices.Contains([]string{"Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}, kind),
				"%s %s must not be applied: usher, cert-manager or the Job make it", kind, name)
			if kind == "CustomResourceDefinition" {
				continue
			}
			promise(t, o, object.String("metadata", "labels", "app.kubernetes.io/name") == "usher",
				"%s %s: has no label app.kubernetes.io/name: usher", kind, name)
			namespace := object.String("metadata", "namespace")
			promise(t, o, namespace == "usher" || strings.HasPrefix(kind, "Cluster") || kind == "Namespace",
				"%s %s: is in namespace %q", kind, name, namespace)
		}
		again, err := cluster.Rendered(t.Context(), "deploy/overlays/"+o.name)
		promise(t, o, err == nil && reflect.DeepEqual(o.objects, again), "rendering it twice gives different objects")
	}
}

// TestPods: every pod is restricted, whatever the overlay changes.
func TestPods(t *testing.T) {
	for _, o := range all {
		for _, pod := range []corev1.PodSpec{o.service, o.job} {
			user, own := pod.SecurityContext, pod.Containers[0].SecurityContext
			fixed := user.RunAsUser != nil && *user.RunAsUser == 65532 && user.FSGroup != nil && *user.FSGroup == 65532
			chosen := user.RunAsUser == nil && user.RunAsGroup == nil && user.FSGroup == nil
			promise(t, o, len(pod.Containers) == 1 && len(pod.InitContainers) == 0, "one container, which these promises look at")
			promise(t, o, user.RunAsNonRoot != nil && *user.RunAsNonRoot, "runAsNonRoot")
			promise(t, o, o.name != "openshift" && fixed || o.name == "openshift" && chosen,
				"runAsUser and fsGroup: 65532, or none on OpenShift, whose SCC refuses what it has not chosen")
			promise(t, o, user.SeccompProfile != nil && user.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"seccompProfile: RuntimeDefault")
			promise(t, o, *own.ReadOnlyRootFilesystem && !*own.AllowPrivilegeEscalation && len(own.Capabilities.Drop) == 1 && own.Capabilities.Add == nil,
				"a read-only root, no escalation, no capabilities")
			promise(t, o, strings.HasPrefix(pod.Containers[0].Image, "usher:"),
				"image %s: must be that of the base, so that one entry of images replaces both", pod.Containers[0].Image)
			promise(t, o, pod.Containers[0].Resources.Limits.Memory().Equal(*pod.Containers[0].Resources.Requests.Memory()),
				"memory is requested in full")
		}
		promise(t, o, o.service.PriorityClassName == "system-cluster-critical" && len(o.service.TopologySpreadConstraints) == 2,
			"priority and spread of the base")
		budget := of[policyv1.PodDisruptionBudget](t, o, "PodDisruptionBudget")
		replicas := *o.rollout.Spec.Replicas
		promise(t, o, replicas >= 2 && len(budget) == 1 && budget[0].Spec.MinAvailable.IntVal == replicas-1,
			"two replicas or more, of which one may be drained")
		rolling := o.rollout.Spec.Strategy.RollingUpdate
		shared := o.service.HostNetwork // with the node: it has each port once
		promise(t, o, rolling.MaxSurge.IntVal == 1 && rolling.MaxUnavailable.IntVal == 0 && !shared || rolling.MaxSurge.IntVal == 0 && rolling.MaxUnavailable.IntVal == 1 && shared,
			"maxUnavailable: 0, maxSurge: 1; with hostNetwork the opposite")
		quota := must(one[corev1.ResourceQuota](o, "ResourceQuota", "critical-pods"))
		promise(t, o, quota.Spec.Hard.Pods().Value() >= int64(4*replicas), "the quota must allow four times the replicas")
	}
}

// TestRights: no right is for more than it has to be, and a pod has a token only if its account has rights.
func TestRights(t *testing.T) {
	named := []string{"secrets", "deployments", "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "configmaps"}
	for _, o := range all {
		var rules []rbacv1.PolicyRule
		for _, role := range of[rbacv1.Role](t, o, "Role") {
			rules = append(rules, role.Rules...)
		}
		for _, role := range of[rbacv1.ClusterRole](t, o, "ClusterRole") {
			rules = append(rules, role.Rules...)
			for _, rule := range role.Rules {
				promise(t, o, !slices.Contains(rule.Resources, "secrets"), "ClusterRole %s: Secrets belong into a Role", role.Name)
			}
		}
		for _, rule := range rules {
			everything := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
			promise(t, o, !slices.Contains(everything, "*"), "a wildcard in %v", rule)
			for _, resource := range rule.Resources {
				promise(t, o, !slices.Contains(named, resource) || len(rule.ResourceNames) > 0, "%s without resourceNames: %v", resource, rule.Verbs)
				promise(t, o, resource != "secrets" || !slices.Contains(rule.Verbs, "list") && !slices.Contains(rule.Verbs, "watch"),
					"Secrets may be listed")
			}
		}
		bound := map[string]bool{}
		subjects := func(all []rbacv1.Subject) {
			for _, s := range all {
				promise(t, o, s.Kind == "ServiceAccount" && s.Namespace == "usher", "a right for %s %s/%s", s.Kind, s.Namespace, s.Name)
				bound[s.Name] = true
			}
		}
		for _, b := range of[rbacv1.RoleBinding](t, o, "RoleBinding") {
			subjects(b.Subjects)
		}
		for _, b := range of[rbacv1.ClusterRoleBinding](t, o, "ClusterRoleBinding") {
			subjects(b.Subjects)
		}
		for _, pod := range []corev1.PodSpec{o.service, o.job} {
			token := pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken
			promise(t, o, token == bound[pod.ServiceAccountName],
				"account %s: has rights: %t, its pods get a token: %t", pod.ServiceAccountName, bound[pod.ServiceAccountName], token)
		}
		for _, account := range of[corev1.ServiceAccount](t, o, "ServiceAccount") {
			promise(t, o, account.AutomountServiceAccountToken != nil && !*account.AutomountServiceAccountToken,
				"account %s: automountServiceAccountToken: false", account.Name)
		}
	}
}

// TestArguments: the binary takes the arguments, the certificate comes from one place, and the registered routes are
// the served ones.
func TestArguments(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	binary, err := cluster.BuildUsher(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		serve, apply := o.service.Containers[0].Args, o.job.Containers[0].Args
		for _, args := range [][]string{serve, apply} {
			if _, err := cluster.RunProgram(ctx, binary, append(slices.Clone(args), "--help")...); err != nil {
				t.Errorf("deploy/overlays/%s: %v", o.name, err)
			}
		}
		promise(t, o, serve[0] == "serve" && slices.Equal(apply[:3], []string{"webhooks", "apply", "--yes"}),
			"the Deployment serves, the Job registers")
		promise(t, o, flag(serve, "--feature-gates") == flag(apply, "--feature-gates"),
			"the Deployment and the Job need the same --feature-gates")
		promise(t, o, flag(serve, "--config") == flag(apply, "--config") && flag(apply, "--config") != "",
			"the Deployment and the Job need the same --config")
		managed, dir := flag(serve, "--certs") == "managed", flag(serve, "--cert-dir")
		mounted := slices.ContainsFunc(o.service.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "usher-tls" })
		promise(t, o, managed != (dir != "") && mounted == (dir != ""),
			"a certificate either of --certs=managed, or of --cert-dir with the Secret usher-tls mounted")
		promise(t, o, (flag(apply, "--suite") != "") == strings.HasPrefix(o.name, "koordinator"),
			"the colocation suite is registered by koordinator overlays, and by no other")
		promise(t, o, !strings.Contains(flag(apply, "--suite"), "colocation") || flag(serve, "--cluster") == "api",
			"the colocation suite needs --cluster=api")
	}
}

// flag returns the value of a flag, or "".
func flag(args []string, name string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}

// TestJob: the Service does not lead to the Job's pod, and every tool replaces a Job that has ended.
func TestJob(t *testing.T) {
	for _, o := range all {
		service := must(one[corev1.Service](o, "Service", "usher"))
		promise(t, o, o.template.Spec.Template.Labels["app.kubernetes.io/name"] != service.Spec.Selector["app.kubernetes.io/name"],
			"the Service leads to the Job's pod")
		annotations := o.template.Annotations
		promise(t, o, annotations["argocd.argoproj.io/hook"] == "PostSync" &&
			annotations["kustomize.toolkit.fluxcd.io/force"] == "enabled" && o.template.Spec.TTLSecondsAfterFinished != nil,
			"Argo CD, Flux and kubectl must be able to run the Job again")
	}
}

// TestNetwork: production admits no client but the API server to the port of reviews, and lets usher reach nothing but
// it.
func TestNetwork(t *testing.T) {
	for _, o := range all {
		policy := must(one[networkingv1.NetworkPolicy](o, "NetworkPolicy", "usher"))
		if o.name != "production" {
			continue
		}
		promise(t, o, len(policy.Spec.PolicyTypes) == 2 && len(policy.Spec.Egress) == 2, "ingress and egress")
		for _, rule := range policy.Spec.Ingress {
			for _, port := range rule.Ports {
				promise(t, o, port.Port.IntVal != 9443 || len(rule.From) > 0, "port 9443 is open to every client")
			}
		}
		for _, rule := range policy.Spec.Egress {
			promise(t, o, len(rule.To) > 0, "usher may connect to everything")
		}
	}
}

// TestOverlaysAreDocumented: deploy/README.md says whom each is for.
func TestOverlaysAreDocumented(t *testing.T) {
	readme, err := kubetest.ReadFile("deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		promise(t, o, strings.Contains(readme, "| ["+o.name+"](overlays/"+o.name+") |"), "the table of overlays in deploy/README.md has no row for it")
	}
}

// TestExamplesOfTheReadme: the kustomizations that deploy/README.md shows can be rendered, and the one for another namespace leaves
// nothing behind in usher's.
func TestExamplesOfTheReadme(t *testing.T) {
	readme, err := kubetest.ReadFile("deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)( *)```yaml\n *# kustomization.yaml\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(examples) < 2 {
		t.Fatalf("%d examples were found", len(examples))
	}
	for _, example := range examples {
		dir := t.TempDir()
		to, err := filepath.Rel(dir, root)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(strings.ReplaceAll("\n"+example[2], "\n"+example[1], "\n"), "path/to", to)
		text = strings.ReplaceAll(text, "sha256:...", "sha256:"+strings.Repeat("0", 64))
		for name, content := range map[string]string{"kustomization.yaml": text, "policy.yaml": "{}"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		rendered, err := cluster.RenderDeploy(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "door") && (strings.Contains(rendered, "namespace: usher\n") || strings.Count(rendered, "--service=door/usher") != 2) {
			t.Errorf("something is left in the namespace usher:\n%s", rendered)
		}
	}
}
