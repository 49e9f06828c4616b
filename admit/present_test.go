package admit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.dev/usher/admit/document"
)

// TestDiffers: what the API server and others add to an injected container is no difference, what they change is.
func TestDiffers(t *testing.T) {
	want := corev1.Container{
		Name: "proxy", Image: "proxy:1", Args: []string{"a", "b"},
		Env:            []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "EMPTY"}},
		Resources:      corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m")}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}},
	}
	const rest = `{"name":"proxy","image":"proxy:1","resources":{"requests":{"cpu":"1"}},"readinessProbe":{"httpGet":{"port":80}},`
	cases := []struct{ name, container, want string }{
		{"as injected, with defaults and more", `{"name":"proxy","image":"proxy:1","args":["a","b"],"imagePullPolicy":"IfNotPresent",
			"env":[{"name":"KUBE","value":"true"},{"name":"EMPTY"},{"name":"A","value":"1","x":1}],"resources":{"requests":{"cpu":"1","memory":"1Gi"}},
			"readinessProbe":{"httpGet":{"port":80,"scheme":"HTTP"},"periodSeconds":10},"volumeMounts":[{"name":"token","mountPath":"/t"}],"x":1}`, "nothing"},
		{"another image", `{"name":"proxy","image":"proxy:2"}`, "args, env, image and 1 more"},
		{"other resources", strings.Replace(rest, `"cpu":"1"`, `"cpu":"2"`, 1) + `"args":["a","b"],"env":[{"name":"A","value":"1"},{"name":"EMPTY"}]}`, "nothing"},
		{"arguments in another order", `{"name":"proxy","image":"proxy:1","args":["b","a"]}`, "args, env, readinessProbe"},
		{"more arguments", rest + `"args":["a","b","c"],"env":[{"name":"A","value":"1"},{"name":"EMPTY"}]}`, "args"},
		{"another value", rest + `"args":["a","b"],"env":[{"name":"A","value":"2"},{"name":"EMPTY"}]}`, "env"},
		{"a variable is missing", rest + `"args":["a","b"],"env":[{"name":"A","value":"1"}]}`, "env"},
		{"env is null", rest + `"args":["a","b"],"env":null}`, "env"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, err := document.Parse([]byte(`{"spec":{"containers":[` + c.container + `]}}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := SomeOrNothing(first(AsPod(d).RegularContainers()).Differs(want)); got != c.want {
				t.Errorf("differs in %q, want %q", got, c.want)
			}
		})
	}
}

func TestPartsDiffer(t *testing.T) {
	d, err := document.Parse([]byte(`{"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}},{"name":"w","configMap":{"name":"c","defaultMode":420}}],
		"containers":[{"env":[{"name":"A","value":"1"}],"volumeMounts":[{"name":"v","mountPath":"/v","readOnly":true}]}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	pod := AsPod(d)
	c := first(pod.RegularContainers())
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	for name, got := range map[string]bool{
		"volume":       !pod.VolumeDiffers(corev1.Volume{Name: "v", VolumeSource: empty}),
		"other volume": pod.VolumeDiffers(corev1.Volume{Name: "w", VolumeSource: empty}),
		"no volume":    !pod.VolumeDiffers(corev1.Volume{Name: "x", VolumeSource: empty}),
		"env":          !c.Env().Differs(corev1.EnvVar{Name: "A", Value: "1"}),
		"other env":    c.Env().Differs(corev1.EnvVar{Name: "A", Value: "2"}),
		"no env":       !c.Env().Differs(corev1.EnvVar{Name: "B", Value: "2"}),
		"mount":        !c.VolumeMountDiffers(corev1.VolumeMount{Name: "v", MountPath: "/v"}),
		"other mount":  c.VolumeMountDiffers(corev1.VolumeMount{Name: "w", MountPath: "/v"}),
		"same path":    c.HasVolumeMount("/v/") && c.HasVolumeMount("v") && c.HasVolumeMount("/x/../v/.") && !c.HasVolumeMount("/v/w") && !c.HasVolumeMount("/"),
		"same mount":   !c.VolumeMountDiffers(corev1.VolumeMount{Name: "v", MountPath: "/v/"}) && c.VolumeMountDiffers(corev1.VolumeMount{Name: "w", MountPath: "/v/"}),
	} {
		if !got {
			t.Error(name)
		}
	}
}
