package admit

import (
	"context"
	"reflect"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// TestNames: a rule for names is for objects with these names, also where the request has none.
func TestNames(t *testing.T) {
	of := func(meta string) *document.Document {
		d, err := document.Parse([]byte(`{"metadata":` + meta + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct {
		name          string
		request       Request
		target, shown string
		covered       bool
	}{
		{"named", Request{Name: "a"}, "a", "a", true},
		{"of a collection that is deleted", Request{OldObject: of(`{"name":"a"}`)}, "a", "a", true},
		{"named otherwise than a hand-written object", Request{Name: "a", OldObject: of(`{"name":"b"}`), Object: of(`{"name":"b"}`)}, "a", "a", true},
		{"in the object only", Request{Object: of(`{"name":"a","generateName":"b-"}`)}, "a", "a", true},
		{"not named yet", Request{Object: of(`{"generateName":"a"}`)}, "", "a*", false},
		{"without a name", Request{Object: of(`{}`)}, "", "", false},
		{"another", Request{OldObject: of(`{"name":"b"}`)}, "b", "b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.request.Resource.Resource, c.request.Operation = "secrets", admissionv1.Delete
			all := []string{"*"}
			covered := Rule{Groups: all, Versions: all, Resources: all, Operations: []admissionv1.Operation{"*"}, Names: []string{"a", "a*"}}.Covers(&c.request)
			if target, shown := c.request.TargetName(), c.request.ObjectName(); target != c.target || shown != c.shown || covered != c.covered {
				t.Errorf("%q, shown as %q, covered: %t", target, shown, covered)
			}
		})
	}
}

// TestMatchCovers: a match without a kind matches like a webhook's rule.
func TestMatchCovers(t *testing.T) {
	create, connect := admissionv1.Create, admissionv1.Connect
	rule := func(scope registration.ScopeType, group, version string, resources ...string) Match {
		return Match{Rule: Rule{Groups: []string{group}, Versions: []string{version}, Resources: resources,
			Operations: []admissionv1.Operation{create, connect}, Scope: scope}}
	}
	all, namespaced, cluster := registration.AllScopes, registration.NamespacedScope, registration.ClusterScope
	request := func(op admissionv1.Operation, namespace, group, version, resource, sub string) *Request {
		return &Request{Operation: op, Namespace: namespace, SubResource: sub,
			Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: resource}}
	}
	pod, exec := request(create, "ns", "", "v1", "pods", ""), request(connect, "ns", "", "v1", "pods", "exec")
	namespace, node := request(create, "ns", "", "v1", "namespaces", ""), request(create, "", "", "v1", "nodes", "")
	for _, c := range []struct {
		name    string
		match   Match
		request *Request
		want    bool
	}{
		{"exact", rule(all, "", "v1", "pods"), pod, true},
		{"another group", rule(all, "apps", "v1", "pods"), pod, false},
		{"another version", rule(all, "", "v2", "pods"), pod, false},
		{"any group and version", rule(all, "*", "*", "services", "pods"), pod, true},
		{"another operation", rule(all, "", "v1", "pods"), request(admissionv1.Delete, "ns", "", "v1", "pods", ""), false},
		{"a subresource is not its resource", rule(all, "", "v1", "pods"), exec, false},
		{"a subresource", rule(all, "", "v1", "pods/exec"), exec, true},
		{"another subresource", rule(all, "", "v1", "pods/attach"), exec, false},
		{"a resource is not its subresource", rule(all, "", "v1", "pods/exec"), pod, false},
		{"a subresource of any", rule(all, "", "v1", "*/exec"), exec, true},
		{"a resource with its subresources", rule(all, "", "v1", "pods/*"), pod, true},
		{"any subresource", rule(all, "", "v1", "pods/*"), exec, true},
		{"all resources", rule(all, "", "v1", "*"), pod, true},
		{"all resources, but no subresources", rule(all, "", "v1", "*"), exec, false},
		{"in a namespace", rule(namespaced, "", "v1", "*"), pod, true},
		{"in no namespace", rule(cluster, "", "v1", "*"), pod, false},
		{"of the cluster", rule(cluster, "", "v1", "*"), node, true},
		{"of the cluster, for namespaced", rule(namespaced, "", "v1", "*"), node, false},
		{"a Namespace is of the cluster", rule(cluster, "", "v1", "*"), namespace, true},
		{"a Namespace is not in itself", rule(namespaced, "", "v1", "*"), namespace, false},
		{"guessed from the kind", rule(all, "apps", "v1", "deployments"),
			&Request{Operation: create, Kind: metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.match.Covers(c.request); got != c.want {
				t.Errorf("covered: %v, want %v", got, c.want)
			}
		})
	}
}

// TestChainFor: the requests of the steps, without those of idle ones; the rules of matches without a kind stay as they are.
func TestChainFor(t *testing.T) {
	create, update := admissionv1.Create, admissionv1.Update
	rule := Match{Rule: Rule{Resources: []string{"pods"}, Operations: []admissionv1.Operation{create}}}
	steps := []Validator[Meta]{
		{For: Pods(create)}, {For: append(Pods(update, create), EphemeralContainers()...)}, {For: NodeStatus(), Idle: true}, {},
		{For: []Match{rule, rule}},
	}
	want := append(append(Pods(create, update), EphemeralContainers()...), rule, rule)
	if got := Validate(AsMeta, steps).For(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(steps[0].For[0].Operations) != 1 {
		t.Error("the match of a step has changed")
	}
}

// TestStepsJudgeTheirRequests: a step does not run for requests that another step of its chain judges.
func TestStepsJudgeTheirRequests(t *testing.T) {
	var ran []string
	step := func(name string, judged []Match) Validator[Meta] {
		return Validator[Meta]{Name: name, For: judged, Run: func(context.Context, *Request, *Meta) (field.ErrorList, error) {
			ran = append(ran, name)
			return nil, nil
		}}
	}
	chain := Validate(AsMeta, []Validator[Meta]{step("creations", Pods(admissionv1.Create)), step("updates", Pods(admissionv1.Update)), step("all", nil)})
	d, err := document.Parse([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req := &Request{Operation: admissionv1.Update, Object: d, Kind: Pods()[0].Kind, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}
	result, err := chain.Explained().Run(t.Context(), req, nil)
	if err != nil || !slices.Equal(ran, []string{"updates", "all"}) {
		t.Fatalf("ran %v, %v", ran, err)
	}
	if why := result.Steps[0].Why; !slices.Equal(why, []string{"the step does not judge UPDATE of pods"}) {
		t.Errorf("%q", why)
	}
}
