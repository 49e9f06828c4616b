package registration

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"usher.dev/usher/e2e/binaries"
	"usher.dev/usher/e2e/kubetest"
)

const admissionAPI = "/apis/admissionregistration.k8s.io/v1/"

// recipes returns the commands of docs/operations.md that save, and the one that restores.
func recipes(t *testing.T) (save, restore string) {
	t.Helper()
	root, err := kubetest.Repository()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### Save and restore\n")
	section, _, _ = strings.Cut(section, "\n#")
	save = strings.Join(regexp.MustCompile(`(?m)^    .*$`).FindAllString(section, -1), "\n")
	restore = regexp.MustCompile("`(kubectl create [^`]*)`").FindStringSubmatch(section)[1]
	return save, restore
}

// sent returns an object without what the API server sets, owners, and the memory of kubectl apply: with a caBundle in it, the next apply of a
// manifest without one would remove the caBundle.
func sent(ctx context.Context, t *testing.T, path string) kubetest.Object {
	t.Helper()
	o, err := cluster.Admin().Get(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	metadata := o["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"} {
		delete(metadata, field)
	}
	delete(o, "status")
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return o
}

// TestSaveAndRestore pastes the commands of docs/operations.md: what is missing is created as it was, with its caBundle and without its
// owner, who is another one now. What exists stays.
func TestSaveAndRestore(t *testing.T) {
	if binaries.Emulated() != "" {
		t.Skip("version v1 of MutatingAdmissionPolicy came with Kubernetes 1.36")
	}
	ctx := cluster.Within(t, 2*time.Minute)
	save, restore := recipes(t)
	dir := t.TempDir()
	in := "cd " + dir + "\n"
	remove(ctx, t)
	apply(ctx, t, 0, []string{"registered"})
	const resources = `"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]}`
	for _, manifest := range []string{
		`"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "saved", "annotations": {"uid": "mine"},
			"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "0bd25a9e-3d4c-4b35-8a0a-9d8f3a1e2c33"}]},
			"spec": {` + resources + `, "validations": [{"expression": "true ||\n  object.metadata.uid == 'uid: '"}]}}`,
		`"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "saved"}, "spec": {"policyName": "saved", "validationActions": ["Deny"]}}`,
		`"kind": "MutatingAdmissionPolicy", "metadata": {"name": "saved"}, "spec": {` + resources + `, "reinvocationPolicy": "Never",
			"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}}`,
		`"kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "saved"}, "spec": {"policyName": "saved"}}`,
		`"kind": "MutatingWebhookConfiguration", "metadata": {"name": "saved"}, "webhooks": [{"name": "of.theirs.dev", "sideEffects": "None",
			"admissionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "theirs", "name": "gone"}},
			"rules": [{"apiGroups": ["theirs.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]}]}`,
	} {
		cluster.MustApply(ctx, t, `{"apiVersion": "admissionregistration.k8s.io/v1", `+manifest)
	}
	paths := []string{validating}
	for _, kind := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations"} {
		path := admissionAPI + kind + "/saved"
		cluster.DeleteAfter(t, path)
		paths = append(paths, path)
	}
	if out, err := cluster.Paste(ctx, in+save); err != nil || out != "" {
		t.Fatalf("%s: %v %s", save, err, out)
	}
	was := map[string]kubetest.Object{}
	for _, path := range paths {
		was[path] = sent(ctx, t, path)
		if _, err := cluster.Admin().Delete(ctx, path); err != nil {
			t.Fatal(err)
		}
	}
	called(ctx, t, false)
	if out, err := cluster.Paste(ctx, in+restore); strings.Count(out, " created\n") != len(paths) {
		t.Errorf("%s: %v\n%s", restore, err, out)
	}
	called(ctx, t, true)
	if file, err := os.ReadFile(filepath.Join(dir, "admission.json")); err != nil || strings.Contains(string(file), "last-applied") {
		t.Errorf("%v\n%s", err, file)
	}
	for _, path := range paths {
		if diff := cmp.Diff(was[path], sent(ctx, t, path)); diff != "" {
			t.Errorf("%s (-was +restored):\n%s", path, diff)
		}
	}
	edit(ctx, t, func(w kubetest.Object) { w["failurePolicy"] = "Ignore" })
	if out, err := cluster.Paste(ctx, in+restore); err == nil || strings.Contains(out, " created\n") {
		t.Errorf("all is there: %v\n%s", err, out)
	}
	if now := entry(ctx, t, validating, watched)["failurePolicy"]; now != "Ignore" {
		t.Errorf("what differs is replaced: failurePolicy %v", now)
	}
}
