package promises

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/command"
	"usher.dev/usher/config"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/validators"
)

// TestSamplePolicyIsComplete: the documented example has every field of the schema, and is accepted.
func TestSamplePolicyIsComplete(t *testing.T) {
	text := harness.ReadFile(t, "samples/policy.yaml")
	if _, problems := config.Parse([]byte(text), routes.Suites().Schema()); len(problems) > 0 {
		t.Error(problems)
	}
	var fields []string
	for _, name := range routes.Suites().Schema().Names() {
		fields = append(append(fields, name), jsonFields(routes.Suites().Schema().Type(name))...)
	}
	for _, field := range fields {
		if !regexp.MustCompile(`(?m)^[\s{-]*[^#\n]*\b` + field + `:`).MatchString(text) {
			t.Errorf("samples/policy.yaml does not show the field %s", field)
		}
	}
}

// jsonFields lists the JSON names of a type's fields, through all types of ours.
func jsonFields(t reflect.Type) (names []string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return jsonFields(t.Elem())
	case reflect.Struct:
		if strings.HasPrefix(t.PkgPath(), "k8s.io/") {
			return nil
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			names = append(names, name)
			names = append(names, jsonFields(t.Field(i).Type)...)
		}
	}
	return names
}

// TestDeployedPolicy: the base's policy is accepted, has every section, and leaves capacity alone.
func TestDeployedPolicy(t *testing.T) {
	policy, problems := config.Parse([]byte(harness.ReadFile(t, "deploy/base/policy.yaml")), routes.Suites().Schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if config.SectionOf[*validators.Names](policy) == nil || config.SectionOf[*mutators.Lifespan](policy) == nil ||
		len(config.SectionOf[mutators.Env](policy)) == 0 || config.SectionOf[*amplify.Overcommit](policy).Pools[0].Capacity != amplify.Keep {
		t.Errorf("%+v", policy)
	}
}

// TestDeployedArgs: the binary knows every flag of the Deployment.
func TestDeployedArgs(t *testing.T) {
	var args []string
	for _, m := range regexp.MustCompile(`(?m)^\s+- (--[a-z-]+=\S+)`).FindAllStringSubmatch(harness.ReadFile(t, "deploy/base/deployment.yaml"), -1) {
		args = append(args, m[1])
	}
	if len(args) < 4 {
		t.Fatalf("only %v was found", args)
	}
	c, _, err := command.Program{Suites: routes.Suites()}.Root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(args); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	for name, set := range map[string]bool{"cert-dir": false, "config": true, "plain": false} {
		if c.Flags().Changed(name) != set {
			t.Errorf("--%s: %v", name, !set)
		}
	}
}

// TestNoKeysInGit: a private key in a repository ends up in a cluster.
func TestNoKeysInGit(t *testing.T) {
	out, err := exec.Command("git", "grep", "-lE", "^[^`\"]*-----BEGIN [A-Z ]*PRIVATE KEY-----").Output()
	if err != nil && len(out) == 0 {
		return // nothing found, or no checkout
	}
	t.Errorf("private keys in %s", out)
}

// TestClusterRolesAreTheOnesPrinted: the shipped rights are exactly the rights that the gates of the same overlay need.
// The registered routes have the same gates as the served ones.
func TestClusterRolesAreTheOnesPrinted(t *testing.T) {
	gates := regexp.MustCompile(`--feature-gates=(\S+)`)
	for folder, clusterRole := range map[string]string{"koordinator": "deploy/components/watching/clusterrole.yaml",
		"koordinator-demo": "deploy/overlays/koordinator-demo/clusterrole.yaml"} {
		args := []string{"webhooks", "--rbac"}
		set := gates.FindAllString(harness.ReadFile(t, "deploy/overlays/"+folder+"/kustomization.yaml"), -1)
		if len(set) > 0 {
			args = append(args, set[0])
		}
		if len(set) != 0 && (len(set) != 2 || set[0] != set[1]) {
			t.Errorf("deploy/overlays/%s: the Deployment and the Job need the same --feature-gates: %q", folder, set)
		}
		code, out, errs := usher(t, args...)
		if code != 0 {
			t.Fatal(errs)
		}
		if harness.ReadFile(t, clusterRole) != out {
			t.Errorf("%s is not what bin/usher %s prints", clusterRole, strings.Join(args, " "))
		}
	}
	if text := strings.TrimSpace(harness.ReadFile(t, "samples/feature-gates")); !strings.Contains(harness.ReadFile(t, "deploy/overlays/koordinator-demo/kustomization.yaml"), text) {
		t.Error("the demo overlay's gates are not those of samples/feature-gates")
	}
}

// TestComponentHasThePrintedRights: components/certs-managed gives the rights that usher prints for --certs=managed.
func TestComponentHasThePrintedRights(t *testing.T) {
	code, out, errs := usher(t, "webhooks", "--rbac", "--certs=managed")
	if code != 0 {
		t.Fatal(errs)
	}
	var shipped []string
	for _, name := range []string{"role", "rolebinding", "clusterrole", "clusterrolebinding"} {
		shipped = append(shipped, harness.ReadFile(t, "deploy/components/certs-managed/"+name+".yaml"))
	}
	if got, want := rights(t, strings.Join(shipped, "\n---\n")), rights(t, out); !slices.Equal(got, want) {
		t.Errorf("deploy/components/certs-managed has\n%s\nusher webhooks --rbac --certs=managed prints\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// rights returns a line for each object of a text: its kind, name and content, with verbs in order.
func rights(t *testing.T, text string) (lines []string) {
	t.Helper()
	objects, problems := manifest.Read("rights", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, o := range objects {
		var r struct {
			Metadata struct{ Name string }
			Rules    []rbacv1.PolicyRule
			RoleRef  rbacv1.RoleRef
			Subjects []rbacv1.Subject
		}
		if err := json.Unmarshal(o.JSON, &r); err != nil {
			t.Fatal(err)
		}
		for _, rule := range r.Rules {
			slices.Sort(rule.Verbs)
		}
		lines = append(lines, fmt.Sprintf("%s %+v", o.Kind, r))
	}
	return lines
}
