package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

var update = flag.Bool("update", false, "rewrite the table of values in deploy/chart/README.md")

// property is a value in values.schema.json.
type property struct {
	Type, Description    string
	Enum                 []string
	AdditionalProperties any `json:"additionalProperties"`
	Properties           ordered
}

// ordered are the properties of an object, in the order of the file.
type ordered []struct {
	name string
	property
}

func (o *ordered) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var p property
		if err := d.Decode(&p); err != nil {
			return err
		}
		*o = append(*o, struct {
			name string
			property
		}{name.(string), p})
	}
	return nil
}

// TestValuesAreDescribed: values.yaml and the schema have the same values, each is described, and the table in the
// chart's README.md is made from both.
func TestValuesAreDescribed(t *testing.T) {
	var schema property
	if err := json.Unmarshal([]byte(read(t, "deploy/chart/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/chart/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	table := "| value | default | meaning |\n|---|---|---|\n" + strings.Join(rows(t, "", schema, values), "")
	const begin, end = "<!-- values: made by TestValuesAreDescribed -->\n", "<!-- end of values -->\n"
	page := read(t, "deploy/chart/README.md")
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("deploy/chart/README.md has no lines %q and %q", begin, end)
	}
	wanted := before + begin + table + end + after
	if *update {
		if err := os.WriteFile(root(t, "deploy/chart/README.md"), []byte(wanted), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != wanted {
		t.Errorf("the table in deploy/chart/README.md is old: cd test/e2e/chart && go test -run ValuesAreDescribed . -update")
	}
}

// rows returns a row of the table for each value that is not an object with values of its own.
func rows(t *testing.T, prefix string, schema property, values map[string]any) (all []string) {
	t.Helper()
	if len(schema.Properties) != len(values) || schema.AdditionalProperties != false {
		t.Errorf("values.yaml and values.schema.json have other values below %q, or additionalProperties is not false", prefix)
	}
	for _, p := range schema.Properties {
		value, known := values[p.name]
		if !known || p.Description == "" || !strings.HasSuffix(p.Description, ".") || p.Type == "" {
			t.Errorf("%s%s is not in values.yaml, or has no type or description", prefix, p.name)
		}
		if nested, ok := value.(map[string]any); ok && p.Properties != nil {
			all = append(all, rows(t, prefix+p.name+".", p.property, nested)...)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("| `%s%s` | `%s` | %s |\n", prefix, p.name, text, p.Description))
	}
	return all
}

// TestWrongValues: what would not work is refused.
func TestWrongValues(t *testing.T) {
	for text, want := range map[string]string{
		"replicas: 1":                                        "/replicas",
		"certs: self-signed":                                 "/certs",
		"suites: [all]":                                      "/suites/0",
		"replica: 3":                                         "replica",
		"image: {digest: latest}":                            "/image/digest",
		"webhooks: {wait: soon}":                             "/webhooks/wait",
		"webhooks: {failOpen: /all}":                         "/webhooks/failOpen",
		"excludeNamespaces: kube-system":                     "/excludeNamespaces",
		"ports: {https: 443}":                                "/ports/https",
		"ports: {https: 9443, ops: 9443}":                    "ports.https and ports.ops are both 9443",
		"{suites: [colocation], watch: false}":               "set watch: true",
		"{hostNetwork: true, apiServerCIDRs: [10.0.0.1/32]}": "apiServerCIDRs does nothing with hostNetwork",
		"{service: {ipFamilies: [IPv6, IPv6]}}":              "/service/ipFamilies",
		"excludeNamespaces: ['a: b']":                        "/excludeNamespaces/0",
		"webhooks: {failOpen: ['a: b']}":                     "/webhooks/failOpen/0",
		"image: {pullSecrets: ['a: b']}":                     "/image/pullSecrets/0",
		"priorityClassName: 'a: b'":                          "/priorityClassName",
		"featureGates: 'a: b'":                               "/featureGates",
		"tls: {minVersion: VersionTLS11}":                    "/tls/minVersion",
		"service: {type: ExternalName}":                      "/service/type",
		"env: [A=b]":                                         "/env/0",
		"podLabels: {app.kubernetes.io/name: other}":         "propertyName 'app.kubernetes.io/name'",
	} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		if _, err := render(t, "usher", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", text, err, want)
		}
	}
}

// TestEachValueArrives: each value of the schema changes what is rendered, in the named object.
func TestEachValueArrives(t *testing.T) {
	var schema property
	if err := json.Unmarshal([]byte(read(t, "deploy/chart/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	untested := leaves("", schema)
	const deployment, job, service = "Deployment usher", "Job usher-webhooks", "Service usher"
	for _, c := range []struct{ value, text, object, want string }{
		{"image.repository", "image: {repository: r.example/u}", deployment, `"image":"r.example/u:`},
		{"image.tag", "image: {tag: v9}", job, `"image":"usher:v9"`},
		{"image.digest", "image: {digest: sha256:" + strings.Repeat("a", 64) + "}", "Pod usher-test", `"image":"usher@sha256:aaa`},
		{"image.pullPolicy", "image: {pullPolicy: Always}", job, `"imagePullPolicy":"Always"`},
		{"image.pullSecrets", "image: {pullSecrets: ['123']}", job, `"imagePullSecrets":[{"name":"123"}]`},
		{"replicas", "replicas: 5", deployment, `"replicas":5`},
		{"certs", "certs: secret", deployment, `"--cert-dir=/etc/usher/certs"`},
		{"suites", "suites: [core, colocation]", job, `"--suite=core,colocation"`},
		{"featureGates", "featureGates: A=true", deployment, `"--feature-gates=A=true"`},
		{"watch", "watch: false", "ClusterRole usher", ""},
		{"watchRules", "watchRules: [{apiGroups: [x.io], resources: [things], verbs: [list]}]", "ClusterRole usher", `"apiGroups":["x.io"]`},
		{"keepRegistered", "keepRegistered: true", deployment, `"--keep-registered=10s"`},
		{"policy", "policy: 'names: {}'", "ConfigMap usher-policy", `"policy.yaml":"names: {}"`},
		{"args", "args: [--max-in-flight=7]", deployment, `"--max-in-flight=7"`},
		{"excludeNamespaces", "excludeNamespaces: [net]", job, `"--exclude-namespace=net"`},
		{"webhooks.wait", "webhooks: {wait: 7m}", job, `"--wait=7m"`},
		{"webhooks.failOpen", "webhooks: {failOpen: [all]}", job, `"--fail-open=all"`},
		{"webhooks.failClosed", "webhooks: {failClosed: [/validate-pods]}", job, `"--fail-closed=/validate-pods"`},
		{"webhooks.skipKubelets", "webhooks: {skipKubelets: true}", job, `"--skip-kubelets"`},
		{"webhooks.args", "webhooks: {args: [--force-conflicts]}", job, `"--force-conflicts"`},
		{"apiServerCIDRs", `apiServerCIDRs: ["fd00::1/128"]`, "NetworkPolicy usher", `"cidr":"fd00::1/128"`},
		{"resources", "resources: {limits: {memory: 1Gi}}", deployment, `"limits":{"memory":"1Gi"}`},
		{"nodeSelector", "nodeSelector: {role: infra}", job, `"nodeSelector":{"role":"infra"}`},
		{"tolerations", "tolerations: [{operator: Exists}]", "Job usher-webhooks-remove", `"tolerations":[{"operator":"Exists"}]`},
		{"affinity", "affinity: {nodeAffinity: {x: z}}", deployment, `"affinity":{"nodeAffinity":{"x":"z"}}`},
		{"hostNetwork", "hostNetwork: true", deployment, `"dnsPolicy":"ClusterFirstWithHostNet","hostNetwork":true`},
		{"dnsPolicy", "dnsPolicy: Default", deployment, `"dnsPolicy":"Default"`},
		{"ports.https", "ports: {https: 10443}", deployment, `"--listen=:10443"`},
		{"ports.ops", "ports: {ops: 10081}", "NetworkPolicy usher", `"port":10081`},
		{"priorityClassName", "priorityClassName: '123'", deployment, `"priorityClassName":"123"`},
		{"resourceQuota", "resourceQuota: false", "ResourceQuota critical-pods", ""},
		{"resourceQuota", "priorityClassName: system-node-critical", "ResourceQuota critical-pods", `"values":["system-node-critical"]`},
		{"tls.minVersion", "tls: {minVersion: modern}", deployment, `"--tls-min-version=modern"`},
		{"tls.cipherSuites", "tls: {cipherSuites: [A-B, C]}", deployment, `"--tls-cipher-suites=A-B,C"`},
		{"tls.curves", "tls: {curves: [P256]}", deployment, `"--tls-curves=P256"`},
		{"annotations", "annotations: {a.io/b: c}", deployment, `"metadata":{"annotations":{"a.io/b":"c"}`},
		{"podAnnotations", "podAnnotations: {a.io/b: c}", deployment, `"template":{"metadata":{"annotations":{"a.io/b":"c"}`},
		{"podLabels", "podLabels: {team: t}", deployment, `"labels":{"app.kubernetes.io/name":"usher","team":"t"}},"spec"`},
		{"env", "env: [{name: GODEBUG, value: fips140=on}]", deployment, `"env":[{"name":"GODEBUG","value":"fips140=on"}]`},
		{"volumes", "volumes: [{name: extra, emptyDir: {}}]", deployment, `{"emptyDir":{},"name":"extra"}`},
		{"volumeMounts", "volumeMounts: [{name: extra, mountPath: /extra}]", deployment, `{"mountPath":"/extra","name":"extra"}`},
		{"service.type", "service: {type: NodePort}", service, `"type":"NodePort"`},
		{"service.annotations", "{service: {annotations: {a.io/b: c}}, certs: openshift}", service, `"annotations":{"a.io/b":"c","service.beta`},
		{"service.ipFamilyPolicy", "service: {ipFamilyPolicy: RequireDualStack}", service, `"ipFamilyPolicy":"RequireDualStack"`},
		{"service.ipFamilies", "service: {ipFamilies: [IPv6, IPv4]}", service, `"ipFamilies":["IPv6","IPv4"]`},
		{"monitoring.podMonitor", "monitoring: {podMonitor: true}", "PodMonitor usher", `"path":"/metrics"`},
		{"monitoring.rules", "monitoring: {rules: true}", "PrometheusRule usher", `{{ $labels.namespace }}`},
		{"monitoring.dashboard", "monitoring: {dashboard: true}", "ConfigMap usher-dashboard", `"usher.json":"{`},
		{"monitoring.labels", "monitoring: {podMonitor: true, labels: {release: p}}", "PodMonitor usher", `"release":"p"`},
	} {
		values := map[string]any{}
		if err := yaml.Unmarshal([]byte(c.text), &values); err != nil {
			t.Fatal(err)
		}
		with, without := mustJSON(t, mustRender(t, "usher", values)[c.object]), mustJSON(t, mustRender(t, "usher", nil)[c.object])
		if with == without || !strings.Contains(with, c.want) || c.want == "" && with != "null" {
			t.Errorf("%s: %s is %s, want %s in it", c.text, c.object, with, c.want)
		}
		untested = slices.DeleteFunc(untested, func(value string) bool { return value == c.value })
	}
	if len(untested) > 0 {
		t.Errorf("%v are not tested", untested)
	}
}

// leaves returns the names of the values of a schema.
func leaves(prefix string, schema property) (all []string) {
	for _, p := range schema.Properties {
		if p.Properties == nil {
			all = append(all, prefix+p.name)
		}
		all = append(all, leaves(prefix+p.name+".", p.property)...)
	}
	return all
}

func mustJSON(t *testing.T, o kubetest.Object) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLint: `helm lint --strict` has no complaint, with the defaults and with the values of each overlay.
func TestLint(t *testing.T) {
	lint := action.NewLint()
	lint.Strict, lint.Namespace, lint.KubeVersion = true, "usher", &common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	for _, overlay := range overlays(t) {
		result := lint.Run([]string{root(t, "deploy/chart")}, valuesOf(t, overlay))
		for _, m := range result.Messages {
			if m.Severity > support.InfoSev { // that an icon is missing
				t.Errorf("%s: %s", overlay, m)
			}
		}
		if len(result.Errors) > 0 {
			t.Errorf("%s: %v", overlay, result.Errors)
		}
	}
}

// TestSameFiles: the files of the chart that are copies are the same as those that they are copies of.
func TestSameFiles(t *testing.T) {
	for file, of := range map[string]string{"policy.yaml": "deploy/base/policy.yaml", "monitoring/prometheusrule.yaml": "deploy/monitoring/prometheusrule.yaml",
		"monitoring/dashboard.json": "deploy/monitoring/dashboard.json"} {
		if read(t, "deploy/chart/"+file) != read(t, of) {
			t.Errorf("deploy/chart/%s differs from %s: cp %s deploy/chart/%s", file, of, of, file)
		}
	}
}
