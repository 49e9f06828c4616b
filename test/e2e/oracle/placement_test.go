package oracle

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the internal pod
	"k8s.io/kubernetes/plugin/pkg/admission/podnodeselector"
	"k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction"
	restriction "k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction/apis/podtolerationrestriction"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

var placements = flag.Int("placements", 10, "how many policies with 50 namespaces and 500 pods each, at least, for TestPlacement")

// TestPlacement compares the steps node-selector and node-selector-limits with the API server's plugins PodNodeSelector
// and PodTolerationRestriction, on random policies, annotations and pods: the same pods are allowed, and they get the
// same node selector and tolerations.
func TestPlacement(t *testing.T) {
	g := &placing{kubetest.Random(t)}
	verdicts := map[string]int{}
	for i := 0; i < *placements || len(tooFew(verdicts)) > 0 && i < 10**placements; i++ {
		c := g.placementCase()
		server, err := newPlacementServer(t, fmt.Sprintf("placement-%d", time.Now().UnixNano()), c)
		if err != nil {
			t.Fatal(err)
		}
		plugins := c.plugins()
		for range 500 {
			namespace := c.namespaces[g.IntN(len(c.namespaces))]
			verdicts[comparePlacement(t, server, plugins, namespace, g.pod())]++
			if t.Failed() {
				text, _ := yaml.Marshal(c.policy)
				t.Fatalf("under the policy\n%s", text)
			}
		}
	}
	t.Logf("%v", verdicts)
	if few := tooFew(verdicts); len(few) > 0 {
		t.Errorf("too few are %s: %v", few, verdicts)
	}
}

// tooFew returns the verdicts that were hardly seen: how many pods a policy leaves unchanged differs much.
func tooFew(verdicts map[string]int) []string {
	return slices.DeleteFunc([]string{"changed", "unchanged", "refused"}, func(verdict string) bool { return verdicts[verdict] >= *placements*3 })
}

// comparePlacement returns the verdict: changed, unchanged or refused.
func comparePlacement(t *testing.T, server *apiServer, plugins []admission.Interface, namespace *corev1.Namespace, pod *corev1.Pod) string {
	t.Helper()
	want, refused := admitInTree(t, plugins, namespace.Name, pod)
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	request := &admissionv1.AdmissionRequest{Name: "p", Namespace: namespace.Name, Operation: admissionv1.Create,
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}
	attributes, err := (&sample{request: request}).attributes(asTyped, raw)
	if err != nil {
		t.Fatal(err)
	}
	got := server.admit(attributes)
	describe := func(format string, args ...any) {
		t.Errorf("%s\nannotations %q\npod %s", fmt.Sprintf(format, args...), namespace.Annotations, raw)
	}
	if got.err != nil && !strings.Contains(got.err.Error(), "denied the request") {
		describe("usher fails: %v", got.err)
	}
	if (got.err != nil) != (refused != nil) {
		describe("usher: %v\nthe plugins: %v", got.err, refused)
	}
	if got.err != nil || refused != nil {
		return "refused"
	}
	now := got.object.(*corev1.Pod).Spec
	if diff := cmp.Diff(placementOf(want.Spec), placementOf(now), cmpopts.EquateEmpty()); diff != "" {
		describe("-plugins +usher\n%s", diff)
	}
	if cmp.Equal(placementOf(pod.Spec), placementOf(now), cmpopts.EquateEmpty()) {
		return "unchanged"
	}
	return "changed"
}

func placementOf(spec corev1.PodSpec) []any { return []any{spec.NodeSelector, spec.Tolerations} }

// admitInTree returns the pod after the plugins, or why they refuse it.
func admitInTree(t *testing.T, plugins []admission.Interface, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	internal, after := &api.Pod{}, &corev1.Pod{}
	if err := legacyscheme.Scheme.Convert(pod.DeepCopy(), internal, nil); err != nil {
		t.Fatal(err)
	}
	attributes := admission.NewAttributesRecord(internal, nil, api.SchemeGroupVersion.WithKind("Pod"), namespace, "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{})
	for _, plugin := range plugins {
		if err := plugin.(admission.MutationInterface).Admit(t.Context(), attributes, nil); err != nil {
			return nil, err
		}
	}
	for _, plugin := range plugins {
		if err := plugin.(admission.ValidationInterface).Validate(t.Context(), attributes, nil); err != nil {
			return nil, err
		}
	}
	if err := legacyscheme.Scheme.Convert(internal, after, nil); err != nil {
		t.Fatal(err)
	}
	return after, nil
}

// placementCase is a policy, for usher and for the plugins, and namespaces.
type placementCase struct {
	policy     map[string]any
	selectors  map[string]string // the configuration of PodNodeSelector
	restricted *restriction.Configuration
	namespaces []*corev1.Namespace
}

// plugins returns the API server's plugins, in its order.
func (c *placementCase) plugins() []admission.Interface {
	factory := informers.NewSharedInformerFactory(nil, 0)
	nowhere := kubernetes.NewForConfigOrDie(&rest.Config{Host: "127.0.0.1:1"}) // used only for a namespace that does not exist
	selector, tolerations := podnodeselector.NewPodNodeSelector(c.selectors), podtolerationrestriction.NewPodTolerationsPlugin(c.restricted)
	selector.SetExternalKubeClientSet(nowhere)
	selector.SetExternalKubeInformerFactory(factory)
	tolerations.SetExternalKubeClientSet(nowhere)
	tolerations.SetExternalKubeInformerFactory(factory)
	ready := func() bool { return true } // no informer runs, the store is complete
	selector.SetReadyFunc(ready)
	tolerations.SetReadyFunc(ready)
	for _, ns := range c.namespaces {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(ns); err != nil {
			panic(err)
		}
	}
	return []admission.Interface{selector, tolerations}
}

// newPlacementServer starts usher with a policy and namespaces, and returns an API server that calls it.
func newPlacementServer(t *testing.T, name string, c *placementCase) (*apiServer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	var names, texts []string
	for _, ns := range c.namespaces {
		text, err := yaml.Marshal(ns)
		if err != nil {
			return nil, err
		}
		names, texts = append(names, ns.Name), append(texts, string(text))
	}
	if err := os.WriteFile(filepath.Join(dir, "namespaces.yaml"), []byte(strings.Join(texts, "---\n")), 0o600); err != nil {
		return nil, err
	}
	policy, err := yaml.Marshal(c.policy)
	if err != nil {
		return nil, err
	}
	usher, err := sandbox.StartUsher(ctx, kubetest.UsherOptions{Name: name, Policy: string(policy), Flags: []string{"--cluster-dir=" + dir}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(usher.Stop)
	printed, err := usher.Webhooks(ctx)
	if err != nil {
		return nil, err
	}
	webhooks, err := parseConfigurations(printed)
	if err != nil {
		return nil, err
	}
	return newAPIServer(webhooks, names, nil)
}

// placing makes random policies, namespaces and pods. They share few keys and values, so that they meet.
type placing struct{ *rand.Rand }

func pick[T any](g *placing, from ...T) T { return from[g.IntN(len(from))] }

func (g *placing) placementCase() *placementCase {
	c := &placementCase{selectors: map[string]string{}, restricted: &restriction.Configuration{}}
	byDefault, allowed := g.labels(2), map[string]any{}
	c.selectors["clusterDefaultNodeSelector"] = asText(byDefault)
	for i := range 50 {
		ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("ns-%d", i), Annotations: g.annotations()}}
		c.namespaces = append(c.namespaces, ns)
		if labels := g.labels(4); g.IntN(3) == 0 && len(labels) > 0 {
			allowed[ns.Name], c.selectors[ns.Name] = labels, asText(labels)
		}
	}
	defaults, bound := g.tolerations(2, true), []corev1.Toleration{}
	if g.IntN(3) == 0 {
		bound = append(g.tolerations(4, true), corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: corev1.TolerationOpExists})
	}
	c.restricted.Default, c.restricted.Whitelist = internalTolerations(defaults), internalTolerations(bound)
	c.policy = map[string]any{"nodeSelector": map[string]any{"clusterDefault": byDefault, "allowed": allowed,
		"tolerations": map[string]any{"clusterDefault": defaults, "clusterAllowed": bound}}}
	return c
}

func asText(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, key+"="+value)
	}
	return strings.Join(all, ",")
}

func internalTolerations(all []corev1.Toleration) []api.Toleration {
	internal := make([]api.Toleration, len(all))
	for i := range all {
		if err := legacyscheme.Scheme.Convert(&all[i], &internal[i], nil); err != nil {
			panic(err)
		}
	}
	return internal
}

func (g *placing) labels(most int) map[string]string {
	labels := map[string]string{}
	for range g.IntN(most + 1) {
		labels[pick(g, "pool", "disk", "example.com/zone")] = pick(g, "a", "a", "b", "")
	}
	return labels
}

func (g *placing) annotations() map[string]string {
	annotations := map[string]string{"unrelated": "x"}
	if g.IntN(2) == 0 {
		annotations["scheduler.alpha.kubernetes.io/node-selector"] = g.selectorText()
	}
	for _, key := range []string{"scheduler.alpha.kubernetes.io/defaultTolerations", "scheduler.alpha.kubernetes.io/tolerationsWhitelist"} {
		if g.IntN(3) == 0 {
			annotations[key] = g.tolerationsText()
		}
	}
	return annotations
}

func (g *placing) selectorText() string {
	text := asText(g.labels(3))
	switch g.IntN(12) {
	case 0:
		return pick(g, "pool", " ", "pool==a", "pool!=a", "pool in (a)", "pool=a,", ",", "=", "=a", "a b=c", "pool=a b", "-=a", "pool=-", "pool=a=b", "pool=a;disk=b")
	case 1:
		return pick(g, " pool = a ", "pool=a , disk=b", "pool=a,pool=b", "pool=\ta", "pool=")
	}
	return text
}

func (g *placing) tolerationsText() string {
	switch g.IntN(12) {
	case 0:
		return pick(g, "{}", "[{]", " ", `[{"key":1}]`, `"a"`, `[null,{"key":"x"}]`, `[{"key":"a"}] `, `[{"key":"a"}]x`, `[{"tolerationSeconds":"5"}]`)
	case 1:
		return pick(g, "", "null", "[]", `[{"KEY":"a","Operator":"Exists"}]`, `[{"key":"a","key":"b","operator":"Exists"}]`, `[{"key":"a","operator":"Exists","more":1}]`)
	}
	all := g.tolerations(4, false)
	if g.IntN(2) == 0 {
		all = append(all, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: pick(g, "", corev1.TaintEffectNoSchedule)})
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// tolerations returns some that the API server accepts in a policy, or any.
func (g *placing) tolerations(most int, valid bool) []corev1.Toleration {
	all := []corev1.Toleration{}
	for range g.IntN(most + 1) {
		t := corev1.Toleration{Key: pick(g, "a", "b"), Operator: pick(g, "", corev1.TolerationOpEqual, corev1.TolerationOpExists),
			Effect: pick(g, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}
		if t.Operator != corev1.TolerationOpExists || !valid && g.IntN(8) == 0 {
			t.Value = pick(g, "", "1", "2")
		}
		if t.Effect == corev1.TaintEffectNoExecute && g.IntN(2) == 0 || !valid && g.IntN(8) == 0 {
			t.TolerationSeconds = new(g.Int64N(3))
		}
		if !valid && g.IntN(10) == 0 {
			t.Operator = pick[corev1.TolerationOperator](g, "Lt", "Gt", "exists")
		}
		if t.Operator == corev1.TolerationOpExists && g.IntN(6) == 0 || !valid && g.IntN(10) == 0 {
			t.Key = ""
		}
		all = append(all, t)
	}
	return all
}

func (g *placing) pod() *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	pod.Spec.NodeSelector, pod.Spec.Tolerations = g.labels(2), g.tolerations(3, false)
	for range g.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "c", Resources: g.resources()})
	}
	for range g.IntN(2) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "i", Resources: g.resources()})
	}
	if g.IntN(6) == 0 {
		whole := g.resources()
		pod.Spec.Resources = &whole
	}
	pod.Status.QOSClass = pick(g, "", "", "", "", corev1.PodQOSBestEffort, corev1.PodQOSGuaranteed, corev1.PodQOSBurstable)
	return pod
}

func (g *placing) resources() (r corev1.ResourceRequirements) {
	for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
		if g.IntN(2) > 0 {
			continue
		}
		*list = corev1.ResourceList{pick[corev1.ResourceName](g, "cpu", "memory", "nvidia.com/gpu", "ephemeral-storage"): pick(g, quantities...)}
	}
	return r
}

var quantities = []resource.Quantity{resource.MustParse("0"), resource.MustParse("0m"), resource.MustParse("1"), resource.MustParse("100m")}
