// Package deploy is manifests. Its tests keep what they promise.
package deploy

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/configtest"
	"usher.dev/usher/validators"
)

// Manifests: every file is one object, without a misspelt field, and listed where it has to be.

func TestBaseIsListed(t *testing.T) {
	k := readKustomization(t)
	listed := append(slices.Clone(k.Resources), k.ConfigMapGenerator[0].Files...)
	for _, file := range listed {
		if _, err := os.Stat(filepath.Join("base", file)); err != nil {
			t.Errorf("base/kustomization.yaml lists %s: %v", file, err)
		}
	}
	for _, file := range glob(t, "base/*") {
		if name := filepath.Base(file); name != "kustomization.yaml" && !slices.Contains(listed, name) {
			t.Errorf("%s is applied by nobody: list it in base/kustomization.yaml", file)
		}
	}
}

func TestBaseHoldsNeitherKeysNorWebhooks(t *testing.T) {
	for _, file := range readKustomization(t).Resources {
		switch read(t, filepath.Join("base", file)).(type) {
		case *corev1.Secret:
			t.Errorf("base/%s: a Secret does not belong into the repository; `usher certs init -o secret` makes it", file)
		case *registration.MutatingWebhookConfiguration, *registration.ValidatingWebhookConfiguration:
			t.Errorf("base/%s: would be applied before usher answers; `usher webhooks` prints it for afterwards", file)
		}
	}
	_ = filepath.WalkDir(".", func(file string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(file, ".go") && strings.Contains(text(t, file), "PRIVATE KEY") {
			t.Errorf("%s: holds a private key", file)
		}
		return err
	})
}

// What the demo shows is in the walk-through, and the other way about.
func TestDemoIsWalkedThrough(t *testing.T) {
	readme := text(t, "README.md")
	for _, file := range glob(t, "demo/*") {
		object := read(t, file)
		if !strings.Contains(readme, file) {
			t.Errorf("%s: README.md does not say what it is for", file)
		}
		if ns, ok := object.(*corev1.Namespace); ok {
			check(t, file, promises{
				{ns.Name == "apps", "the walk-through looks into namespace apps"},
				{ns.Labels["admission-webhook"] == "enabled", "label it admission-webhook: enabled, or usher is not asked about its pods"},
			})
		} else if meta, ok := object.(metav1.Object); !ok || meta.GetNamespace() != "apps" {
			t.Errorf("%s: put it into namespace apps, where usher is asked", file)
		}
	}
	for _, file := range regexp.MustCompile(`(?:deploy/)?(?:base|demo)/[a-z-]+\.yaml`).FindAllString(readme, -1) {
		if _, err := os.Stat(strings.TrimPrefix(file, "deploy/")); err != nil {
			t.Errorf("README.md: %v", err)
		}
	}
}

func TestDemoShowsWhatItSays(t *testing.T) {
	policy := readPolicy(t)
	offensive := find[corev1.Pod](t, "demo/offensive-pod.yaml")
	lifespan := find[corev1.Pod](t, "demo/lifespan-pod.yaml")
	wide := find[appsv1.Deployment](t, "demo/wide-deployment.yaml")
	denied := func(name string) bool {
		return slices.ContainsFunc(config.SectionOf[*validators.Names](policy).Denied, func(word string) bool { return strings.Contains(name, word) })
	}
	check(t, "demo", promises{
		{denied(offensive.Name), "offensive-pod.yaml: its name must contain a word that base/policy.yaml denies"},
		{!denied(lifespan.Name) && !denied(wide.Name), "only offensive-pod.yaml is to be refused"},
		{lifespan.Labels[config.SectionOf[*mutators.Lifespan](policy).Label] == "7", "lifespan-pod.yaml: README.md says that it asks for 7 days, with the label of base/policy.yaml"},
		{wide.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().Value() == 24, "wide-deployment.yaml: README.md says that it asks for 24 cores"},
		{wide.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType, "wide-deployment.yaml: a second pod beside the first never fits: use Recreate"},
		{matches(wide.Spec.Selector, wide.Spec.Template.Labels), "wide-deployment.yaml: the selector does not match the template's labels"},
	})
}

// Promises of the base.

func TestKustomization(t *testing.T) {
	k, pod := readKustomization(t), readDeployment(t).Spec.Template.Spec
	image, _, tagged := strings.Cut(pod.Containers[0].Image, ":")
	check(t, "base/kustomization.yaml", promises{
		{k.Namespace == readNamespace(t).Name, "namespace: must be the one of namespace.yaml"},
		{len(k.Labels) == 1 && k.Labels[0].Pairs["app.kubernetes.io/name"] == "usher", "labels: must put app.kubernetes.io/name: usher on every object"},
		{len(k.Labels) == 1 && !k.Labels[0].IncludeSelectors, "labels: must stay out of selectors, which the files spell out"},
		{k.ConfigMapGenerator[0].Options.DisableNameSuffixHash, "configMapGenerator: a hash in the name restarts usher for every edit of the policy"},
		{len(k.Images) == 1 && k.Images[0].Name == image && !tagged, "images: must name the image of deployment.yaml, which has no tag of its own"},
		{len(k.Images) == 1 && (k.Images[0].Digest != "" || !slices.Contains([]string{"", "latest"}, k.Images[0].NewTag)), "images: needs a digest, or a tag other than latest"},
	})
}

func TestNamespace(t *testing.T) {
	namespace := readNamespace(t)
	_, asked := namespace.Labels["admission-webhook"]
	check(t, "base/namespace.yaml", promises{
		{namespace.Labels["pod-security.kubernetes.io/enforce"] == "restricted", "label it pod-security.kubernetes.io/enforce: restricted"},
		{namespace.Labels["usher.dev/exempt"] == "true", `label it usher.dev/exempt: "true", or a configuration for another namespace would hold usher back`},
		{!asked, "usher must not be asked about its own pods: remove the label admission-webhook"},
	})
}

func TestPodIsRestricted(t *testing.T) {
	pod := readDeployment(t).Spec.Template.Spec
	container := pod.Containers[0]
	user, own := value(pod.SecurityContext), value(container.SecurityContext)
	capabilities := value(own.Capabilities)
	account := find[corev1.ServiceAccount](t, "base/serviceaccount.yaml")
	check(t, "base/deployment.yaml", promises{
		{len(pod.Containers) == 1 && len(pod.InitContainers) == 0, "more than one container: let these promises look at each"},
		{value(user.RunAsNonRoot), "spec.template.spec.securityContext: set runAsNonRoot: true"},
		{value(user.RunAsUser) == 65532 && value(user.RunAsGroup) == 65532, "securityContext: set runAsUser and runAsGroup to 65532, the image's user, as a number: a name cannot be checked"},
		{own.RunAsUser == nil && own.RunAsNonRoot == nil && own.SeccompProfile == nil, "the container's securityContext must not override the pod's"},
		{value(user.SeccompProfile).Type == corev1.SeccompProfileTypeRuntimeDefault, "securityContext: set seccompProfile: {type: RuntimeDefault}"},
		{value(own.ReadOnlyRootFilesystem), "the container's securityContext: set readOnlyRootFilesystem: true"},
		{is(own.AllowPrivilegeEscalation, false), "the container's securityContext: set allowPrivilegeEscalation: false"},
		{slices.Equal(capabilities.Drop, []corev1.Capability{"ALL"}) && len(capabilities.Add) == 0, "the container's securityContext: set capabilities: {drop: [ALL]}, add none"},
		{!value(own.Privileged) && !pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "no privileged container, no host namespaces"},
		{value(user.FSGroup) == 65532, "a mounted key is for usher's group only: fsGroup: 65532"},
		{pod.ServiceAccountName == account.Name, "serviceAccountName: must be the one of serviceaccount.yaml"},
		{is(account.AutomountServiceAccountToken, false) && value(pod.AutomountServiceAccountToken), "only the Deployment asks the API server: automountServiceAccountToken: false in serviceaccount.yaml, and true in the pod"},
	})
}

func TestShutdownFits(t *testing.T) {
	deployment := readDeployment(t)
	flags := readFlags(t)
	delay, grace := duration(t, flags["shutdown-delay"]), duration(t, flags["shutdown-grace"])
	total := time.Duration(value(deployment.Spec.Template.Spec.TerminationGracePeriodSeconds)) * time.Second
	check(t, "base/deployment.yaml", promises{
		{delay >= 5*time.Second, "--shutdown-delay: endpoints take seconds to reach every node; give at least 5s"},
		{grace >= 10*time.Second, "--shutdown-grace: a review may take as long as the API server waits; give at least 10s"},
		{total >= delay+grace+5*time.Second, fmt.Sprintf("terminationGracePeriodSeconds: is %v, must be --shutdown-delay + --shutdown-grace + 5s = %v or more", total, delay+grace+5*time.Second)},
	})
}

func TestPortsMeet(t *testing.T) {
	container := readDeployment(t).Spec.Template.Spec.Containers[0]
	flags := readFlags(t)
	service := find[corev1.Service](t, "base/service.yaml")
	network := find[networkingv1.NetworkPolicy](t, "base/networkpolicy.yaml")
	live, ready := value(value(container.LivenessProbe).HTTPGet), value(value(container.ReadinessProbe).HTTPGet)
	reviews, ops := listens(flags["listen"]), listens(flags["ops-listen"])
	var open []int32
	for _, rule := range network.Spec.Ingress {
		for _, port := range rule.Ports {
			open = append(open, containerPort(container, value(port.Port)))
		}
	}
	check(t, "base", promises{
		{reviews != 0 && ops != 0, "deployment.yaml: --listen and --ops-listen must be `:port`, every address of the pod"},
		{len(service.Spec.Ports) == 1 && service.Spec.Ports[0].Port == 443, "service.yaml: port must be 443, which `usher webhooks` prints"},
		{containerPort(container, service.Spec.Ports[0].TargetPort) == reviews, "service.yaml: targetPort must be the container port that --listen opens"},
		{live.Path == "/healthz" && containerPort(container, live.Port) == ops, "deployment.yaml: livenessProbe must ask /healthz on the container port that --ops-listen opens"},
		{ready.Path == "/readyz" && containerPort(container, ready.Port) == ops, "deployment.yaml: readinessProbe must ask /readyz on the container port that --ops-listen opens"},
		{value(container.LivenessProbe).FailureThreshold >= 3, "deployment.yaml: livenessProbe restarts usher after a single hiccup: set failureThreshold: 3"},
		{container.StartupProbe == nil, "deployment.yaml: usher starts at once: no startupProbe"},
		{slices.Equal(open, []int32{reviews, ops}), "networkpolicy.yaml: must open the ports of --listen and --ops-listen, and no other"},
		{slices.Equal(network.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}), "networkpolicy.yaml: is about Ingress"},
	})
}

// The component closes the port for reviews, keeps the operations port open, and cannot be applied before it is filled
// in.
func TestNetworkPolicyComponent(t *testing.T) {
	base := find[networkingv1.NetworkPolicy](t, "base/networkpolicy.yaml")
	closed := find[networkingv1.NetworkPolicy](t, "components/api-server-only/networkpolicy.yaml")
	if closed.Name != base.Name || len(closed.Spec.Ingress) != 2 || len(closed.Spec.Ingress[0].From) != 1 {
		t.Fatalf("components/api-server-only: must patch policy %s with two rules, the first from the API server: %+v", base.Name, closed)
	}
	reviews, operations, from := closed.Spec.Ingress[0], closed.Spec.Ingress[1], value(closed.Spec.Ingress[0].From[0].IPBlock)
	_, _, err := net.ParseCIDR(from.CIDR)
	check(t, "components/api-server-only", promises{
		{err != nil, "the address must be one that the API server refuses until it is filled in"},
		{reflect.DeepEqual(slices.Concat(reviews.Ports, operations.Ports), base.Spec.Ingress[0].Ports), "the ports must be those of base/networkpolicy.yaml"},
		{len(operations.From) == 0, "probes come from the nodes: the port of operations stays open"},
		{strings.Contains(text(t, "components/api-server-only/kustomization.yaml"), "kind: Component\n"), "must be a component, for overlays of every suite"},
	})
}

func TestSelectorsMeet(t *testing.T) {
	deployment := readDeployment(t)
	pod := deployment.Spec.Template.Labels
	service := find[corev1.Service](t, "base/service.yaml")
	budget := find[policyv1.PodDisruptionBudget](t, "base/poddisruptionbudget.yaml")
	network := find[networkingv1.NetworkPolicy](t, "base/networkpolicy.yaml")
	check(t, "base", promises{
		{matches(deployment.Spec.Selector, pod), "deployment.yaml: selector must match the template's labels"},
		{matches(&metav1.LabelSelector{MatchLabels: service.Spec.Selector}, pod), "service.yaml: selector must match the pods' labels"},
		{matches(budget.Spec.Selector, pod), "poddisruptionbudget.yaml: selector must match the pods' labels"},
		{matches(&network.Spec.PodSelector, pod), "networkpolicy.yaml: podSelector must match the pods' labels"},
		{service.Name == "usher" && readNamespace(t).Name == "usher", "service.yaml: the certificate and `usher webhooks` say usher/usher, for namespace and Service"},
	})
}

func TestFilesMeet(t *testing.T) {
	k, pod := readKustomization(t), readDeployment(t).Spec.Template.Spec
	flags := readFlags(t)
	policy := mounted(pod, path.Dir(flags["config"]))
	generator := k.ConfigMapGenerator[0]
	check(t, "base/deployment.yaml", promises{
		{value(policy.ConfigMap).Name == generator.Name, "--config: its directory must be where ConfigMap " + generator.Name + " is mounted whole: no subPath, which never changes"},
		{slices.Equal(generator.Files, []string{path.Base(flags["config"])}), "--config: must name the file that kustomization.yaml puts into the ConfigMap"},
		{!value(value(policy.ConfigMap).Optional), "volumes: without a policy usher must not start"},
		{len(pod.Volumes) == 1, "volumes: the base needs its policy, nothing else; components/certs-dir adds a certificate"},
	})
}

func TestResources(t *testing.T) {
	container := readDeployment(t).Spec.Template.Spec.Containers[0]
	limits, requests := container.Resources.Limits, container.Resources.Requests
	fixed := slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "GOMEMLIMIT" })
	_, throttled := limits[corev1.ResourceCPU]
	check(t, "base/deployment.yaml", promises{
		{!requests.Cpu().IsZero() && !requests.Memory().IsZero(), "resources.requests: set cpu and memory"},
		{!limits.Memory().IsZero() && requests.Memory().Cmp(*limits.Memory()) == 0, "resources.limits: set memory, as much as is requested"},
		{!throttled, "resources.limits: a cpu limit throttles usher in a burst; remove it"},
		{!fixed, "env GOMEMLIMIT: remove it; usher takes four fifths of limits.memory, also after an overlay has changed that"},
	})
}

func TestStaysUp(t *testing.T) {
	deployment := readDeployment(t)
	pod := deployment.Spec.Template.Spec
	budget := find[policyv1.PodDisruptionBudget](t, "base/poddisruptionbudget.yaml").Spec
	quota := find[corev1.ResourceQuota](t, "base/resourcequota.yaml").Spec
	rolling := value(deployment.Spec.Strategy.RollingUpdate)
	replicas := value(deployment.Spec.Replicas)
	spread := func(key string, how corev1.UnsatisfiableConstraintAction) bool {
		return slices.ContainsFunc(pod.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.TopologyKey == key && c.WhenUnsatisfiable == how && c.MaxSkew == 1 && slices.Equal(c.MatchLabelKeys, []string{"pod-template-hash"}) &&
				is(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyHonor) && matches(c.LabelSelector, deployment.Spec.Template.Labels)
		})
	}
	critical := quota.ScopeSelector != nil && slices.ContainsFunc(quota.ScopeSelector.MatchExpressions, func(r corev1.ScopedResourceSelectorRequirement) bool {
		return r.ScopeName == corev1.ResourceQuotaScopePriorityClass && r.Operator == corev1.ScopeSelectorOpIn && slices.Contains(r.Values, pod.PriorityClassName)
	})
	check(t, "base", promises{
		{replicas >= 2, "deployment.yaml: set replicas to 2 or more"},
		{is(rolling.MaxUnavailable, intstr.FromInt32(0)) && is(rolling.MaxSurge, intstr.FromInt32(1)), "deployment.yaml: rollingUpdate must be maxSurge 1, maxUnavailable 0"},
		{deployment.Spec.MinReadySeconds > 0, "deployment.yaml: set minReadySeconds, so that a rollout stops at a replica that does not last"},
		{spread("kubernetes.io/hostname", corev1.DoNotSchedule), "deployment.yaml: replicas must be spread over nodes (kubernetes.io/hostname, DoNotSchedule, maxSkew 1, nodeTaintsPolicy Honor, matchLabelKeys [pod-template-hash], the pods' labels)"},
		{spread("topology.kubernetes.io/zone", corev1.ScheduleAnyway), "deployment.yaml: replicas should be spread over zones (topology.kubernetes.io/zone, ScheduleAnyway, the rest as over nodes)"},
		{is(budget.MinAvailable, intstr.FromInt32(1)) && budget.MaxUnavailable == nil, "poddisruptionbudget.yaml: set minAvailable: 1"},
		{is(budget.UnhealthyPodEvictionPolicy, policyv1.AlwaysAllow), "poddisruptionbudget.yaml: set unhealthyPodEvictionPolicy: AlwaysAllow, or a pod that never gets ready holds up the drain of its node"},
		{pod.PriorityClassName == "system-cluster-critical", "deployment.yaml: only a critical pod can return to a node that is fuller than its real size"},
		{critical, "resourcequota.yaml: must be about the priority class of deployment.yaml"},
		{quota.Hard.Pods().Value() >= int64(4*replicas), "resourcequota.yaml: pods must be at least four times the replicas, or a rollout stops while older pods drain"},
	})
}

// Arguments are `--flag=value`, one a line, so that they can be compared with what the binary takes.
func TestArguments(t *testing.T) {
	container := readDeployment(t).Spec.Template.Spec.Containers[0]
	check(t, "base/deployment.yaml", promises{
		{len(container.Command) == 0, "command: leave it to the image"},
		{len(container.Args) > 0 && container.Args[0] == "serve", "args: must begin with serve"},
		{len(container.Args) == 1+len(readFlags(t)), "args: a flag stands there twice"},
	})
	for _, arg := range container.Args[1:] {
		if !regexp.MustCompile(`^--[a-z][a-z-]*=\S+$`).MatchString(arg) {
			t.Errorf("base/deployment.yaml: args: %q must be --flag=value", arg)
		}
	}
	if format := readFlags(t)["log-format"]; format != "json" {
		t.Errorf("base/deployment.yaml: --log-format is %q: a cluster's logs are read by machines: json", format)
	}
}

func TestPolicy(t *testing.T) {
	pools := config.SectionOf[*amplify.Overcommit](readPolicy(t)).Pools
	for _, pool := range pools {
		if pool.Capacity != amplify.Keep {
			t.Errorf("base/policy.yaml: pool %s: set capacity: keep; in a cluster capacity is the witness of the hardware", pool.Name)
		}
		if _, memory := pool.Ratios[corev1.ResourceMemory]; memory {
			t.Errorf("base/policy.yaml: pool %s: amplified memory ends in evictions; README.md says that only cpu is amplified", pool.Name)
		}
	}
}

// deploy.sh, with a kubectl that only tells how it was called.
func TestDeployScript(t *testing.T) {
	const kubectl = `kubectl --context=team/a (eu) \c ` // each call: the current context may change meanwhile
	remove, roll, wait, logs := kubectl+"-n usher delete job usher-webhooks --ignore-not-found", kubectl+"-n usher rollout status deployment/usher --timeout=3m",
		kubectl+"-n usher wait job/usher-webhooks --for=condition=Complete --timeout=3m", kubectl+"-n usher logs job/usher-webhooks"
	rendered := func(image, names string) string {
		return kubectl + "apply -f -: of deploy/overlays/demo - apply - --yes" + names + " image: " + image
	}
	for _, c := range []struct {
		name, overlay, image, fails, yes, exclude string
		suite                                     string
		want                                      []string
	}{
		{name: "as it is", want: []string{remove, rendered("usher:dev", " - --exclude-namespace=rook-ceph"), roll, wait, logs}},
		{name: "with an image", image: "registry.example/usher@sha256:1",
			want: []string{remove, rendered("registry.example/usher@sha256:1", " - --exclude-namespace=rook-ceph"), roll, wait, logs}},
		{name: "other namespaces are left out", exclude: "EXCLUDE=net disk",
			want: []string{remove, rendered("usher:dev", " - --exclude-namespace=net - --exclude-namespace=disk"), roll, wait, logs}},
		{name: "none is left out", exclude: "EXCLUDE=", want: []string{remove, rendered("usher:dev", ""), roll, wait, logs}},
		{name: "no replica answers", fails: "rollout", want: []string{remove, rendered("usher:dev", " - --exclude-namespace=rook-ceph"), roll}},
		{name: "the Job fails", fails: "wait", want: []string{remove, rendered("usher:dev", " - --exclude-namespace=rook-ceph"), roll, wait, logs + " --tail=20"}},
		{name: "it cannot be rendered", fails: "kustomize"},
		{name: "no context", fails: "context"},
		{name: "nobody to ask", fails: "question", yes: "0"},
		{name: "no such overlay", overlay: "other", fails: "overlay"},
		{name: "the old name", suite: "colocation", fails: "suite"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			calls := filepath.Join(root, "calls")
			write(t, filepath.Join(root, "deploy", "deploy.sh"), text(t, "deploy.sh"))
			write(t, filepath.Join(root, "deploy", "overlays", "demo", "kustomization.yaml"), "")
			write(t, filepath.Join(root, "path", "kubectl"), `#!/bin/sh
				case " $* " in
				*" current-context "*) [ "$FAILS" = context ] && exit 1; printf '%s\n' 'team/a (eu) \c'; exit ;;
				*" kustomize "*) [ "$FAILS" = kustomize ] && exit 1; printf 'of %s\n  - apply\n  - --yes\n  - --exclude-namespace=rook-ceph\n  image: usher:dev\n' "$2"; exit ;;
				*" -f - "*) printf '%s\n' "kubectl $*: $(tr -s '\n ' ' ' | sed 's/ $//')" >>"$CALLS" ;;
				*) printf '%s\n' "kubectl $*" >>"$CALLS" ;;
				esac
				case " $* " in *" ${FAILS:-nothing} "*) exit 1 ;; esac
			`)
			run := exec.CommandContext(t.Context(), filepath.Join(root, "deploy", "deploy.sh"))
			run.Env = append(os.Environ(), "PATH="+filepath.Join(root, "path")+":"+os.Getenv("PATH"),
				"CALLS="+calls, "FAILS="+c.fails, "IMAGE="+c.image, "OVERLAY="+c.overlay, "SUITE="+c.suite, "YES="+cmp.Or(c.yes, "1"))
			if c.exclude != "" {
				run.Env = append(run.Env, c.exclude)
			}
			output, err := run.CombinedOutput()
			if (err != nil) != (c.fails != "") {
				t.Errorf("deploy.sh: %v\n%s", err, output)
			}
			if len(c.want) > 0 && !strings.Contains(string(output), `into the cluster of the context team/a (eu) \c.`) {
				t.Errorf("deploy.sh does not name the context:\n%s", output)
			}
			if got := callsIn(calls); !slices.Equal(got, c.want) {
				t.Errorf("deploy.sh called\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// callsIn returns the lines of a file, or none if there is no file.
func callsIn(file string) []string {
	content, _ := os.ReadFile(file)
	return strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' })
}

// write makes an executable file.
func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Below: reading.

// promises lists the promises of a manifest, each with what to do when it is broken.
type promises []struct {
	kept bool
	fix  string
}

func check(t *testing.T, file string, list promises) {
	t.Helper()
	for _, p := range list {
		if !p.kept {
			t.Errorf("%s: %s", file, p.fix)
		}
	}
}

// kinds lists the kinds that manifests may hold.
var kinds = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, registration.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}()

// read reads a manifest of one object, as strictly as `kubectl apply --validate=strict`.
func read(t *testing.T, file string) runtime.Object {
	t.Helper()
	var head metav1.TypeMeta
	raw := []byte(text(t, file))
	if err := yaml.Unmarshal(raw, &head); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if strings.Contains(strings.TrimPrefix(string(raw), "---\n"), "\n---") {
		t.Fatalf("%s: holds more than one object; give each a file", file)
	}
	object, err := kinds.New(head.GroupVersionKind())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	decode(t, file, object)
	if meta, ok := object.(metav1.Object); !ok || meta.GetName() == "" {
		t.Fatalf("%s: has no name", file)
	}
	return object
}

func find[T any, P interface {
	*T
	runtime.Object
}](t *testing.T, file string) *T {
	t.Helper()
	object, ok := read(t, file).(P)
	if !ok {
		t.Fatalf("%s: is not a %T", file, *new(T))
	}
	return object
}

// decode tells misspelt, unknown and repeated fields, upper and lower case included.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(text(t, file)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	problems, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %v", file, problem)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}

// kustomization is as much of the format as the base uses.
type kustomization struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string   `json:"namespace"`
	Resources       []string `json:"resources"`

	ConfigMapGenerator []struct {
		Name    string   `json:"name"`
		Files   []string `json:"files"`
		Options struct {
			DisableNameSuffixHash bool `json:"disableNameSuffixHash"`
		} `json:"options"`
	} `json:"configMapGenerator"`
	Labels []struct {
		Pairs            map[string]string `json:"pairs"`
		IncludeSelectors bool              `json:"includeSelectors"`
	} `json:"labels"`
	Images []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
		Digest  string `json:"digest"`
	} `json:"images"`
}

func readKustomization(t *testing.T) kustomization {
	t.Helper()
	var k kustomization
	decode(t, "base/kustomization.yaml", &k)
	if len(k.ConfigMapGenerator) != 1 {
		t.Fatal("base/kustomization.yaml: must generate one ConfigMap, from policy.yaml")
	}
	return k
}

func readNamespace(t *testing.T) *corev1.Namespace {
	t.Helper()
	return find[corev1.Namespace](t, "base/namespace.yaml")
}

func readDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	deployment := find[appsv1.Deployment](t, "base/deployment.yaml")
	if len(deployment.Spec.Template.Spec.Containers) == 0 {
		t.Fatal("base/deployment.yaml: has no container")
	}
	return deployment
}

// readPolicy reads the deployed policy file with the rules of the service.
func readPolicy(t *testing.T) *config.Policy {
	t.Helper()
	steps := slices.Concat(admit.Mutate(admit.AsPod, mutators.Pods(config.PolicyOf(), admit.Questions{})).Steps(),
		admit.Mutate(admit.AsNode, mutators.Nodes(config.PolicyOf())).Steps(), admit.Validate(admit.AsPod, validators.Pods(config.PolicyOf(), admit.Questions{})).Steps())
	policy := configtest.Parse(t, text(t, "base/policy.yaml"), append(config.SchemaOf(steps...), config.Section[admit.Modes]{Name: "modes"})...)
	if config.SectionOf[*validators.Names](policy) == nil || config.SectionOf[*mutators.Lifespan](policy) == nil || config.SectionOf[*amplify.Overcommit](policy) == nil {
		t.Fatal("base/policy.yaml: the walk-through needs names, lifespan and overcommit")
	}
	return policy
}

// readFlags gives the container's arguments by flag.
func readFlags(t *testing.T) map[string]string {
	t.Helper()
	flags := map[string]string{}
	for _, arg := range readDeployment(t).Spec.Template.Spec.Containers[0].Args {
		if flag, ok := strings.CutPrefix(arg, "--"); ok {
			name, value, _ := strings.Cut(flag, "=")
			flags[name] = value
		}
	}
	return flags
}

// listens gives the port of an address that is open to other machines, or 0.
func listens(address string) int32 {
	port, ok := strings.CutPrefix(address, ":")
	n, err := strconv.ParseInt(port, 10, 32)
	if !ok || err != nil {
		return 0
	}
	return int32(n)
}

// containerPort gives the number of a port, which may be a name; 0 if the container does not declare it.
func containerPort(container corev1.Container, port intstr.IntOrString) int32 {
	for _, p := range container.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
			return p.ContainerPort
		}
	}
	return 0
}

// mounted gives the volume that is mounted, as a whole and for reading, at a directory.
func mounted(pod corev1.PodSpec, directory string) corev1.Volume {
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.MountPath == directory && m.SubPath == "" && m.SubPathExpr == "" && m.ReadOnly {
			return volume(pod, m.Name)
		}
	}
	return corev1.Volume{}
}

func volume(pod corev1.PodSpec, name string) corev1.Volume {
	for _, v := range pod.Volumes {
		if v.Name == name {
			return v
		}
	}
	return corev1.Volume{}
}

func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(set))
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("base/deployment.yaml: args: %v", err)
	}
	return d
}

// value gives what a manifest says, or the zero value if it says nothing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// is tells that a manifest says v, and not nothing.
func is[T comparable](p *T, v T) bool { return p != nil && *p == v }
