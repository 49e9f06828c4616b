// Package amplifytest simulates the API server and the writers of a node, for tests of steps that amplify.
package amplifytest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators/amplify"
)

// The users that write the node n1.
const (
	Kubelet    = "system:node:n1"
	Controller = "system:serviceaccount:kube-system:attachdetach-controller"
)

// Node simulates the API server and its clients: it keeps the stored node and sends every write through the steps.
type Node struct {
	T         *testing.T
	Stored    map[string]any
	Policy    *amplify.Overcommit
	Steps     func() []admit.Mutator[admit.Node]
	Away      bool // usher is down, and failurePolicy Ignore lets writes pass
	Warnings  []string
	Tolerated []string
}

// Object is a decoded JSON object.
type Object = map[string]any

// NewNode returns a node that is admitted by the given steps, under a policy with one pool.
func NewNode(t *testing.T, capacity amplify.Capacity, cpuRatio string, steps func(*config.Policy) []admit.Mutator[admit.Node]) *Node {
	f := &Node{T: t, Stored: Object{
		"metadata": Object{"name": "n1"},
		"status":   Object{"capacity": Object{}, "allocatable": Object{}},
	}}
	f.Steps = func() []admit.Mutator[admit.Node] { return steps(config.PolicyOf(f.Policy)) }
	f.Ratios(capacity, map[string]string{"cpu": cpuRatio})
	return f
}

// Ratios replaces the policy.
func (f *Node) Ratios(capacity amplify.Capacity, ratios map[string]string) {
	pool := amplify.Pool{Name: "default", Capacity: capacity, Ratios: map[corev1.ResourceName]string{}}
	for name, text := range ratios {
		pool.Ratios[corev1.ResourceName(name)] = text
	}
	f.Policy = &amplify.Overcommit{Pools: []amplify.Pool{pool}}
}

// Write sends one nodes/status update: the stored node with a change.
func (f *Node) Write(user string, change func(node Object)) {
	f.T.Helper()
	old, _ := json.Marshal(f.Stored)
	var node Object
	_ = json.Unmarshal(old, &node)
	change(node)
	sent, _ := json.Marshal(node)
	if !f.Away {
		after, _ := f.admit(user, sent, old)
		warnings, tolerated := f.Warnings, f.Tolerated
		again, edits := f.admit(user, after, old) // reinvocation: the same request again, with our own result
		f.Warnings, f.Tolerated = warnings, tolerated
		if edits > 0 {
			f.T.Fatalf("reinvocation changed the node:\n%s\n%s", after, again)
		}
		sent = after
	}
	f.Stored = Object{}
	_ = json.Unmarshal(sent, &f.Stored)
}

func (f *Node) admit(user string, sent, old []byte) (after []byte, operations int) {
	f.T.Helper()
	req := &admit.Request{Object: f.Parse(sent), OldObject: f.Parse(old)}
	req.UserInfo.Username = user
	chain := admit.Mutate(admit.AsNode, f.Steps())
	result, err := chain.Run(f.T.Context(), req, nil)
	if err != nil || len(result.Problems) > 0 {
		f.T.Fatalf("a heartbeat must pass: %v %v", err, result.Problems)
	}
	f.Warnings, f.Tolerated = req.Warnings(), req.ToleratedErrors()
	ops := req.Object.Patch()
	text, _ := json.Marshal(ops)
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		f.T.Fatal(err)
	}
	if after, err = patch.Apply(sent); err != nil {
		f.T.Fatalf("%s does not apply: %v", text, err)
	}
	return after, len(ops)
}

// Parse parses a document.
func (f *Node) Parse(raw []byte) *document.Document {
	f.T.Helper()
	d, err := document.Parse(raw)
	if err != nil {
		f.T.Fatal(err)
	}
	return d
}

// Post writes numbers, each as "cpu:allocatable/capacity"; an empty side is left as stored.
func (f *Node) Post(user string, numbers ...string) {
	f.T.Helper()
	f.Write(user, func(node Object) {
		for _, n := range numbers {
			name, pair, _ := strings.Cut(n, ":")
			allocatable, capacity, _ := strings.Cut(pair, "/")
			Put(node, "allocatable", name, allocatable)
			Put(node, "capacity", name, capacity)
		}
	})
}

// Put sets a quantity in a list of the node's status, unless value is empty.
func Put(node Object, list, name, value string) {
	if value != "" {
		node["status"].(Object)[list].(Object)[name] = value
	}
}

// Echo writes the node with a change of another field.
func (f *Node) Echo(user string) {
	f.T.Helper()
	f.Write(user, func(node Object) { node["status"].(Object)["volumesAttached"] = []any{} })
}

// Annotate sets the stored annotation; an empty text removes all annotations.
func (f *Node) Annotate(text string) {
	meta := f.Stored["metadata"].(Object)
	if text == "" {
		delete(meta, "annotations")
		return
	}
	meta["annotations"] = Object{amplify.AnnotationKey: text}
}

// Annotation returns the stored annotation.
func (f *Node) Annotation() string {
	annotations, _ := f.Stored["metadata"].(Object)["annotations"].(Object)
	text, _ := annotations[amplify.AnnotationKey].(string)
	return text
}

// Show returns allocatable/capacity of a resource as stored.
func (f *Node) Show(name string) string {
	status := f.Stored["status"].(Object)
	return fmt.Sprintf("%v/%v", status["allocatable"].(Object)[name], status["capacity"].(Object)[name])
}

// Want fails the test unless the resource is stored with the given numbers.
func (f *Node) Want(when, name, numbers string) {
	f.T.Helper()
	if got := f.Show(name); got != numbers {
		f.T.Fatalf("%s: %s is %s, want %s\nmemory %s", when, name, got, numbers, f.Annotation())
	}
}

// Milli returns n milli-units as a quantity.
func Milli(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }
