// Package workload makes the pod that a controller would create for a workload, as the API server completes it, and asks the routes
// for pods about it.
package workload

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// Pod returns the pod that a controller would create for a workload of the kind, with its edits, or nil if there is no
// template. All pods of a workload are alike but for their names; of a StatefulSet it is the first. What the API server adds
// to new pods is missing.
func Pod(k admit.WorkloadKind, workload *document.Document) *document.Document {
	raw := appendPod(nil, k, workload)
	if raw == nil {
		return nil
	}
	pod, err := document.Parse(raw)
	if err != nil {
		return nil // what has been read can be read again
	}
	finish(k, workload, pod)
	return pod
}

// appendPod appends a pod with what controllers read of a template: its spec, and three members of its metadata. It returns nil
// if there is no template.
func appendPod(b []byte, k admit.WorkloadKind, workload *document.Document) []byte {
	template := workload.Root().At(k.Template...)
	if template.Kind() != document.Object {
		return nil
	}
	owner := admit.MetaOf(workload.Root())
	b = document.AppendText(append(b, `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":`...), owner.Name()+"-")
	if namespace := owner.Root().At("metadata", "namespace").Text(); namespace != "" {
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
func finish(k admit.WorkloadKind, workload, pod *document.Document) {
	owner := admit.MetaOf(workload.Root())
	p := &podMaker{owner: owner, pod: pod.Root(), hash: hashOf(owner)}
	if complete, found := controllers[k.Kind]; found {
		complete(p)
		return
	}
	p.ofOwner()
}

// controllers maps kinds to functions that set in a pod the fields that the kind's controller in Kubernetes sets. Pods of other kinds get
// their owner only.
var controllers = map[string]func(*podMaker){
	"Deployment": (*podMaker).ofDeployment, "StatefulSet": (*podMaker).ofStatefulSet, "DaemonSet": (*podMaker).ofDaemonSet,
	"Job": (*podMaker).ofJob, "CronJob": (*podMaker).ofCronJob, "PodTemplate": func(*podMaker) {},
}

// hashOf returns a hash in the place of the controller's own of the template, on which nothing depends: the same for the same
// workload, however it is written.
func hashOf(workload admit.Meta) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(workload.Root().At("metadata", "namespace").Text() + "/" + workload.Name()))
	return fmt.Sprintf("%08x", sum.Sum32())
}

// podMaker completes a pod as the controller of its kind does.
type podMaker struct {
	owner admit.Meta
	pod   *document.Value
	hash  string // see hashOf
}

func (p *podMaker) meta(names ...string) *document.Value { return p.pod.Get("metadata").At(names...) }

func (p *podMaker) label(key, value string) { p.meta("labels", key).SetText(value) }

// ownedBy sets the ownerReference that a controller sets.
func (p *podMaker) ownedBy(apiVersion, kind, name string) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(kind + "/" + p.owner.Root().At("metadata", "namespace").Text() + "/" + name))
	text := fmt.Sprintf("%016x", sum.Sum64())
	yes := true
	p.meta("ownerReferences").Append(metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name,
		UID: types.UID(fmt.Sprintf("%s-%s-%s-%s-%s", text[:8], text[8:12], text[12:16], text[:4], text[4:16])), Controller: &yes, BlockOwnerDeletion: &yes})
}

// ofOwner is for controllers that create the pods of their objects themselves.
func (p *podMaker) ofOwner() {
	p.ownedBy(p.owner.Root().Get("apiVersion").Text(), p.owner.Root().Get("kind").Text(), p.owner.Name())
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
	if service := p.owner.Root().At("spec", "serviceName").Text(); service != "" {
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
	for claim := range p.owner.Root().At("spec", "volumeClaimTemplates").Elements() {
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

// SameTemplate reports whether two workloads of the kind have the same pod template.
func SameTemplate(k admit.WorkloadKind, a, b *document.Document) bool {
	return bytes.Equal(a.Root().At(k.Template...).Bytes(), b.Root().At(k.Template...).Bytes())
}

// InWorkload returns problems of the pod of a workload as problems of the workload, with the step that has each.
func InWorkload(k admit.WorkloadKind, problems []admit.Problem) (all field.ErrorList) {
	for _, p := range problems {
		in := *p.Error
		in.Field, in.Detail = pathInWorkload(k, p.Field), p.Step+": "+p.Detail
		all = append(all, &in)
	}
	return all
}

// pathInWorkload returns the path of a field of a pod in its workload. What the controller sets is named by what it follows
// from: the name of a pod by that of the workload, all else by the template.
func pathInWorkload(k admit.WorkloadKind, inPod string) string {
	at := strings.Join(k.Template, ".")
	switch {
	case inPod == admit.NamePath.String(), inPod == admit.GenerateNamePath.String():
		return admit.NamePath.String()
	case strings.HasPrefix(inPod, "spec"), strings.HasPrefix(inPod, "metadata.labels"), strings.HasPrefix(inPod, "metadata.annotations"):
		return at + "." + inPod
	}
	return at
}
