package oracle

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

var drawn = flag.Int("sidecars", 2000, "how many sidecars TestStorable draws")

// beyond are the fields that the API server refuses and a policy may have: the policy's checks do not repeat its rules for
// the names of signers and trust bundles, and do not see that a volume of the pod is a device here and a source of
// variables there.
var beyond = regexp.MustCompile(`signerName|clusterTrustBundle|volumeDevices\[\d+\]\.name|fileKeyRef\.volumeName`)

// TestStorable draws sidecars, and judges each by the policy's checks and by the API server's validation of pods that
// have it. What the API server stores is never refused by a policy; what it refuses is refused when the policy is loaded,
// but for what is beyond it.
func TestStorable(t *testing.T) {
	capabilities.Setup(true, 0)
	random := &sidecars{kubetest.Random(t)}
	const batch = 20 // at most 100 problems of a policy are reported
	refused, let := 0, map[string]int{}
	for range *drawn / batch {
		all := random.entries(batch)
		problems := load(t, all)
		for i, e := range all {
			wrong := judge(t, e)
			switch {
			case len(problems[i]) > 0 && wrong == nil:
				t.Errorf("the API server stores it, and the policy does not:\n%s\n%s", problems[i], e.json(t))
			case len(problems[i]) > 0:
				refused++
			case wrong != nil && beyond.MatchString(wrong[0].Field):
				let[pattern(wrong[0].Field)]++
			case wrong != nil:
				t.Errorf("the policy has it, and the API server refuses it:\n%v\n%s", wrong.ToAggregate(), e.json(t))
			}
		}
	}
	t.Logf("%d drawn, %d refused, beyond: %v", *drawn, refused, let)
	if refused < *drawn/10 || refused > *drawn*9/10 {
		t.Error("too few are refused, or nearly all: the drawing tests nothing")
	}
}

// entries draws n injections that a policy may have.
func (r *sidecars) entries(n int) []entry {
	all := make([]entry, n)
	for i := range all {
		all[i] = r.entry(i)
		for _, err := yaml.Marshal(all[i]); err != nil; _, err = yaml.Marshal(all[i]) { // a key of over 1,024 characters
			all[i] = r.entry(i)
		}
	}
	return all
}

// TestTheSeedRepeatsTheDrawing: TestStorable draws the same sidecars again with the same seed, and others with another one.
func TestTheSeedRepeatsTheDrawing(t *testing.T) {
	value := kubetest.Seed(t)
	var drawings []string
	for _, value := range []uint64{value, value, value + 1} {
		random, all := &sidecars{rand.New(rand.NewPCG(value, value))}, strings.Builder{}
		for _, e := range random.entries(*drawn) {
			all.WriteString(e.json(t))
		}
		drawings = append(drawings, all.String())
	}
	if drawings[0] != drawings[1] || drawings[0] == drawings[2] {
		t.Error("want the first two drawings to be equal, and the third to differ")
	}
}

// entry is an injection of a policy.
type entry struct {
	Name           string             `json:"name"`
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
	Containers     []corev1.Container `json:"containers,omitempty"`
	Volumes        []corev1.Volume    `json:"volumes,omitempty"`
}

func (e entry) json(t *testing.T) string {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	numbers  = regexp.MustCompile(`\[\d+\]`)
	ofAnyOne = regexp.MustCompile(`^\s+sidecars\[(\d+)\]\.`)
)

func pattern(path string) string { return numbers.ReplaceAllString(path, "[]") }

// load returns the problems of a policy by entry.
func load(t *testing.T, all []entry) map[int][]string {
	t.Helper()
	raw, err := yaml.Marshal(map[string]any{"sidecars": all})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sandbox.Usherctl(t.Context(), "steps", "--effective", "--config", file)
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "more problems") {
		t.Fatalf("not all problems are reported; draw smaller batches\n%v", err)
	}
	problems := map[int][]string{}
	for line := range strings.Lines(err.Error()) {
		if found := ofAnyOne.FindStringSubmatch(line); found != nil {
			i, _ := strconv.Atoi(found[1])
			problems[i] = append(problems[i], strings.TrimSpace(line))
		}
	}
	if len(problems) == 0 {
		t.Fatal(err)
	}
	return problems
}

// judge returns the problems that the API server has with every pod that gets the entry; nil if it stores one.
func judge(t *testing.T, e entry) field.ErrorList {
	t.Helper()
	var first field.ErrorList
	for _, spec := range podsFor(e) {
		pod := &corev1.Pod{Spec: spec}
		raw := []byte(e.json(t))
		var injected entry
		if err := json.Unmarshal(raw, &injected); err != nil {
			t.Fatal(err)
		}
		pod.Name, pod.Namespace = "web", "apps"
		pod.Spec.InitContainers = injected.InitContainers
		pod.Spec.Containers = append(pod.Spec.Containers, injected.Containers...)
		pod.Spec.Volumes = append(pod.Spec.Volumes, injected.Volumes...)
		if problems := create(t, pod); len(problems) == 0 {
			return nil
		} else if first == nil {
			first = problems
		}
	}
	return first
}

// create returns the problems with which the API server refuses a pod.
func create(t *testing.T, pod *corev1.Pod) field.ErrorList {
	t.Helper()
	corev1defaults.SetObjectDefaults_Pod(pod)
	var internal core.Pod
	if err := corev1defaults.Convert_v1_Pod_To_core_Pod(pod, &internal, nil); err != nil {
		t.Fatal(err)
	}
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	options.ResourceIsPod = true
	return validation.ValidatePodCreate(&internal, options)
}

// podsFor returns pods that may get the entry: of each operating system, with the volumes and claims that it expects.
func podsFor(e entry) (pods []corev1.PodSpec) {
	grace, no := int64(1<<40), false
	plain := corev1.PodSpec{Containers: []corev1.Container{{Name: "main-of-the-pod", Image: "i"}}, ServiceAccountName: "default", TerminationGracePeriodSeconds: &grace}
	for _, c := range slices.Concat(e.InitContainers, e.Containers) {
		for _, m := range c.VolumeMounts {
			expect(&plain, e, m.Name, corev1.VolumeSource{})
		}
		for _, v := range c.Env {
			if v.ValueFrom != nil && v.ValueFrom.FileKeyRef != nil {
				expect(&plain, e, v.ValueFrom.FileKeyRef.VolumeName, corev1.VolumeSource{})
			}
		}
		for _, d := range c.VolumeDevices {
			expect(&plain, e, d.Name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})
		}
		for _, claim := range c.Resources.Claims {
			if !slices.ContainsFunc(plain.ResourceClaims, func(p corev1.PodResourceClaim) bool { return p.Name == claim.Name }) {
				name := "claim"
				plain.ResourceClaims = append(plain.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &name})
			}
		}
	}
	linux, windows, host, users := *plain.DeepCopy(), *plain.DeepCopy(), *plain.DeepCopy(), *plain.DeepCopy()
	linux.OS, windows.OS, host.OS = &corev1.PodOS{Name: corev1.Linux}, &corev1.PodOS{Name: corev1.Windows}, &corev1.PodOS{Name: corev1.Windows}
	host.HostNetwork, host.Containers[0].SecurityContext = true, &corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(bool)}}
	*host.Containers[0].SecurityContext.WindowsOptions.HostProcess = true
	anyOS := *host.DeepCopy()
	anyOS.OS = nil // then the fields of both may be set
	users.HostUsers, users.OS = &no, linux.OS
	return []corev1.PodSpec{plain, linux, windows, host, anyOS, users}
}

// expect adds a volume to a pod that neither it nor the entry has.
func expect(spec *corev1.PodSpec, e entry, name string, source corev1.VolumeSource) {
	has := func(v corev1.Volume) bool { return v.Name == name }
	if !slices.ContainsFunc(spec.Volumes, has) && !slices.ContainsFunc(e.Volumes, has) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
}
