package admit

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document"
)

// Pod returns the pod that a controller would create for a workload of the kind, with its edits, or nil if there is no
// template. All pods of a workload are alike but for their names; of a StatefulSet it is the first. What the API server adds
// to new pods is missing.
func (k WorkloadKind) Pod(workload *document.Document) *document.Document {
	raw := k.appendPod(nil, workload)
	if raw == nil {
		return nil
	}
	pod, err := document.Parse(raw)
	if err != nil {
		return nil // what has been read can be read again
	}
	k.finish(workload, pod)
	return pod
}

// appendPod appends a pod with what controllers read of a template: its spec, and three members of its metadata. It returns nil
// if there is no template.
func (k WorkloadKind) appendPod(b []byte, workload *document.Document) []byte {
	template := workload.Root().At(k.Template...)
	if template.Kind() != document.Object {
		return nil
	}
	owner := Meta{workload.Root()}
	b = document.AppendText(append(b, `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":`...), owner.Name()+"-")
	if namespace := owner.root.At("metadata", "namespace").Text(); namespace != "" {
		b = document.AppendText(append(b, `,"namespace":`...), namespace)
	}
	for _, name := range [...]string{"labels", "annotations", "finalizers"} {
		if of := template.At("metadata", name); of.Exists() {
			b = append(append(b, `,"`+name+`":`...), of.Bytes()...)
		}
	}
	b = append(b, '}')
	if spec := template.Get("spec"); spec.Exists() {
		b = append(append(b, `,"spec":`...), spec.Bytes()...)
	}
	return append(b, '}')
}

// finish sets in a pod what the controller of its workload does.
func (k WorkloadKind) finish(workload, pod *document.Document) {
	k.complete(&podMaker{Meta{workload.Root()}, pod.Root(), hashOf(Meta{workload.Root()})})
}

// hashOf returns a hash in the place of the controller's own of the template, on which nothing depends: the same for the same
// workload, however it is written.
func hashOf(workload Meta) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(workload.root.At("metadata", "namespace").Text() + "/" + workload.Name()))
	return fmt.Sprintf("%08x", sum.Sum32())
}

// PodOfTemplate returns the pod of a template in a kind of which nothing else is known, as Pod does.
func PodOfTemplate(workload *document.Document, path []string) *document.Document {
	return WorkloadKind{Template: path, complete: (*podMaker).ofOwner}.Pod(workload)
}

// podMaker completes a pod as the controller of its kind does.
type podMaker struct {
	owner Meta
	pod   *document.Value
	hash  string // see hashOf
}

func (p *podMaker) meta(names ...string) *document.Value { return p.pod.Get("metadata").At(names...) }

func (p *podMaker) label(key, value string) { p.meta("labels", key).SetText(value) }

// ownedBy sets the ownerReference that a controller sets.
func (p *podMaker) ownedBy(apiVersion, kind, name string) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(kind + "/" + p.owner.root.At("metadata", "namespace").Text() + "/" + name))
	text := fmt.Sprintf("%016x", sum.Sum64())
	yes := true
	p.meta("ownerReferences").Append(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name,
		UID: types.UID(fmt.Sprintf("%s-%s-%s-%s-%s", text[:8], text[8:12], text[12:16], text[:4], text[4:16])), Controller: &yes, BlockOwnerDeletion: &yes})
}

// ofOwner is for controllers that create the pods of their objects themselves.
func (p *podMaker) ofOwner() {
	p.ownedBy(p.owner.root.Get("apiVersion").Text(), p.owner.root.Get("kind").Text(), p.owner.Name())
}

// ofDeployment goes through a ReplicaSet, which is named after the hash of the template.
func (p *podMaker) ofDeployment() {
	replicaSet := p.owner.Name() + "-" + p.hash
	p.label("pod-template-hash", p.hash)
	p.meta("generateName").SetText(replicaSet + "-")
	p.ownedBy("apps/v1", "ReplicaSet", replicaSet)
}

// ofStatefulSet is the first of the pods, which have names, host names and claims of their own.
func (p *podMaker) ofStatefulSet() {
	name := p.owner.Name() + "-0"
	p.meta("name").SetText(name)
	p.label("statefulset.kubernetes.io/pod-name", name)
	p.label("apps.kubernetes.io/pod-index", "0")
	p.label("controller-revision-hash", p.owner.Name()+"-"+p.hash)
	p.ofOwner()
	p.pod.At("spec", "hostname").SetText(name)
	if service := p.owner.root.At("spec", "serviceName").Text(); service != "" {
		p.pod.At("spec", "subdomain").SetText(service)
	}
	p.addClaims()
}

// addClaims adds a volume for each of a StatefulSet's volumeClaimTemplates, in place of a volume of the same name.
func (p *podMaker) addClaims() {
	volumes := p.pod.At("spec", "volumes")
	if !volumes.CanBe(document.Array) {
		return // it stays as it is, to be refused
	}
	for claim := range p.owner.root.At("spec", "volumeClaimTemplates").Elements() {
		name := claim.At("metadata", "name").Text()
		for volume := range volumes.Elements() {
			if volume.Get("name").Text() == name {
				volume.Remove()
			}
		}
		volumes.Append(corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name + "-" + p.owner.Name() + "-0"}}})
	}
}

func (p *podMaker) ofDaemonSet() {
	p.label("controller-revision-hash", p.hash)
	p.label("pod-template-generation", "1")
	p.ofOwner()
}

func (p *podMaker) ofJob() { p.ofJobNamed(p.owner.Name()) }

// ofCronJob goes through a Job, which is named after the minute of its schedule.
func (p *podMaker) ofCronJob() { p.ofJobNamed(p.owner.Name() + "-29391840") }

func (p *podMaker) ofJobNamed(name string) {
	p.meta("generateName").SetText(name + "-")
	p.label("batch.kubernetes.io/job-name", name)
	p.label("job-name", name)
	p.ownedBy("batch/v1", "Job", name)
}

// OfWorkload returns the kind of the workload that controls the object, whose template its pods have already been judged by;
// "" if none does.
func (m Meta) OfWorkload() string {
	owner, ok := m.Controller()
	if !ok {
		return ""
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return ""
	}
	kind, _ := WorkloadKindOf(version.WithKind(owner.Kind).GroupKind())
	return kind.Kind
}

// WorkloadKind returns the kind of the workload, and false if it is of another kind.
func (w *Workload) WorkloadKind() (WorkloadKind, bool) {
	version, _ := schema.ParseGroupVersion(w.root.Get("apiVersion").Text())
	return WorkloadKindOf(version.WithKind(w.Kind()).GroupKind())
}

// SameTemplate reports whether two workloads of the kind have the same pod template.
func (k WorkloadKind) SameTemplate(a, b *document.Document) bool {
	return bytes.Equal(a.Root().At(k.Template...).Bytes(), b.Root().At(k.Template...).Bytes())
}

// InWorkload returns problems of the pod of a workload as problems of the workload, with the step that has each.
func (k WorkloadKind) InWorkload(problems []Problem) (all field.ErrorList) {
	for _, p := range problems {
		in := *p.Error
		in.Field, in.Detail = k.pathInWorkload(p.Field), p.Step+": "+p.Detail
		all = append(all, &in)
	}
	return all
}

// pathInWorkload returns the path of a field of a pod in its workload. What the controller sets is named by what it follows
// from: the name of a pod by that of the workload, all else by the template.
func (k WorkloadKind) pathInWorkload(inPod string) string {
	at := strings.Join(k.Template, ".")
	switch {
	case inPod == NamePath.String(), inPod == GenerateNamePath.String():
		return NamePath.String()
	case strings.HasPrefix(inPod, "spec"), strings.HasPrefix(inPod, "metadata.labels"), strings.HasPrefix(inPod, "metadata.annotations"):
		return at + "." + inPod
	}
	return at
}
