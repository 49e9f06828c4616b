package injection

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/test/configtest"
)

const tried = `sidecars:
- name: a
  containers: [{name: x, image: i, ports: [{containerPort: 80, hostPort: 80}], volumeMounts: [{name: own, mountPath: /o}, {name: pods, mountPath: /p}]}]
  volumes: [{name: own, emptyDir: {}}]
  env: [{name: A, valueFrom: {fileKeyRef: {volumeName: pods, path: p, key: k}}}]
- name: b
  initContainers: [{name: z, image: i, volumeDevices: [{name: pods, devicePath: /d}], resources: {claims: [{name: gpu}], requests: {cpu: "2", memory: 1Gi}, limits: {cpu: "3"}}}]
  containers: [{name: x, image: i, ports: [{containerPort: 80, hostPort: 80}], lifecycle: {stopSignal: SIGTERM}}]
  volumes: [{name: own, hostPath: {path: /}}]
  volumeMounts: [{name: own, mountPath: /o, mountPropagation: Bidirectional}]
`

// TestTrial: injections that no pod gets together do not meet in the trial, and what they expect of their pods is there.
func TestTrial(t *testing.T) {
	trials := configtest.Parse(t, tried, Section).Trials()
	if len(trials) != 1 {
		t.Fatal(trials)
	}
	pod := trials[0].Pod
	seen, volumes := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if seen[c.Name] {
			t.Errorf("two containers %s", c.Name)
		}
		seen[c.Name] = true
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("container %s: no volume %s", c.Name, m.Name)
			}
		}
	}
	spec := pod.Spec
	if len(seen) != 5 || len(volumes) != 4 || len(spec.ResourceClaims) != 1 || spec.Volumes[3].PersistentVolumeClaim == nil ||
		spec.Containers[1].Ports[0].HostPort != 80 || spec.Containers[3].Ports[0].HostPort != 0 || spec.Containers[3].Lifecycle.StopSignal != nil ||
		spec.Containers[0].SecurityContext != nil || !*spec.Containers[2].SecurityContext.Privileged {
		t.Errorf("%+v", spec)
	}
	if limits := spec.InitContainers[0].Resources.Limits; limits.Cpu().Value() != 3 || limits.Memory().Value() != 1<<30 || len(limits) != 2 {
		t.Errorf("limits: %v", limits)
	}
	if trials := configtest.Parse(t, "sidecars: []", Section).Trials(); trials != nil {
		t.Errorf("of nothing: %v", trials)
	}
}

// TestTrialProblems: the problems of the pod are those of the policy, at its paths; other refusals are none.
func TestTrialProblems(t *testing.T) {
	trial := configtest.Parse(t, tried, Section).Trials()[0]
	pods, resource := schema.GroupKind{Kind: "Pod"}, schema.GroupResource{Resource: "pods"}
	at := func(path string) field.ErrorList {
		return field.ErrorList{field.Required(field.NewPath(path), "such as b")}
	}
	policies := apierrors.NewForbidden(resource, trial.Pod.Name, fmt.Errorf("ValidatingAdmissionPolicy 'p' denied request: no"))
	policies.ErrStatus.Reason = "Invalid"
	for _, c := range []struct {
		name    string
		refusal *apierrors.StatusError
		want    string
	}{
		{"a container", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.containers[3].image")), "sidecars[1].containers[0].image: Required value: such as b"},
		{"an init container", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.initContainers[0]")), "sidecars[1].initContainers[0]: Required"},
		{"a volume", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.volumes[2].hostPath")), "sidecars[1].volumes[0].hostPath: Required"},
		{"variables", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.containers[0].env[0].name")), "sidecars[0].env[0].name: Required"},
		{"mounts", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.containers[2].volumeMounts[0]")), "sidecars[1].volumeMounts[0]: Required"},
		{"what is not of the policy", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.containers[12].image")), ""},
		{"a volume of the pod", apierrors.NewInvalid(pods, trial.Pod.Name, at("spec.volumes[1]")), ""},
		{"another object", apierrors.NewInvalid(pods, "other", at("spec.volumes[2]")), ""},
		{"an admission policy", policies, ""},
		{"Pod Security", apierrors.NewForbidden(resource, trial.Pod.Name, fmt.Errorf("violates PodSecurity")), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := fmt.Sprint(trial.Problems(c.refusal.ErrStatus))
			if c.want == "" && got != "[]" || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
