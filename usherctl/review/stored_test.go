package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/doctor"
	"usher.dev/usher/usherctl/engine/whole"
	"usher.dev/usher/usherctl/tool"
)

const storedDeployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {replicas: %d, selector: {matchLabels: {a: %s}},
	template: {metadata: {labels: {a: %s}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Mi}}}]}}}}
`

// reviewOf runs usherctl review with a manifest, and returns what it says.
func reviewOf(t *testing.T, manifest string, args ...string) (string, error) {
	t.Helper()
	return saidBy(t, func(env tool.Env) *cobra.Command { return Command(env, nil) }, manifest, args...)
}

func saidBy(t *testing.T, of func(tool.Env) *cobra.Command, manifest string, args ...string) (string, error) {
	t.Helper()
	var to bytes.Buffer
	command := of(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{In: strings.NewReader(manifest), Out: &to, Err: &to}})
	command.SetArgs(append(args, "--cluster=api", "-"))
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.ExecuteContext(t.Context())
	return to.String(), err
}

// TestStored: of an object that an API server has, a manifest is an update, as the API server itself judges it, for usherctl doctor too.
func TestStored(t *testing.T) {
	server, err := whole.Start(t.Context(), whole.Options{AllowAll: true, Controllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	kubeconfig, err := server.Kubeconfig("jane")
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(group, resource, namespace, manifest string) {
		var object unstructured.Unstructured
		to := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource})
		err := yaml.Unmarshal([]byte(manifest), &object.Object)
		if err == nil {
			_, err = to.Namespace(namespace).Create(t.Context(), &object, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	create("apps", "deployments", "default", fmt.Sprintf(storedDeployment, "web", 2, "b", "b"))
	create("", "namespaces", "", "{apiVersion: v1, kind: Namespace, metadata: {name: full}}")
	create("", "resourcequotas", "full", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {pods: 0}}}")
	create("", "namespaces", "", "{apiVersion: v1, kind: Namespace, metadata: {name: room}}")
	create("", "resourcequotas", "room", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: two}, spec: {hard: {pods: 2}}}")
	create("apps", "deployments", "room", fmt.Sprintf(storedDeployment, "web", 2, "b", "b"))
	create("apps", "deployments", "full", fmt.Sprintf(storedDeployment, "web", 2, "b", "b"))
	printed := func(change ...string) string {
		object, err := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := object.MarshalJSON()
		return strings.NewReplacer(change...).Replace(string(text))
	}
	settings := strings.Repeat("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: s}}\n", 100)
	const update = ": an update of the stored Deployment default/web)"
	for name, c := range map[string]struct {
		manifest, want, doctor string
		args                   []string
		fails                  bool
	}{
		"another selector":           {manifest: fmt.Sprintf(storedDeployment, "web", 2, "c", "c"), want: "field is immutable", doctor: "field is immutable", fails: true},
		"among many":                 {manifest: fmt.Sprintf(storedDeployment, "web", 2, "c", "c") + "---\n" + fmt.Sprintf(storedDeployment, "new", 2, "c", "c") + settings, want: "field is immutable", fails: true},
		"the Deployment alone":       {manifest: fmt.Sprintf(storedDeployment, "web", 2, "c", "c"), args: []string{"--no-templates"}, want: "invalid  UPDATE Deployment default/web  (standard input" + update, fails: true},
		"what kubectl get printed":   {manifest: printed(), args: []string{"--no-templates"}, want: "CREATE Deployment default/web  (standard input)"},
		"the same, edited":           {manifest: printed(`"a":"b"`, `"a":"c"`), want: "field is immutable", fails: true},
		"the same, as an update":     {manifest: printed(`"a":"b"`, `"a":"c"`), args: []string{"--operation=UPDATE"}, want: "field is immutable", fails: true},
		"the same, another image":    {manifest: printed(`"image":"i"`, `"image":"j"`), args: []string{"--no-templates"}, want: update},
		"equal":                      {manifest: fmt.Sprintf(storedDeployment, "web", 2, "b", "b"), want: update, doctor: "UPDATE Deployment default/web"},
		"another number of replicas": {manifest: fmt.Sprintf(storedDeployment, "web", 3, "b", "b"), want: update},
		"equal, in a full quota":     {manifest: fmt.Sprintf(storedDeployment, "web", 2, "b", "b"), args: []string{"-n", "full"}, want: "an update of the stored Deployment full/web)"},
		"more, in a full quota": {manifest: fmt.Sprintf(storedDeployment, "web", 3, "b", "b"), args: []string{"-n", "full"}, want: "invalid: ResourceQuota: pods \"web-",
			doctor: "exceeded quota: none", fails: true},
		"more than fit": {manifest: fmt.Sprintf(storedDeployment, "web", 7, "b", "b"), args: []string{"-n", "room"}, want: "2 of 5 pods of Deployment web fit: ", fails: true},
		"two that fit alone": {manifest: fmt.Sprintf(storedDeployment, "web", 3, "b", "b") + "---\n" + fmt.Sprintf(storedDeployment, "new", 2, "b", "b"),
			args: []string{"-n", "room"}, want: "1 of 2 pods of Deployment new fit: ", fails: true},
		"another image, in a full quota": {manifest: strings.ReplaceAll(fmt.Sprintf(storedDeployment, "web", 3, "b", "b"), "image: i", "image: j"), args: []string{"-n", "full"},
			want:   "not judged: whether the quota has room when",
			doctor: "the quota may have room when the pods that the update replaces are gone", fails: true},
		"new, in a full quota": {manifest: fmt.Sprintf(storedDeployment, "new", 3, "b", "b"), args: []string{"-n", "full"}, want: "exceeded quota: none", doctor: "exceeded quota: none", fails: true},
		"a new one":            {manifest: fmt.Sprintf(storedDeployment, "new", 2, "c", "c"), args: []string{"--no-templates"}, want: "CREATE Deployment default/new  (standard input)"},
		"with --doctor":        {manifest: fmt.Sprintf(storedDeployment, "web", 2, "c", "c"), args: []string{"--doctor"}, want: "field is immutable", fails: true},
		"new, with --doctor":   {manifest: fmt.Sprintf(storedDeployment, "new", 2, "c", "c"), args: []string{"--no-templates", "--doctor"}, want: "CREATE Deployment default/new"},
		"asked for a creation": {manifest: fmt.Sprintf(storedDeployment, "web", 2, "c", "c"), args: []string{"--no-templates", "--operation=CREATE"}, want: "CREATE Deployment default/web  (standard input)",
			doctor: "CREATE Deployment default/web"},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := reviewOf(t, c.manifest, append(c.args, "--kubeconfig", kubeconfig)...)
			if (err != nil) != c.fails || !strings.Contains(said, c.want) {
				t.Errorf("%q is not in %v:\n%s", c.want, err, said)
			}
			if c.doctor == "" {
				return
			}
			if said, err := saidBy(t, doctor.Command, c.manifest, append(c.args, "--kubeconfig", kubeconfig)...); !strings.Contains(said, c.doctor) {
				t.Errorf("doctor: %q is not in %v:\n%s", c.doctor, err, said)
			}
		})
	}
}
