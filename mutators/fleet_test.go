package mutators

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/document"
)

const kubelet, controller = "system:node:n1", "system:serviceaccount:kube-system:attachdetach-controller"

// fleet plays the API server and its writers: it keeps the stored node and sends every write through the step, as the API
// server would.
type fleet struct {
	t        *testing.T
	stored   map[string]any
	policy   *config.Overcommit
	steps    func() []admit.Mutator[admit.Node]
	away     bool // usher is down and failurePolicy Ignore lets writes pass
	warnings []string
	troubles []string
}

type object = map[string]any

// newFleet is a node under the steps that a policy makes, with one pool.
func newFleet(t *testing.T, capacity config.Capacity, cpuRatio string, steps func(*config.Policy) []admit.Mutator[admit.Node]) *fleet {
	f := &fleet{t: t, stored: object{
		"metadata": object{"name": "n1"},
		"status":   object{"capacity": object{}, "allocatable": object{}},
	}}
	f.steps = func() []admit.Mutator[admit.Node] { return steps(&config.Policy{Overcommit: f.policy}) }
	f.ratios(capacity, map[string]string{"cpu": cpuRatio})
	return f
}

func (f *fleet) ratios(capacity config.Capacity, ratios map[string]string) {
	pool := config.Pool{Name: "default", Capacity: capacity, Ratios: map[corev1.ResourceName]string{}}
	for name, text := range ratios {
		pool.Ratios[corev1.ResourceName(name)] = text
	}
	f.policy = &config.Overcommit{Pools: []config.Pool{pool}}
}

// write sends one nodes/status update: the stored node with a change.
func (f *fleet) write(user string, change func(node object)) {
	f.t.Helper()
	old, _ := json.Marshal(f.stored)
	var node object
	_ = json.Unmarshal(old, &node)
	change(node)
	sent, _ := json.Marshal(node)
	if !f.away {
		after, _ := f.admit(user, sent, old)
		warnings, troubles := f.warnings, f.troubles
		again, edits := f.admit(user, after, old) // reinvocation: the same request once more, on our own result
		f.warnings, f.troubles = warnings, troubles
		if edits > 0 {
			f.t.Fatalf("reinvocation changed the node:\n%s\n%s", after, again)
		}
		sent = after
	}
	f.stored = object{}
	_ = json.Unmarshal(sent, &f.stored)
}

func (f *fleet) admit(user string, sent, old []byte) (after []byte, operations int) {
	f.t.Helper()
	req := &admit.Request{Object: f.parse(sent), OldObject: f.parse(old)}
	req.UserInfo.Username = user
	chain := admit.Mutate(admit.AsNode, f.steps())
	result, err := chain.Run(f.t.Context(), req, nil)
	if err != nil || len(result.Problems) > 0 {
		f.t.Fatalf("a heartbeat must pass: %v %v", err, result.Problems)
	}
	f.warnings, f.troubles = req.Warnings(), req.Troubles()
	ops := req.Object.Patch()
	text, _ := json.Marshal(ops)
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		f.t.Fatal(err)
	}
	if after, err = patch.Apply(sent); err != nil {
		f.t.Fatalf("%s does not apply: %v", text, err)
	}
	return after, len(ops)
}

func (f *fleet) parse(raw []byte) *document.Document {
	f.t.Helper()
	d, err := document.Parse(raw)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// post writes numbers, "cpu:allocatable/capacity" each; a side left empty is left as stored.
func (f *fleet) post(user string, numbers ...string) {
	f.t.Helper()
	f.write(user, func(node object) {
		for _, n := range numbers {
			name, pair, _ := strings.Cut(n, ":")
			allocatable, capacity, _ := strings.Cut(pair, "/")
			put(node, "allocatable", name, allocatable)
			put(node, "capacity", name, capacity)
		}
	})
}

func put(node object, list, name, value string) {
	if value != "" {
		node["status"].(object)[list].(object)[name] = value
	}
}

// echo is a write that touches something else.
func (f *fleet) echo(user string) {
	f.t.Helper()
	f.write(user, func(node object) { node["status"].(object)["volumesAttached"] = []any{} })
}

func (f *fleet) annotate(text string) {
	meta := f.stored["metadata"].(object)
	if text == "" {
		delete(meta, "annotations")
		return
	}
	meta["annotations"] = object{amplifiedAnnotation: text}
}

func (f *fleet) annotation() string {
	annotations, _ := f.stored["metadata"].(object)["annotations"].(object)
	text, _ := annotations[amplifiedAnnotation].(string)
	return text
}

func (f *fleet) show(name string) string {
	status := f.stored["status"].(object)
	return fmt.Sprintf("%v/%v", status["allocatable"].(object)[name], status["capacity"].(object)[name])
}

func (f *fleet) want(when, name, numbers string) {
	f.t.Helper()
	if got := f.show(name); got != numbers {
		f.t.Fatalf("%s: %s is %s, want %s\nmemory %s", when, name, got, numbers, f.annotation())
	}
}

func milli(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }
