package process

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/test/harness"
)

const (
	devicesPolicy = "quotas: {deviceClassMappings: [{name: example.com/whole-gpus, deviceClassNames: [gpu.example.com]}]}\n"
	devicesQuota  = `apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team, namespace: team}
spec: {max: {example.com/whole-gpus: 3}}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
`
	deviceTemplate = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: team}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com, allocationMode: ExactCount, count: %d}}]}}}
---
`
	storedClaimer = `apiVersion: v1
kind: Pod
metadata: {name: stored, namespace: team, uid: u-stored, annotations: {usher.dev/device-claims: '{"example.com/whole-gpus":"2"}'}}
spec: {resourceClaims: [{name: g, resourceClaimTemplateName: gpus}], containers: [{name: app, image: app}]}
---
`
)

// devicesMux serves with the gates a cluster of manifests.
func devicesMux(t *testing.T, gates, manifests string) http.Handler {
	t.Helper()
	suites := routes.Suites()
	set, err := suites.ParseGates(gates)
	if err != nil {
		t.Fatal(err)
	}
	in, err := suite.Load(suite.Setup{Suites: suites, Policy: harness.ParsePolicy(t, suites, []byte(devicesPolicy)), Gates: set,
		Cluster: suite.Source{Manifests: map[string][]byte{"cluster.yaml": []byte(manifests)}}})
	if err != nil {
		t.Fatal(err)
	}
	return harness.DefaultServer().Serve(in.Routes())
}

// claimer returns the review of a pod with the annotation on its devices, if any; was is that of the stored pod, for an update.
func claimer(operation, claim, annotation, was string) []byte {
	pod := func(text string) string {
		metadata := `{"name":"new","namespace":"team","uid":"u-new"`
		if text != "" {
			metadata += fmt.Sprintf(`,"annotations":{"usher.dev/device-claims":%q}`, text)
		}
		return `{"apiVersion":"v1","kind":"Pod","metadata":` + metadata + `},"spec":{"resourceClaims":[{"name":"g",` + claim + `}],"containers":[{"name":"app","image":"app"}]}}`
	}
	old := "null"
	if operation == "UPDATE" {
		old = pod(was)
	}
	kind := `{"group":"","version":"v1","kind":"Pod"}`
	return fmt.Appendf(nil, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","kind":%s,"requestKind":%s,
		"resource":{"group":"","version":"v1","resource":"pods"},"name":"new","namespace":"team","operation":%q,"userInfo":{"username":"ann"},
		"object":%s,"oldObject":%s}}`, kind, kind, operation, pod(annotation), old)
}

// ofStatus returns a review as of a write of the status.
func ofStatus(review []byte) []byte {
	return bytes.Replace(review, []byte(`"name":"new"`), []byte(`"subResource":"status","name":"new"`), 1)
}

// TestDeviceClaims: what a pod claims is written into it when it is created, counts in its quota from then on, whatever becomes of the
// template, and cannot be changed. What cannot be counted is refused.
func TestDeviceClaims(t *testing.T) {
	const (
		on    = "EnableQuotaAdmission=true,QuotaByDeviceClasses=true"
		byOne = `"resourceClaimTemplateName":"gpus"`
		one   = `{"example.com/whole-gpus":"1"}`
		two   = `{"example.com/whole-gpus":"2"}`
	)
	template := func(count int) string { return fmt.Sprintf(deviceTemplate, count) }
	for _, c := range []struct {
		name, gates, manifests, path string
		body                         []byte
		want                         string
	}{
		{"written", on, template(2), "mutate-pod", claimer("CREATE", byOne, "", ""), `"patch"`},
		{"overwritten", on, template(2), "mutate-pod", claimer("CREATE", byOne, one, ""), `"patch"`},
		{"as it is", on, template(2), "mutate-pod", claimer("CREATE", byOne, two, ""), `"allowed":true}}`},
		{"of an unknown template", on, "", "mutate-pod", claimer("CREATE", byOne, "", ""), "create it first, then create the pod again"},
		{"of a shared claim", on, template(2), "mutate-pod", claimer("CREATE", `"resourceClaimName":"shared"`, "", ""), "name a ResourceClaimTemplate"},
		{"without the gate", "EnableQuotaAdmission=true", template(2), "mutate-pod", claimer("CREATE", byOne, "", ""), `"allowed":true`},
		{"room", on, template(1) + storedClaimer, "validate-pod", claimer("CREATE", byOne, one, ""), `"allowed":true`},
		{"no room", on, template(2) + storedClaimer, "validate-pod", claimer("CREATE", byOne, two, ""), "example.com/whole-gpus requested 2, used 2, limit 3"},
		{"no room, the template was deleted and made anew", on, template(3) + storedClaimer, "validate-pod", claimer("CREATE", byOne, `{"example.com/whole-gpus":"3"}`, ""), "requested 3, used 2, limit 3"},
		{"no room counts without the gate", "EnableQuotaAdmission=true", template(2) + storedClaimer, "validate-pod", claimer("CREATE", byOne, two, ""), `"allowed":true`},
		{"less than claimed", on, template(2), "validate-pod", claimer("CREATE", byOne, one, ""), "is not what usher counts for the devices"},
		{"not written", on, template(2), "validate-pod", claimer("CREATE", byOne, "", ""), "/mutate-pod is not registered"},
		{"an update without the template", on, "", "validate-pod", claimer("UPDATE", byOne, two, two), `"allowed":true`},
		{"an update that counts less", on, template(2), "validate-pod", claimer("UPDATE", byOne, one, two), "cannot change while the pod exists"},
		{"an update that counts none", on, template(2), "validate-pod", claimer("UPDATE", byOne, "", two), "cannot change while the pod exists"},
		{"a status that counts none", on, template(2), "validate-pod-status", ofStatus(claimer("UPDATE", byOne, "", two)), "cannot change while the pod exists"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := harness.Post(devicesMux(t, c.gates, devicesQuota+c.manifests), c.path+"/x", c.body)
			if answer := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(strings.ReplaceAll(answer, `\"`, `"`), c.want) {
				t.Errorf("HTTP %d, %s; want %s", w.Code, answer, c.want)
			}
		})
	}
}

// TestDeviceClaimsOfContainers: a pod that asks for devices by the name of their class, without any claim, counts for them, too.
func TestDeviceClaimsOfContainers(t *testing.T) {
	const gates, all = "EnableQuotaAdmission=true,QuotaByDeviceClasses=true", `{"example.com/whole-gpus":"4"}`
	asking := func(annotation string) []byte {
		return []byte(strings.NewReplacer(`"resourceClaims":[{"name":"g",}],`, "", `"image":"app"`,
			`"image":"app","resources":{"requests":{"deviceclass.resource.kubernetes.io/gpu.example.com":"4"}}`).Replace(string(claimer("CREATE", "", annotation, ""))))
	}
	for _, c := range []struct{ path, annotation, want string }{
		{"mutate-pod", "", `"patch"`}, {"mutate-pod", all, `"allowed":true}}`},
		{"validate-pod", "", "is not what usher counts for the devices"}, {"validate-pod", all, "example.com/whole-gpus requested 4, used 0, limit 3"},
	} {
		answer := harness.Post(devicesMux(t, gates, devicesQuota), c.path+"/x", asking(c.annotation)).Body.String()
		if !strings.Contains(answer, c.want) {
			t.Errorf("%s of %q: %s, want %s", c.path, c.annotation, answer, c.want)
		}
	}
}

// TestDeviceClaimsOfWorkloads: a workload is refused for claims that can never be counted. A template may be created after it.
func TestDeviceClaimsOfWorkloads(t *testing.T) {
	const gates, one, later = "EnableQuotaAdmission=true,QuotaByDeviceClasses=true", `"resourceClaimTemplateName":"gpus"`, "pods are refused until it has"
	all := strings.Replace(fmt.Sprintf(deviceTemplate, 0), "ExactCount, count: 0", "All", 1)
	for _, c := range []struct{ manifests, claim, want, not string }{
		{fmt.Sprintf(deviceTemplate, 2), one, `"allowed":true`, "warnings"},
		{"", one, "its pods: namespace team has no ResourceClaimTemplate gpus yet: " + later, "would be denied"},
		{"", one + `},{"name":"h","resourceClaimName":"shared"`, "would be denied: spec.template.spec.resourceClaims[1].resourceClaimName", "create the pod again"},
		{all, one, "would be denied: spec.template.spec.resourceClaims[0].resourceClaimTemplateName", later},
	} {
		body := strings.Replace(string(deploymentIn("team")), `"spec":{"containers"`, `"spec":{"resourceClaims":[{"name":"g",`+c.claim+`}],"containers"`, 1)
		answer := harness.Post(devicesMux(t, gates, devicesQuota+c.manifests), "validate-workload/x", []byte(body)).Body.String()
		if !strings.Contains(answer, c.want) || strings.Contains(answer, c.not) {
			t.Errorf("%s, %s: %s, want %s and not %s", c.manifests, c.claim, answer, c.want, c.not)
		}
	}
}

// TestDeviceClaimsRights: only with the gate usher watches ResourceClaimTemplates.
func TestDeviceClaimsRights(t *testing.T) {
	for gates, want := range map[string]bool{"EnableQuotaAdmission=true": false, "QuotaByDeviceClasses=true": true} {
		_, rights, errors := run(t, "", "webhooks", "--rbac", "--feature-gates", gates)
		if got := strings.Contains(rights, "resourceclaimtemplates"); got != want || errors != "" {
			t.Errorf("%s: %s%s", gates, rights, errors)
		}
	}
}
