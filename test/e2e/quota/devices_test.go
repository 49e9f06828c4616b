package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestDeviceClaims: the devices that pods claim by DRA count in their quota, also after the template was deleted and made anew. What
// cannot be counted is refused, and what was counted cannot be changed.
func TestDeviceClaims(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	limit := newQuota("devices", "devices-team", "", "100", false)
	limit["spec"].(kubetest.Object)["max"] = kubetest.Object{"cpu": "100", "example.com/whole-gpus": "5"}
	grow(ctx, t, "devices", limit)
	counting, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Name: "usher-devices",
		Policy: "quotas: {deviceClassMappings: [{name: example.com/whole-gpus, deviceClassNames: [gpu.example.com]}]}",
		Flags: []string{"--cluster=api", "--kubeconfig=" + cluster.Dir() + "/" + usherUser + ".kubeconfig", "--quota-reservation-expiry=" + expiry.String(),
			"--feature-gates=" + gates + ",QuotaByDeviceClasses=true"}})
	stored(t, err)
	t.Cleanup(counting.Stop)
	t.Cleanup(func() { stored(t, front.lead(usher)) })
	stored(t, front.lead(counting))
	claims := func(name, by, of string) error {
		pod := newPod(name, "devices-team", "1")
		pod["spec"].(kubetest.Object)["resourceClaims"] = []any{kubetest.Object{"name": "g", by: of}}
		_, err := cluster.Admin().Create(ctx, podPath("devices", ""), pod)
		return err
	}
	const template = "resourceClaimTemplateName"
	kubetest.RefusedWith(t, claims("early", template, "gpus"), "mutate-pod.usher.dev", "namespace devices has no such ResourceClaimTemplate yet")
	kubetest.RefusedWith(t, claims("shared", "resourceClaimName", "gpus"), "name a ResourceClaimTemplate")
	stored(t, makeTemplate(ctx, "gpus", `"count": 2`))
	stored(t, makeTemplate(ctx, "all", `"allocationMode": "All"`))
	stored(t, claims("one", template, "gpus"))
	kubetest.RefusedWith(t, claims("all", template, "all"), "allocationMode All")
	_, err = cluster.Admin().Delete(ctx, templatePath+"/gpus")
	stored(t, err)
	stored(t, makeTemplate(ctx, "gpus", `"count": 3`))
	eventually(ctx, t, func(ctx context.Context) error { return claims("two", template, "gpus") })
	kubetest.RefusedWith(t, claims("three", template, "gpus"), "quota devices-team (via label)", "example.com/whole-gpus requested 3, used ", "limit 5 (spec.max)")
	for pod, want := range map[string]string{"one": "2", "two": "3"} {
		o, err := cluster.Admin().Get(ctx, podPath("devices", pod))
		stored(t, err)
		if is := o.String("metadata", "annotations", "usher.dev/device-claims"); is != fmt.Sprintf(`{"example.com/whole-gpus":%q}`, want) {
			t.Errorf("%s counts for %s", pod, is)
		}
	}
	_, err = cluster.Admin().Patch(ctx, podPath("devices", "one"), kubetest.MergePatch, `{"metadata": {"annotations": {"usher.dev/device-claims": null}}}`)
	kubetest.RefusedWith(t, err, "cannot change while the pod exists")
	_, err = cluster.Admin().Patch(ctx, podPath("devices", "one"), kubetest.MergePatch, `{"metadata": {"annotations": {"other": "a"}}}`)
	stored(t, err)
	deletePod(ctx, t, "devices", "two")
	eventually(ctx, t, func(ctx context.Context) error { return claims("three", template, "gpus") })
}

const templatePath = "/apis/resource.k8s.io/v1/namespaces/devices/resourceclaimtemplates"

// makeTemplate creates a ResourceClaimTemplate.
func makeTemplate(ctx context.Context, name, asks string) error {
	request := fmt.Sprintf(`{"name": "r", "exactly": {"deviceClassName": "gpu.example.com", %s}}`, asks)
	_, err := cluster.Admin().Create(ctx, templatePath, fmt.Sprintf(
		`{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": %q}, "spec": {"spec": {"devices": {"requests": [%s]}}}}`, name, request))
	return err
}
