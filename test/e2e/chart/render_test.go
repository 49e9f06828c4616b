// Package chart tests deploy/chart with Helm's own library: what it renders, and what it does to a cluster.
//
//	render_test.go   what is rendered is what the overlays contain
//	values_test.go   every value is described; wrong ones are refused
//	install_test.go  install, upgrade and uninstall while pods are created
package chart

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// root returns the path of a file of the repository.
func root(t *testing.T, name string) string {
	t.Helper()
	dir, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := kubetest.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// valuesOf returns the values of a file in deploy/chart/values. Those for production have the policy of the overlay, which
// a user sets with --set-file.
func valuesOf(t *testing.T, overlay string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/chart/values/"+overlay+".yaml")), &values); err != nil {
		t.Fatal(err)
	}
	if overlay == "production" {
		values["policy"] = read(t, "deploy/overlays/production/policy.yaml")
	}
	return values
}

// quiet returns a configuration that logs nothing.
func quiet() *action.Configuration {
	return action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
}

// render renders the chart as `helm template` does, including the hooks.
func render(t *testing.T, namespace string, values map[string]any) (text string, err error) {
	t.Helper()
	made, err := loader.Load(root(t, "deploy/chart"))
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(quiet())
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "usher", namespace
	install.KubeVersion = &common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	done, err := install.Run(made, values)
	if err != nil {
		return "", err
	}
	r := done.(*release.Release)
	text = r.Manifest
	for _, h := range r.Hooks {
		text += "\n---\n" + h.Manifest
	}
	return text, nil
}

func mustRender(t *testing.T, namespace string, values map[string]any) map[string]kubetest.Object {
	t.Helper()
	text, err := render(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// objects returns the objects of manifests, by kind and name.
func objects(t *testing.T, text string) map[string]kubetest.Object {
	t.Helper()
	all := map[string]kubetest.Object{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o kubetest.Object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		if o == nil {
			continue
		}
		key := o.String("kind") + " " + o.String("metadata", "name")
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = o
	}
	return all
}

// overlays returns the names of the overlays.
func overlays(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(root(t, "deploy/overlays"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) < 5 {
		t.Fatalf("the overlays are %v", names)
	}
	return names
}

// onlyInChart are the objects that an overlay has no use for: they unregister usher at `helm uninstall`, and test it at `helm test`.
var onlyInChart = []string{"ClusterRole usher-webhooks-remove", "ClusterRoleBinding usher-webhooks-remove", "Job usher-webhooks-remove", "Pod usher-test"}

// TestChartIsTheOverlays: for each overlay there are values with which the chart has the same objects, but for the
// Namespace, which Helm creates, the CRDs, which it would never update, the annotations that say when a Job is due, and
// how long it waits, which Helm limits.
func TestChartIsTheOverlays(t *testing.T) {
	c, err := kubetest.WithoutControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	for _, overlay := range overlays(t) {
		t.Run(overlay, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			text, err := c.RenderDeploy(ctx, "deploy/overlays/"+overlay)
			if err != nil {
				t.Fatal(err)
			}
			want, got := objects(t, text), mustRender(t, "usher", valuesOf(t, overlay))
			for key := range want {
				if strings.HasPrefix(key, "CustomResourceDefinition ") || key == "Namespace usher" {
					delete(want, key)
				}
			}
			for _, key := range onlyInChart {
				if got[key] == nil {
					t.Errorf("the chart lacks %s", key)
				}
				delete(got, key)
			}
			for _, all := range []map[string]kubetest.Object{want, got} {
				job := all["Job usher-webhooks"]
				delete(job["metadata"].(map[string]any), "annotations")
				waits := func(arg any) bool { return strings.HasPrefix(arg.(string), "--wait=") }
				container(job)["args"] = slices.DeleteFunc(container(job)["args"].([]any), waits)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the overlay (-) and the chart (+) differ:\n%s", diff)
			}
		})
	}
}

// packaged returns a folder with the chart and install.yaml as a release has them.
func packaged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	made := exec.Command("go", "run", ".", "install", "--version=v0.0.1", "--image=registry.example/usher", "--out="+dir)
	made.Dir = root(t, "deploy/release")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestInstallManifest: install.yaml of a release is the overlay demo, with the image.
func TestInstallManifest(t *testing.T) {
	c, err := kubetest.WithoutControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	want, err := c.RenderDeploy(t.Context(), "deploy/overlays/demo")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(packaged(t), "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(string(text), "image: registry.example/usher:v0.0.1", "image: usher:dev")
	if diff := cmp.Diff(objects(t, want), objects(t, got)); diff != "" || got == string(text) {
		t.Errorf("the overlay (-) and install.yaml (+) differ:\n%s", diff)
	}
}

// TestHooks: the webhooks are registered last and unregistered first.
func TestHooks(t *testing.T) {
	all := mustRender(t, "usher", nil)
	for name, want := range map[string]string{
		"Job usher-webhooks":        "post-install,post-upgrade,post-rollback",
		"Job usher-webhooks-remove": "pre-delete",
		"Pod usher-test":            "test",
	} {
		if got := all[name].String("metadata", "annotations", "helm.sh/hook"); got != want {
			t.Errorf("%s is a hook for %q, want %q", name, got, want)
		}
	}
	for key, o := range all {
		if strings.Contains(key, "WebhookConfiguration") || o.String("kind") == "Secret" {
			t.Errorf("%s: the chart contains no webhook configuration, which an API server would call before anything answers, and no key", key)
		}
	}
}

// chance matches the functions of templates whose results differ from time to time.
var chance = regexp.MustCompile(`\b(gen[A-Z]\w+|rand\w+|uuidv4|now|lookup|htpasswd|bcrypt)\b`)

// TestRenderingIsDeterministic: the same values result in the same bytes, and nothing in the templates depends on chance, on
// time or on the cluster.
func TestRenderingIsDeterministic(t *testing.T) {
	for _, overlay := range overlays(t) {
		first, err := render(t, "usher", valuesOf(t, overlay))
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := render(t, "usher", valuesOf(t, overlay)); second != first {
			t.Errorf("%s is rendered differently the second time", overlay)
		}
		if strings.Contains(first, "caBundle:") {
			t.Errorf("%s contains a caBundle, which usher or another controller fills in", overlay)
		}
	}
	templates, _ := filepath.Glob(root(t, "deploy/chart/templates/*"))
	for _, file := range templates {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range chance.FindAllString(string(text), -1) {
			t.Errorf("%s uses %s", filepath.Base(file), bad)
		}
	}
	if len(templates) < 8 {
		t.Errorf("only %d templates", len(templates))
	}
}

// TestAnotherNamespace: everything is in the release's namespace, also if it looks like a number, and usher knows its Service.
func TestAnotherNamespace(t *testing.T) {
	for _, overlay := range overlays(t) {
		all := mustRender(t, "123", valuesOf(t, overlay))
		for key, o := range all {
			namespaced := !strings.HasPrefix(key, "ClusterRole")
			if got := o.String("metadata", "namespace"); namespaced && got != "123" {
				t.Errorf("%s: %s is in the namespace %q", overlay, key, got)
			}
			for _, s := range o.List("subjects") {
				if s.String("namespace") != "123" {
					t.Errorf("%s: %s is for the namespace %s", overlay, key, s.String("namespace"))
				}
			}
		}
		serve, register := fmt.Sprint(container(all["Deployment usher"])["args"]), fmt.Sprint(container(all["Job usher-webhooks"])["args"])
		const flag = " --service=123/usher"
		if !strings.Contains(serve, flag) || !strings.Contains(register, flag) {
			t.Errorf("%s: the Service is not in the flags %s, or not in %s", overlay, serve, register)
		}
	}
}

// TestKeepRegistered: with this value, the chart has the rights and the flag of the component.
func TestKeepRegistered(t *testing.T) {
	values := valuesOf(t, "production")
	without := mustRender(t, "usher", values)
	values["keepRegistered"] = true
	with := mustRender(t, "usher", values)
	var role kubetest.Object
	if err := yaml.Unmarshal([]byte(read(t, "deploy/components/keep-registered/clusterrole.yaml")), &role); err != nil {
		t.Fatal(err)
	}
	if without["ClusterRole usher-keep"] != nil {
		t.Error("the rights are there without the value")
	}
	if diff := cmp.Diff(role["rules"], with["ClusterRole usher-keep"]["rules"]); diff != "" {
		t.Errorf("the component (-) and the chart (+) differ:\n%s", diff)
	}
	flag := strings.Fields(read(t, "deploy/components/keep-registered/kustomization.yaml"))
	if args := fmt.Sprint(container(with["Deployment usher"])["args"]); !strings.Contains(args, strings.TrimSuffix(flag[len(flag)-1], "}")) {
		t.Errorf("the flags are %s", args)
	}
}

// container returns the container of a Deployment or Job.
func container(o kubetest.Object) kubetest.Object {
	return o.At("spec", "template", "spec").(map[string]any)["containers"].([]any)[0].(map[string]any)
}
