package webhooks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/admit"
)

// wrote says that a manager wrote fields of an entry.
func wrote(manager, entry string, fields ...string) metav1.ManagedFieldsEntry {
	owned := map[string]any{}
	for _, field := range fields {
		if condition, is := strings.CutPrefix(field, "matchConditions/"); is {
			owned["f:matchConditions"] = map[string]any{fmt.Sprintf(`k:{"name":%q}`, condition): map[string]any{".": map[string]any{}, "f:expression": map[string]any{}}}
			continue
		}
		owned["f:"+field] = map[string]any{}
	}
	if slices.Contains(fields, "clientConfig") {
		owned["f:clientConfig"] = map[string]any{"f:url": map[string]any{}}
	}
	text, _ := json.Marshal(map[string]any{"f:webhooks": map[string]any{fmt.Sprintf(`k:{"name":%q}`, entry): owned}})
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(string(text))}
}

// everyField are the fields that a registration writes.
var everyField = []string{"name", "rules", "clientConfig", "failurePolicy", "timeoutSeconds", "namespaceSelector", "objectSelector", "matchPolicy", "sideEffects"}

// TestStates: what was chosen at the registration is as expected, and the same is a change if somebody else wrote it later.
func TestStates(t *testing.T) {
	at := Address{Namespace: "usher", Service: "usher", User: "me"}
	const a, n = "validate-a.usher.dev", "validate-n.usher.dev"
	for _, c := range []struct {
		name   string
		change func(w *Hook)
		by     []string          // the fields that somebody else wrote
		want   map[string]string // the fields that are changed, and by whom
	}{
		{"as registered", func(*Hook) {}, nil, nil},
		{"Ignore, chosen", func(w *Hook) { w.FailurePolicy = new(registration.Ignore) }, nil, nil},
		{"Ignore, later", func(w *Hook) { w.FailurePolicy = new(registration.Ignore) }, []string{"failurePolicy"}, map[string]string{"failurePolicy": "kubectl-edit"}},
		{"timeout, later", func(w *Hook) { w.TimeoutSeconds = new(int32(1)) }, []string{"timeoutSeconds"}, map[string]string{"timeoutSeconds": "kubectl-edit"}},
		{"the same value, later", func(*Hook) {}, []string{"failurePolicy"}, nil},
		{"operations", func(w *Hook) { w.Rules[0].Operations = []registration.OperationType{"DELETE"} }, nil, map[string]string{"rules": ""}},
		{"operations, later", func(w *Hook) { w.Rules[0].Operations = []registration.OperationType{"DELETE"} }, []string{"rules"}, map[string]string{"rules": "kubectl-edit"}},
		{"a namespace, chosen", func(w *Hook) { excludeNamespace(w) }, nil, nil},
		{"a namespace, later", func(w *Hook) { excludeNamespace(w) }, []string{"namespaceSelector"}, map[string]string{"namespaceSelector": "kubectl-edit"}},
		{"an object selector", func(w *Hook) { w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}} }, []string{"objectSelector"},
			map[string]string{"objectSelector": "kubectl-edit"}},
		{"a condition, later", addCondition, []string{"matchConditions/theirs"}, map[string]string{"matchConditions": "kubectl-edit"}},
		{"a condition, chosen", addCondition, nil, nil},
		{"Exact", func(w *Hook) { w.MatchPolicy = new(registration.Exact) }, nil, map[string]string{"matchPolicy": ""}},
		{"another Service", func(w *Hook) { w.ClientConfig.Service.Name = "evil" }, nil, map[string]string{"clientConfig": ""}},
		{"another path", func(w *Hook) { w.ClientConfig.Service.Path = new("/validate-b") }, nil, map[string]string{"clientConfig": ""}},
		{"a slash at the end", func(w *Hook) { w.ClientConfig.Service.Path = new("/validate-a/") }, nil, nil},
		{"a URL, chosen", func(w *Hook) {
			w.ClientConfig = registration.WebhookClientConfig{URL: new("https://door/validate-a")}
		}, nil, nil},
		{"a URL, later", func(w *Hook) {
			w.ClientConfig = registration.WebhookClientConfig{URL: new("https://evil/validate-a")}
		}, []string{"clientConfig"}, map[string]string{"clientConfig": "kubectl-edit"}},
		{"another CA", func(w *Hook) { w.ClientConfig.CABundle = []byte("theirs") }, nil, map[string]string{"caBundle": ""}},
		{"no CA", func(w *Hook) { w.ClientConfig.CABundle = nil }, nil, map[string]string{"caBundle": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := needed(installedRoutes(), at)[1]
			for i := range is.Webhooks {
				is.Webhooks[i].ClientConfig.CABundle = []byte("ours")
			}
			c.change(&is.Webhooks[0])
			own := slices.DeleteFunc(slices.Clone(everyField), func(field string) bool { return slices.Contains(c.by, field) })
			is.ManagedFields = []metav1.ManagedFieldsEntry{wrote(manager, a, own...), wrote(manager, n, everyField...)}
			if c.by != nil {
				is.ManagedFields = append(is.ManagedFields, wrote("kubectl-edit", a, c.by...))
			}
			states, _, err := Registrar{Client: registered(t, is), At: at}.States(t.Context(), func([]string) []admit.Route { return installedRoutes() },
				func(bundle []byte) bool { return string(bundle) == "ours" })
			if err != nil || len(states) != 3 {
				t.Fatalf("%v, %v", states, err)
			}
			got := map[string]string{}
			for i, s := range states {
				if s.Missing || i > 0 && len(s.Changes) > 0 {
					t.Errorf("%+v", s)
				}
				for _, change := range s.Changes {
					got[change.Field] = change.By
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("changed: %v, want %v", states[0].Changes, c.want)
			}
		})
	}
}

func excludeNamespace(w *Hook) {
	w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, notIn(corev1.LabelMetadataName, "shop"))
}

func addCondition(w *Hook) {
	w.MatchConditions = append(w.MatchConditions, registration.MatchCondition{Name: "theirs", Expression: "false"})
}

// TestMissingStates: an entry, and both configurations.
func TestMissingStates(t *testing.T) {
	at := Address{Namespace: "usher", Service: "usher"}
	is := needed(installedRoutes(), at)[1]
	is.Webhooks = is.Webhooks[1:]
	of := func([]string) []admit.Route { return installedRoutes() }
	trusts := func([]byte) bool { return true }
	for _, c := range []struct {
		name string
		is   configuration
		want []bool
	}{
		{"one", is, []bool{true, false, false}},
		{"all", configuration{ObjectMeta: metav1.ObjectMeta{Name: "other"}, TypeMeta: is.TypeMeta}, []bool{true, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			states, _, err := Registrar{Client: registered(t, c.is), At: at}.States(t.Context(), of, trusts)
			if err != nil {
				t.Fatal(err)
			}
			var missing []bool
			for _, s := range states {
				missing = append(missing, s.Missing)
			}
			if !slices.Equal(missing, c.want) {
				t.Errorf("missing: %v, want %v", missing, c.want)
			}
		})
	}
}

// TestWhatOthersWroteStaysTheirs: an apply sends no field that somebody else has written since, unless it takes it over, and then
// it says so.
func TestWhatOthersWroteStaysTheirs(t *testing.T) {
	at := Address{Namespace: "usher", Service: "usher", CABundle: []byte("x")}
	is := needed(installedRoutes(), at)[1]
	is.Webhooks[0].FailurePolicy = new(registration.Ignore)
	addCondition(&is.Webhooks[0])
	const a = "validate-a.usher.dev"
	is.ManagedFields = []metav1.ManagedFieldsEntry{wrote(manager, a, "name", "rules", "sideEffects"), wrote("kubectl-edit", a, "failurePolicy", "matchConditions/theirs")}
	routes := installedRoutes()
	if err := FailOpen(routes, []string{"/validate-a"}); err != nil {
		t.Fatal(err)
	}
	r := Registrar{Client: registered(t, is), At: at, Routes: routes}
	for force, want := range map[bool]string{false: "", true: `~ validate-a.usher.dev: failurePolicy: stays as "kubectl-edit" has set it, and counts as chosen`} {
		r.Force = force
		plan, err := r.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var sent struct{ Webhooks []map[string]any }
		if err := json.Unmarshal(plan.parts[0].apply.text(plan.parts[0].leave), &sent); err != nil {
			t.Fatal(err)
		}
		if _, is := sent.Webhooks[0]["failurePolicy"]; is != force {
			t.Errorf("force %t: failurePolicy is sent: %t", force, is)
		}
		if got := strings.Join(plan.Changes, "\n"); !strings.Contains(got, want) || !force && strings.Contains(got, "chosen") {
			t.Errorf("force %t: %q", force, plan.Changes)
		}
	}
}
