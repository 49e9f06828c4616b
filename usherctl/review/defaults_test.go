package review

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// TestDefaults: a validating route sees what the API server fills in, and the report and the mutating routes the object as it was sent.
func TestDefaults(t *testing.T) {
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"mine":1,"template":{"spec":{"containers":[{"name":"c","image":"example.com:5000/a"}]}}}}`
	for _, c := range []struct{ name, manifest, seen, unseen string }{
		{"a Deployment", deployment, `"replicas":1,`, `"mine"`},
		{"its template", deployment, `"imagePullPolicy":"Always"`, `"tolerations"`},
		{"a pod", strings.Replace(pod, "{mine: 1}", "{containers: [{name: c, image: 'a@sha256:0', resources: {limits: {cpu: 2}}}]}", 1), `"requests":{"cpu":"2"}`, "Always\"}]"},
		{"a Secret", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"b"}}`, `"data":{"a":"Yg=="}`, "stringData"},
		{"a Namespace", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, `"kubernetes.io/metadata.name":"n"`, "default"},
		{"a Job without labels", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
			`"metadata":{"name":"j","labels":{"a":"b"}}`, "tolerations"},
		{"a NetworkPolicy", `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"n"},"spec":{"podSelector":{},"egress":[{"ports":[{"port":53}]}]}}`,
			`{"protocol":"TCP","port":53}]}],"policyTypes":["Ingress","Egress"]`, "null"},
		{"an autoscaler", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},"behavior":{"scaleUp":{}}}}`,
			`"minReplicas":1,"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]`, "metadata.labels"},
		{"an autoscaler of v1", `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}`,
			`"minReplicas":1,"maxReplicas":3,"targetCPUUtilizationPercentage":80`, "metrics"},
		{"a template with the network of the node", `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d"},"spec":{"template":{"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}}}`,
			`"annotations":{"deprecated.daemonset.template.generation":"1"}`, "hostPort"},
		{"a StorageClass", `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"s"},"provisioner":"p"}`, `"reclaimPolicy":"Delete","volumeBindingMode":"Immediate"`, "status"},
		{"a claim", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"},"spec":{}}`, `"volumeMode":"Filesystem"`, "null"},
		{"a Role without rules", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"}}`, `"rules":null`, "status"},
		{"a RoleBinding", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"r"},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"}]}`,
			`"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io"`, "status"},
		{"a LimitRange", `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"},"min":{"memory":"1Gi"}}]}}`,
			`"default":{"cpu":"1"},"defaultRequest":{"cpu":"1","memory":"1Gi"}`, "status"},
		{"a webhook configuration", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"},"webhooks":[{"name":"w","clientConfig":{"service":{"name":"s","namespace":"n"}},"rules":[{"operations":["CREATE"]}]}]}`,
			`"failurePolicy":"Fail","matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{}`, "reinvocationPolicy"},
		{"a CustomResourceDefinition", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"ws.a.b"},"spec":{"names":{"kind":"W","plural":"ws"}}}`,
			`"conversion":{"strategy":"None"},"names":{"kind":"W","listKind":"WList","plural":"ws","singular":"w"}`, "port"},
		{"another kind", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"mine":1}}`, `"mine": 1`, "status"},
		{"a wrong type", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"w"},"spec":{"containers":"none"}}`, `"none"`, "Always"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := ""
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.manifest), &object.Object); err != nil {
				t.Fatal(err)
			}
			plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			look := admit.Route{Path: "/validate-test", For: admit.Namespaced(object.GroupVersionKind(), []admissionv1.Operation{admissionv1.Create}, plural.Resource), Chain: admit.Validate(func(d *document.Document) *document.Document { return d },
				[]admit.Validator[document.Document]{{Name: "look", Doc: "looks", Run: func(_ context.Context, req *admit.Request, _ *document.Document) (field.ErrorList, error) {
					seen = string(req.Object.Bytes())
					return nil, nil
				}}})}
			result := runOn(t, c.manifest, requests.Options{Operation: admissionv1.Create}, look)
			if !strings.Contains(seen, c.seen) || strings.Contains(seen, c.unseen) || string(result.Before) != string(result.After) || strings.Contains(string(result.After), "25%") {
				t.Errorf("the route saw %s, the report has %s", seen, result.After)
			}
		})
	}
}

// TestUnfilled: a check of a kind of Kubernetes whose defaults are not known allows and refuses nothing.
func TestUnfilled(t *testing.T) {
	const claim = `{"apiVersion":"resource.k8s.io/v1beta1","kind":"ResourceClaim","metadata":{"name":"c"}}`
	for name, c := range map[string]struct {
		manifest string
		refused  field.ErrorList
		want     report.Verdict
	}{
		"passes":                  {claim, nil, report.NotJudged},
		"refused":                 {claim, field.ErrorList{field.Required(field.NewPath("spec", "x"), "")}, report.NotJudged},
		"a version that is known": {`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p"}}`, nil, report.Allowed},
		"of somebody else":        {`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`, nil, report.Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(c.manifest), &object.Object); err != nil {
				t.Fatal(err)
			}
			plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			route := admit.Route{Path: "/validate-test", For: admit.Namespaced(object.GroupVersionKind(), []admissionv1.Operation{admissionv1.Create}, plural.Resource),
				Chain: admit.Validate(admit.AsMeta, []admit.Validator[admit.Meta]{{Name: "look", Doc: "looks", Run: func(context.Context, *admit.Request, *admit.Meta) (field.ErrorList, error) {
					return c.refused, nil
				}}})}
			result := runOn(t, c.manifest, requests.Options{Operation: admissionv1.Create}, route)
			if result.Verdict != c.want || (c.want == report.NotJudged) != strings.Contains(strings.Join(result.Unjudged, ""), "fills in for ResourceClaim of resource.k8s.io/v1beta1") {
				t.Errorf("%s because of %q", result.Verdict, result.Unjudged)
			}
		})
	}
}
