package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/tool"
)

// TestLedger: what the objects of a run use together is compared with the ResourceQuotas, in their order.
func TestLedger(t *testing.T) {
	const (
		pod      = "---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 600m}}}]}}\n"
		workload = "---\n{apiVersion: apps/v1, kind: %s, metadata: {name: web}, spec: {replicas: %d, selector: {matchLabels: {a: b}}, " +
			"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}\n"
		quota   = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q%s}, spec: {hard: {%[2]s}}, status: {hard: {%[2]s}, used: {%s}}}\n"
		service = "---\n{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{port: 80}]}}\n"
		claim   = "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}}\n"
		hook    = "---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{name: other.example.com, " +
			"sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://other'}, rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [services]}]}]}\n"
	)
	cpu, pods := fmt.Sprintf(quota, "", `requests.cpu: "1"`, `requests.cpu: "0"`), fmt.Sprintf(quota, "", `pods: "2"`, `pods: "1"`)
	one := func(format, name string) string { return fmt.Sprintf(format, name) }
	many := strings.Repeat("---\n{apiVersion: v1, kind: ConfigMap, metadata: {generateName: m}}\n", 2*alone)
	for name, c := range map[string]struct {
		manifests string
		want      []string
		args      []string
	}{
		"pods":                 {cpu + one(pod, "a") + one(pod, "b"), []string{"allowed  CREATE Pod default/a", "invalid  CREATE Pod default/b", "used: requests.cpu=600m"}, nil},
		"among many":           {cpu + one(pod, "a") + many + one(pod, "b"), []string{"1 invalid"}, nil},
		"one of them refused":  {cpu + one(pod, "offensive") + one(pod, "b"), []string{"allowed  CREATE Pod default/b", "1 denied"}, nil},
		"the same twice":       {cpu + one(pod, "a") + one(pod, "a"), []string{"2 allowed"}, nil},
		"a dry run":            {cpu + one(pod, "a") + one(pod, "b"), []string{"2 allowed"}, []string{"--dry-run"}},
		"of another Namespace": {cpu + one(pod, "a") + one(pod, "b, namespace: x"), []string{"2 allowed"}, nil},
		"replicas":             {pods + fmt.Sprintf(workload, "Deployment", 10), []string{"invalid: ResourceQuota: 1 of 10 pods of Deployment web fit: pods", "used: pods=2"}, nil},
		"replicas that fit":    {pods + fmt.Sprintf(workload, "StatefulSet", 1), []string{"1 allowed"}, nil},
		"no replicas":          {strings.ReplaceAll(pods, `"2"`, `"0"`) + fmt.Sprintf(workload, "ReplicaSet", 0), []string{"1 allowed"}, nil},
		"on each node":         {pods + strings.Replace(fmt.Sprintf(workload, "DaemonSet", 1), "replicas: 1, ", "", 1), []string{"not judged: DaemonSet web has a pod on each node"}, nil},
		"a refused workload":   {fmt.Sprintf(quota, "", `pods: "1", count/deployments.apps: "0"`, `pods: "0", count/deployments.apps: "0"`) + fmt.Sprintf(workload, "Deployment", 1) + one(pod, "a"), []string{"allowed  CREATE Pod default/a", "1 invalid"}, nil},
		"a dumped quota":       {strings.ReplaceAll(pods, "name: q", "uid: u, name: q") + fmt.Sprintf(workload, "Deployment", 2), []string{"1 of 2 pods"}, nil},
		"services":             {fmt.Sprintf(quota, "", `services: "1"`, `services: "0"`) + one(service, "a") + one(service, "b"), []string{"invalid  CREATE Service default/b", "1 invalid"}, nil},
		"after one not judged": {fmt.Sprintf(quota, "", `services: "1"`, `services: "0"`) + hook + one(service, "a") + one(service, "b"), []string{"2 not judged", "not judged: whether the quota has room: an object before it"}, nil},
		"storage":              {fmt.Sprintf(quota, "", `requests.storage: 3Gi`, `requests.storage: "0"`) + fmt.Sprintf(claim, "a", "2Gi") + fmt.Sprintf(claim, "b", "2Gi"), []string{"used: requests.storage=2Gi"}, nil},
		"counted by kind":      {fmt.Sprintf(quota, "", `count/configmaps: "20"`, `count/configmaps: "0"`) + many, []string{"380 invalid"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var to bytes.Buffer
			command := Command(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{In: strings.NewReader(c.manifests), Out: &to, Err: &to}}, nil)
			command.SetArgs(append(c.args, "--suite=core", "-"))
			command.SilenceErrors, command.SilenceUsage = true, true
			_ = command.ExecuteContext(t.Context())
			for _, want := range c.want {
				if !strings.Contains(to.String(), want) {
					t.Errorf("no %q in\n%.3000s", want, to.String())
				}
			}
		})
	}
}
