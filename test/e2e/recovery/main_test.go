// Package recovery tests what the pages promise for the time when usher is away: its webhooks are registered for every
// policy of the samples at once, all of them with failurePolicy Fail, and nothing answers.
package recovery

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/e2e/kubetest"
)

var (
	cluster *kubetest.Cluster
	program string // usher
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.Options{}, start) }

// start creates what the tests use, and then registers usher, which does not run.
func start(ctx context.Context, c *kubetest.Cluster) (err error) {
	cluster = c
	if program, err = cluster.BuildUsher(ctx); err != nil {
		return err
	}
	if _, err := cluster.Kubectl(ctx, "apply", "-k", "deploy/crds"); err != nil {
		return err
	}
	if err := cluster.Apply(ctx, world); err != nil {
		return err
	}
	_, err = register(ctx, failClosedToo)
	return err
}

// failClosedToo is the flag for what has the failurePolicy Ignore by default.
const failClosedToo = "--fail-closed=/validate-node,/validate-pod-binding,/validate-pod-status"

// world has the namespaces that the pages name, which have opted in; root, who may do everything but is no
// system:masters; and jane, who may do everything in namespaces, and change them.
const world = `
{apiVersion: v1, kind: Namespace, metadata: {name: usher}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: koordinator-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {admission-webhook: enabled, env: production}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: rook-ceph, labels: {admission-webhook: enabled, env: production}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: exempt, labels: {admission-webhook: enabled, env: production, usher.dev/exempt: "true"}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: my-csi, labels: {admission-webhook: enabled, env: production}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: root},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: User, name: root}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: developers}, rules: [
  {apiGroups: [""], resources: [namespaces, namespaces/status, namespaces/finalize], verbs: ["*"]},
  {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: developers},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: developers}, subjects: [{kind: User, name: jane}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: editors},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}, subjects: [{kind: User, name: jane}]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {admission-webhook: enabled}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: stored, namespace: shop}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stored, namespace: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: stored, namespace: shop}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: stored, namespace: shop}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: quota.koordinator.sh/v1alpha1, kind: ElasticQuotaProfile, metadata: {name: stored, namespace: shop}, spec: {quotaName: a, nodeSelector: {matchLabels: {a: b}}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: slo-controller-config, namespace: koordinator-system}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: stored, namespace: shop}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: stored, namespace: shop}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: stored, namespace: shop}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: stored, namespace: shop}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: stored, namespace: shop}, spec: {schedule: 0 0 * * *,
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: stored, namespace: shop}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: stored, namespace: shop}, spec: {selector: {a: b},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: v1, kind: PodTemplate, metadata: {name: stored, namespace: shop}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: stored, namespace: shop}, rules: []}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: stored, namespace: shop},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}
---
{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: stored, namespace: shop}, spec: {max: {cpu: "4"}, min: {cpu: "1"}}}
---
{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: stored}, spec: {ttl: 1h,
  owners: [{labelSelector: {matchLabels: {app: a}}}], template: {spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: config.koordinator.sh/v1alpha1, kind: ClusterColocationProfile, metadata: {name: stored}, spec: {selector: {matchLabels: {nobody: has}}}}
`

// onNamespaces is a policy about Namespaces themselves, which no sample is.
const onNamespaces = `
restrictions:
- {name: namespaces-stay, requests: [{apiGroups: [""], resources: [namespaces, namespaces/status], operations: [UPDATE, DELETE]}]}
rules:
- name: namespaces-have-an-owner
  match: {apiGroups: [""], resources: [namespaces], operations: [CREATE, UPDATE]}
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})", message: label it with its owner}]
`

// register registers usher for all policies, each in configurations of its own, and waits until the API server knows
// them. It returns the configurations.
func register(ctx context.Context, flags ...string) (all []string, err error) {
	root, err := kubetest.Repository()
	if err != nil {
		return nil, err
	}
	policies, err := filepath.Glob(filepath.Join(root, "samples", "policies", "*.yaml"))
	if err != nil {
		return nil, err
	}
	own := filepath.Join(cluster.Dir(), "namespaces.yaml")
	if err := os.WriteFile(own, []byte(onNamespaces), 0o600); err != nil {
		return nil, err
	}
	for _, policy := range append(policies, own) {
		name := strings.TrimSuffix(filepath.Base(policy), ".yaml")
		printed, err := webhooks(ctx, policy, flags...)
		if err != nil {
			return nil, err
		}
		all = append(all, strings.ReplaceAll(printed, "\n  name: usher\n", "\n  name: usher-"+name+"\n"))
	}
	if err := cluster.Apply(ctx, strings.Join(all, "\n---\n")); err != nil {
		return nil, err
	}
	return all, kubetest.Eventually(ctx, func(ctx context.Context) error {
		if _, err := cluster.Kubectl(ctx, "create", "namespace", "probe", "--dry-run=server"); err == nil {
			return fmt.Errorf("the webhooks for %s are not called yet", own)
		}
		return nil
	})
}

// webhooks prints the configurations for a policy. Nothing listens at the URL.
func webhooks(ctx context.Context, policy string, flags ...string) (string, error) {
	gates, err := kubetest.ReadFile("samples/feature-gates")
	if err != nil {
		return "", err
	}
	flags = append(flags, "--config="+policy, "--suite=core,colocation", "--feature-gates="+strings.TrimSpace(gates), "--url=https://127.0.0.1:1")
	out, err := exec.CommandContext(ctx, program, append([]string{"webhooks"}, flags...)...).Output()
	return string(out), err
}

// paste runs a line in a shell of an administrator, as a reader of the pages would.
func paste(ctx context.Context, line string) (string, error) { return cluster.Paste(ctx, line) }

// unlike returns an error unless a command has ended as it should: without an error, or refused with a text.
func unlike(out string, err error, refusal string) error {
	switch {
	case refusal == "" && err != nil:
		return fmt.Errorf("%w: %s", err, out)
	case refusal != "" && err == nil:
		return fmt.Errorf("it is not refused: %s", out)
	case !strings.Contains(out, refusal):
		return fmt.Errorf("it is refused by something else: %s", out)
	}
	return nil
}
