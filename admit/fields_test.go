package admit

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podresource "k8s.io/component-helpers/resource"
)

// fullPod has a value in every field that has a view, and fields that the types do not know (x...).
const fullPod = `{"metadata":{"labels":{"a/b":"1","a/c":"2","d":"3"},"annotations":{"a/b":"1","e":"2"},
  "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","x":1}]},
 "spec":{"hostNetwork":true,"hostPID":true,"hostIPC":true,"serviceAccountName":"sa","serviceAccount":"sa",
  "automountServiceAccountToken":false,
  "dnsPolicy":"Default","restartPolicy":"Never","terminationGracePeriodSeconds":0,"nodeSelector":{"disk":"ssd"},"imagePullSecrets":[{"name":"s","x":1}],
  "securityContext":{"runAsNonRoot":true,"runAsUser":0,"supplementalGroups":[1,2],"x":{"y":1}},
  "affinity":{"podAffinity":{"x":1},"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"x":1}]}}},
  "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","x":1}],
  "volumes":[{"name":"v","emptyDir":{"sizeLimit":"1024Mi"},"x":1},{"name":"w","x":2},{"name":"m","image":{"reference":"model:1"}}],
  "initContainers":[{"name":"i","image":"init","securityContext":{"privileged":true,"x":1}}],
  "ephemeralContainers":[{"name":"e","image":"debug","targetContainerName":"c","securityContext":{"x":1}}],
  "containers":[{"name":"c","image":"app","imagePullPolicy":"Always","command":["a","b"],"args":["c"],"x":1,
    "ports":[{"containerPort":53,"protocol":"UDP"},{"containerPort":53,"protocol":"TCP"}],
    "livenessProbe":{"httpGet":{"path":"/","port":"http","x":1},"periodSeconds":5,"x":1},"readinessProbe":{"tcpSocket":{"port":80}},
    "startupProbe":{"exec":{"command":["true"]}},"securityContext":{"capabilities":{"drop":["ALL"],"x":1},"x":1},
    "volumeMounts":[{"name":"v","mountPath":"/v"}],"resources":{"limits":{"cpu":"1000m"}}}]}}`

// eachContainer runs the view of each container in a verb, and eachTyped its typed twin.
func eachContainer(f func(*Container)) func(*Pod) {
	return func(p *Pod) {
		for c := range p.AllContainers() {
			f(c)
		}
	}
}

func eachTyped(f func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				f(&list[i])
			}
		}
		for i := range p.Spec.EphemeralContainers {
			f((*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon))
		}
	}
}

var (
	owner    = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "v"}
	mount    = corev1.VolumeMount{Name: "w", MountPath: "/w"}
	volume   = corev1.Volume{Name: "t", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	secret   = corev1.LocalObjectReference{Name: "t"}
	tolerate = []corev1.Toleration{{Key: "b", Operator: corev1.TolerationOpExists}, {Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule}}
	added    = corev1.Container{Name: "added", Image: "i", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
)

func first(containers iter.Seq[*Container]) *Container {
	for c := range containers {
		return c
	}
	return nil
}

var fieldVerbs = []struct {
	name  string
	view  func(*Pod)
	typed func(*corev1.Pod)
}{
	{"RemoveLabel", func(p *Pod) { p.RemoveLabel("a/b") }, func(p *corev1.Pod) { delete(p.Labels, "a/b") }},
	{"RemoveLabelsWithPrefix", func(p *Pod) { p.RemoveLabelsWithPrefix("a/") }, func(p *corev1.Pod) { dropPrefix(p.Labels) }},
	{"RemoveAnnotationsWithPrefix", func(p *Pod) { p.RemoveAnnotationsWithPrefix("a/") }, func(p *corev1.Pod) { dropPrefix(p.Annotations) }},
	{"AppendOwnerReference", func(p *Pod) { p.AppendOwnerReference(owner) },
		func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, owner) }},
	{"SetNodeSelector", func(p *Pod) { p.SetNodeSelector("a/b", "c") }, func(p *corev1.Pod) { set(&p.Spec.NodeSelector, "a/b", "c") }},
	{"RemoveTolerations", func(p *Pod) { p.AppendToleration(tolerate[0]); p.AppendToleration(tolerate[1]); p.RemoveTolerations(0) },
		func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, tolerate...)[1:] }},
	{"AppendImagePullSecret", func(p *Pod) { p.AppendImagePullSecret(secret) }, func(p *corev1.Pod) {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, secret)
	}},
	{"AppendVolume", func(p *Pod) { p.AppendVolume(volume) }, func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, volume) }},
	{"InsertContainer", func(p *Pod) { p.InsertContainer(nil, added) }, func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, added) }},
	{"InsertContainer first", func(p *Pod) { p.InsertContainer(first(p.RegularContainers()), added) },
		func(p *corev1.Pod) { p.Spec.Containers = slices.Insert(p.Spec.Containers, 0, added) }},
	{"InsertInitContainer", func(p *Pod) { p.InsertInitContainer(nil, added) },
		func(p *corev1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, added) }},
	{"InsertInitContainer first", func(p *Pod) { p.InsertInitContainer(first(p.InitContainers()), added) },
		func(p *corev1.Pod) { p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, 0, added) }},
	{"AppendVolumeMount", eachContainer(func(c *Container) { c.AppendVolumeMount(mount) }),
		eachTyped(func(c *corev1.Container) { c.VolumeMounts = append(c.VolumeMounts, mount) })},
}

func dropPrefix(m map[string]string) {
	for key := range m {
		if strings.HasPrefix(key, "a/") {
			delete(m, key)
		}
	}
}

func TestFieldVerbsDoWhatTheTypedEditDoes(t *testing.T) {
	for _, shape := range append(slices.Clone(shapes), fullPod) {
		for _, verb := range fieldVerbs {
			t.Run(verb.name, func(t *testing.T) { compare(t, verb.name, shape, AsPod, verb.view, verb.typed) })
		}
	}
}

// fieldReads are the read verbs, each with the same part of the typed object.
var fieldReads = []struct {
	name  string
	view  func(*Pod) any
	typed func(*corev1.Pod) any
}{
	{"LabelsWithPrefix", func(p *Pod) any { return p.LabelsWithPrefix("a/") }, func(p *corev1.Pod) any { return withPrefix(p.Labels) }},
	{"AnnotationsWithPrefix", func(p *Pod) any { return p.AnnotationsWithPrefix("a/") },
		func(p *corev1.Pod) any { return withPrefix(p.Annotations) }},
	{"OwnerReferences", func(p *Pod) any { return p.OwnerReferences() }, func(p *corev1.Pod) any { return p.OwnerReferences }},
	{"Ended", func(p *Pod) any { return p.Ended() }, func(p *corev1.Pod) any {
		return p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
	}},
	{"RestartPolicy", func(p *Pod) any { return p.RestartPolicy() }, func(p *corev1.Pod) any { return p.Spec.RestartPolicy }},
	{"NodeSelector", func(p *Pod) any { return p.NodeSelector() }, func(p *corev1.Pod) any { return p.Spec.NodeSelector }},
	{"Tolerations", func(p *Pod) any { return p.Tolerations() }, func(p *corev1.Pod) any { return p.Spec.Tolerations }},
	{"BestEffort", func(p *Pod) any { return p.BestEffort() }, bestEffortTyped},
	{"ImagePullSecrets", func(p *Pod) any { return p.ImagePullSecrets() }, func(p *corev1.Pod) any { return p.Spec.ImagePullSecrets }},
	{"HasVolume", func(p *Pod) any { return p.HasVolume("v") }, func(p *corev1.Pod) any {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "v" })
	}},
	{"Images", images, imagesTyped},
	{"containers", containerReads, containerReadsTyped},
}

func bestEffortTyped(p *corev1.Pod) any {
	if p.Status.QOSClass != "" {
		return p.Status.QOSClass == corev1.PodQOSBestEffort
	}
	var lists []corev1.ResourceList
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		lists = append(lists, c.Resources.Requests, c.Resources.Limits)
	}
	if podresource.IsPodLevelResourcesSet(p) {
		lists = []corev1.ResourceList{p.Spec.Resources.Requests, p.Spec.Resources.Limits}
	}
	return !slices.ContainsFunc(lists, func(l corev1.ResourceList) bool { return l.Cpu().Sign() > 0 || l.Memory().Sign() > 0 })
}

func images(p *Pod) any {
	var all []string
	for i := range p.Images() {
		all = append(all, i.Place()+"="+i.Reference())
	}
	return all
}

func imagesTyped(p *corev1.Pod) any {
	var all []string
	for _, c := range p.Spec.InitContainers {
		all = append(all, "initContainers/"+c.Name+"="+c.Image)
	}
	for _, c := range p.Spec.Containers {
		all = append(all, "containers/"+c.Name+"="+c.Image)
	}
	for _, c := range p.Spec.EphemeralContainers {
		all = append(all, "ephemeralContainers/"+c.Name+"="+c.Image)
	}
	for _, v := range p.Spec.Volumes {
		if v.Image != nil {
			all = append(all, "volumes/"+v.Name+"="+v.Image.Reference)
		}
	}
	return all
}

func withPrefix(m map[string]string) map[string]string {
	some := map[string]string{}
	for key, value := range m {
		if strings.HasPrefix(key, "a/") {
			some[key] = value
		}
	}
	return some
}

func containerReads(p *Pod) any {
	var all []string
	eachContainer(func(c *Container) { all = append(all, fmt.Sprint(c.Name(), c.Image(), c.HasVolumeMount("/v"))) })(p)
	return all
}

func containerReadsTyped(p *corev1.Pod) any {
	var all []string
	eachTyped(func(c *corev1.Container) {
		mounts := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/v" })
		all = append(all, fmt.Sprint(c.Name, c.Image, mounts))
	})(p)
	return all
}

func TestFieldReadsAgreeWithTheTypedPod(t *testing.T) {
	for _, shape := range append(slices.Clone(shapes), fullPod) {
		p := AsPod(parse(t, shape))
		whole := p.Object()
		for _, read := range fieldReads {
			t.Run(read.name, func(t *testing.T) {
				if diff := cmp.Diff(read.typed(&whole), read.view(p), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-typed +view):\n%s", shape, diff)
				}
			})
		}
	}
}

// TestFieldsOfWrongType: a part of the wrong JSON type is reported with its path.
func TestFieldsOfWrongType(t *testing.T) {
	for _, test := range []struct {
		raw, path string
		do        func(*Pod)
	}{
		{`{"spec":{"nodeSelector":[]}}`, "spec.nodeSelector", func(p *Pod) { p.SetNodeSelector("a", "b") }},
		{`{"spec":{"nodeSelector":{"a":1}}}`, "spec.nodeSelector.a", func(p *Pod) { p.NodeSelector() }},
		{`{"spec":{"volumes":{}}}`, "spec.volumes", func(p *Pod) { p.AppendVolume(volume) }},
		{`{"spec":{"ephemeralContainers":[{"image":1}]}}`, "spec.ephemeralContainers[0].image", eachContainer(func(c *Container) { c.Image() })},
		{`{"spec":{"initContainers":[{"image":["sh"]}]}}`, "spec.initContainers[0].image", eachContainer(func(c *Container) { c.Image() })},
		{`{"metadata":{"labels":1}}`, "metadata.labels", func(p *Pod) { p.RemoveLabelsWithPrefix("a/") }},
		{`{"spec":{"containers":[{"image":1}]}}`, "object", func(p *Pod) { p.Edit(func(*corev1.Pod) { panic("called") }) }},
	} {
		t.Run(test.raw, func(t *testing.T) {
			d := parse(t, test.raw)
			test.do(AsPod(d))
			wrong, ok := errors.AsType[*field.Error](d.Err())
			if !ok || wrong.Field != test.path || d.Edits() > 0 {
				t.Errorf("error %v, %d edits; want an error at %s", d.Err(), d.Edits(), test.path)
			}
		})
	}
}

func TestBestEffort(t *testing.T) {
	for raw, want := range map[string]bool{
		`{}`: true,
		`{"spec":{"containers":[{"resources":{"requests":{"cpu":"0","memory":"0"}}}]}}`:                                     true,
		`{"spec":{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"1"}}}]}}`:                                       true,
		`{"spec":{"ephemeralContainers":[{"resources":{"requests":{"cpu":"1"}}}]}}`:                                         true,
		`{"spec":{"containers":[{},{"resources":{"limits":{"memory":"1"}}}]}}`:                                              false,
		`{"spec":{"initContainers":[{"resources":{"requests":{"cpu":"1m"}}}]}}`:                                             false,
		`{"spec":{"resources":{},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`:                                   false,
		`{"spec":{"resources":{"requests":{"hugepages-2Mi":"2Mi"}},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`: true,
		`{"spec":{"resources":{"limits":{"cpu":1}}}}`:                                                                       false,
		`{"status":{"qosClass":"BestEffort"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}`:               true,
		`{"status":{"qosClass":"Burstable"}}`:                                                                               false,
	} {
		d := parse(t, raw)
		typed := AsPod(d).Object()
		if got := AsPod(d).BestEffort(); got != want || got != bestEffortTyped(&typed) || d.Err() != nil {
			t.Errorf("%s: %v, %v", raw, got, d.Err())
		}
	}
}
