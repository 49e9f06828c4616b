package e2e

import (
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const allowedImage = "registry.k8s.io/pause:3.10"

// TestImageRules: the rules of docs/image-rules.md for new pods, with one image in each place of a pod.
func TestImageRules(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	withPolicy(ctx, t, "samples/policies/image-rules.yaml")
	digest := "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for image, refusal := range map[string]string{
		allowedImage:                         "",
		"registry.example.com/team/app:1":    "",
		"nginx" + digest:                     "",
		"nginx":                              "rule sources: the tag latest is refused, which stands for no tag",
		"docker.io/library/nginx":            "rule sources: the tag latest is refused, which stands for no tag",
		"nginx:latest":                       "rule sources: the tag latest is refused",
		"nginx:1.29":                         "rule pinned: a digest is required",
		"quay.io/team/app:1":                 "rule sources: the repository quay.io/team/app is not allowed",
		"registry.example.com/team/app:-dev": "is not a reference to an image",
	} {
		t.Run(image, func(t *testing.T) {
			for path, pod := range podsWith(image) {
				_, err := cluster.Admin().Create(ctx, podPath("apps", "")+"?dryRun=All", pod)
				if refusal == "" && err != nil {
					t.Errorf("%s: %v", path, err)
				} else if refusal != "" {
					checkSays(t, err, "validate-pods.usher.dev", "image-rules: "+path, refusal)
				}
			}
		})
	}
}

// podsWith returns a pod for each place of an image, by the path of the image.
func podsWith(image string) map[string]kubetest.Object {
	pod := func(spec string) kubetest.Object {
		return kubetest.Decode(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "images", "labels": {"tier": "production"}}, "spec": `+spec+`}`, allowedImage, image))
	}
	return map[string]kubetest.Object{
		"spec.containers[1].image":        pod(`{"containers": [{"name": "a", "image": %q}, {"name": "b", "image": %q}]}`),
		"spec.initContainers[0].image":    pod(`{"containers": [{"name": "a", "image": %q}], "initContainers": [{"name": "b", "image": %q}]}`),
		"spec.volumes[0].image.reference": pod(`{"containers": [{"name": "a", "image": %q}], "volumes": [{"name": "v", "image": {"reference": %q}}]}`),
	}
}

// TestImageRulesOnUpdate: a pod that was stored before the rules may be changed, but not to another image that they
// refuse, and no such image may be added as an ephemeral container.
func TestImageRulesOnUpdate(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	path := podPath("apps", "legacy")
	cluster.DeleteAfter(t, path)
	if _, err := cluster.Admin().Create(ctx, podPath("apps", ""), kubetest.Decode(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "legacy"},
		"spec": {"containers": [{"name": "app", "image": "quay.io/legacy/app"}]}}`)); err != nil {
		t.Fatal(err)
	}
	withPolicy(ctx, t, "samples/policies/image-rules.yaml")
	image := func(image string) string {
		return `{"spec": {"containers": [{"name": "app", "image": "` + image + `"}]}}`
	}
	debugger := func(name, image string) string {
		return fmt.Sprintf(`{"spec": {"ephemeralContainers": [{"name": %q, "image": %q}]}}`, name, image)
	}
	cases := []struct {
		name, path, patch string
		refused           string // what the refusal says
	}{
		{"another label", path, `{"metadata": {"labels": {"mark": "1"}}}`, ""},
		{"another refused image", path, image("quay.io/legacy/app:2"), "image-rules: spec.containers[0].image"},
		{"a refused ephemeral container", path + "/ephemeralcontainers", debugger("debugger", "busybox"), "image-rules: spec.ephemeralContainers[0].image"},
		{"an allowed ephemeral container", path + "/ephemeralcontainers", debugger("debugger", allowedImage), ""},
		{"an allowed image", path, image(allowedImage), ""},
		{"back to the old image", path, image("quay.io/legacy/app"), "image-rules: spec.containers[0].image"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := cluster.Admin().Patch(ctx, c.path, kubetest.StrategicPatch, c.patch)
			if c.refused == "" && err != nil {
				t.Error(err)
			} else if c.refused != "" {
				checkSays(t, err, c.refused)
			}
		})
	}
}
