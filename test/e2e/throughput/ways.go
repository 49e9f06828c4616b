package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// The ways in which pods are created.
const (
	none         = "none"
	constantCore = "constant-core" // a constant webhook in the place of usher, with the same configuration and the same patch
	core         = "core"
	constantBoth = "constant-both"
	both         = "both"
)

// wayNames are in the order of a round.
var wayNames = []string{none, constantCore, core, constantBoth, both}

// way is a namespace, and the webhooks that are called for its pods. All ways are registered all the time, each for its
// namespace, so that nothing has to change between two rounds: the API server compares four selectors more for each pod,
// in all ways alike.
type way struct {
	name     string
	like     string   // the way whose pods come out the same
	webhooks []string // that are called for a new pod

	pid        func() int                  // of the webhook; nil without one
	begin, end func(context.Context) error // before and after a round; may be nil
}

// namespaceOf returns the namespace of a way.
func namespaceOf(way string) string { return "throughput-" + way }

// wayLabel is a label of the namespace of a way.
const wayLabel = "throughput"

// registration returns the configurations that usher prints, for one way: only for its namespace, at its port, under names
// of their own. Those of nodes, which have no namespace, are left out unless withNodes.
func registration(printed, way string, port int, withNodes bool) (configurations []kubetest.Object, err error) {
	for text := range strings.SplitSeq(printed, "\n---\n") {
		var o kubetest.Object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return nil, err
		}
		var kept []kubetest.Object
		for _, webhook := range o.List("webhooks") {
			if withNodes || !strings.HasPrefix(resourcesOf(webhook), "nodes") {
				restrict(webhook, way, port)
				kept = append(kept, webhook)
			}
		}
		o["metadata"], o["webhooks"] = map[string]any{"name": namespaceOf(way)}, kept
		configurations = append(configurations, o)
	}
	return configurations, nil
}

// restrict registers a webhook for a way.
func restrict(webhook kubetest.Object, way string, port int) {
	webhook["name"] = way + "." + webhook.String("name")
	service, _ := webhook.At("clientConfig", "service").(map[string]any)
	service["port"] = port
	if resourcesOf(webhook) == "nodes/status" {
		return // not of a namespace: the label of the node decides
	}
	selector := child(webhook, "namespaceSelector")
	child(selector, "matchLabels")[wayLabel] = way
}

// child returns the object at a key, which it adds if there is none.
func child(o map[string]any, key string) map[string]any {
	if c, ok := o[key].(map[string]any); ok {
		return c
	}
	c := map[string]any{}
	o[key] = c
	return c
}

// resourcesOf returns the resources of a webhook's rules, sorted, such as "pods pods/resize".
func resourcesOf(webhook kubetest.Object) string {
	var all []string
	for _, rule := range webhook.List("rules") {
		list, _ := rule["resources"].([]any)
		for _, one := range list {
			all = append(all, fmt.Sprint(one))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// calledForPods returns the names of the webhooks that are called for a new pod.
func calledForPods(configurations []kubetest.Object) (names []string) {
	for _, c := range configurations {
		for _, webhook := range c["webhooks"].([]kubetest.Object) {
			creates := slices.ContainsFunc(webhook.List("rules"), func(rule kubetest.Object) bool {
				return strings.Contains(fmt.Sprint(rule["operations"]), "CREATE")
			})
			if resources := strings.Fields(resourcesOf(webhook)); creates && slices.Contains(resources, "pods") {
				names = append(names, webhook.String("name"))
			}
		}
	}
	slices.Sort(names)
	return names
}

// register applies configurations.
func (w *world) register(ctx context.Context, configurations []kubetest.Object) error {
	for _, c := range configurations {
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := w.cluster.Apply(ctx, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// verify creates a pod as a dry run, until the API server calls exactly the webhooks of the way for it. The pod must be the same
// as in the ways that this one is compared with.
func (w *world) verify(ctx context.Context, of way) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return kubetest.Eventually(ctx, func(ctx context.Context) error {
		before, err := w.admin.Text(ctx, "/metrics")
		if err != nil {
			return err
		}
		pod, err := w.admin.Create(ctx, podsPath(of.name)+"?dryRun=All", w.pod.named("probe"))
		if err != nil {
			return err
		}
		after, err := w.admin.Text(ctx, "/metrics")
		if err != nil {
			return err
		}
		if called := newCalls(before, after); !slices.Equal(called, of.webhooks) {
			return fmt.Errorf("%s: the API server called the webhooks %v for a pod, want %v", of.name, called, of.webhooks)
		}
		return w.sameOutcome(of, pod)
	})
}

// sameOutcome returns an error unless a pod of this way is as those of the ways that it is compared with.
func (w *world) sameOutcome(of way, pod kubetest.Object) error {
	text, err := json.Marshal([]any{pod.At("metadata", "labels"), pod.At("metadata", "annotations"), pod["spec"]})
	if err != nil {
		return err
	}
	if first, known := w.outcomes[of.like]; known && first != string(text) {
		return fmt.Errorf("%s does not make of the pod what %s makes of it: %s, and %s", of.name, of.like, text, first)
	}
	w.outcomes[of.like] = string(text)
	return nil
}

var callCounter = regexp.MustCompile(`(?m)^apiserver_admission_webhook_request_total\{.*name="([^"]+)".*$`)

// newCalls returns the webhooks that the API server has called between two readings of its metrics.
func newCalls(before, after string) (names []string) {
	for _, counter := range callCounter.FindAllStringSubmatch(after, -1) {
		if !strings.Contains(before, counter[0]+"\n") {
			names = append(names, counter[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
