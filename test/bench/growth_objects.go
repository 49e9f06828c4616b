package main

import (
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/test/reviews"
)

// Names of Koordinator's labels.
const (
	quotaName   = "quota.scheduling.koordinator.sh/name"
	quotaParent = "quota.scheduling.koordinator.sh/parent"
)

// surroundings returns the objects of every cluster: the namespace of the reviews, and a priority class.
func surroundings() map[string]objects {
	return map[string]objects{
		"namespaces": {1, func(int) (string, string) {
			return `"name":"shop","labels":{"kubernetes.io/metadata.name":"shop","colocation":"true"}`, ""
		}},
		"priorityclasses": {1, func(int) (string, string) { return `"name":"koord-batch"`, `,"value":5500,"preemptionPolicy":"Never"` }},
	}
}

// profiles returns ClusterColocationProfiles. Each requires a team of its own or, if they are broad, another team than the
// review's, which no index can use: only the first selects the review's pod.
func profiles(count int, broad bool) objects {
	return objects{count, func(i int) (string, string) {
		selector := fmt.Sprintf(`"matchLabels":{"app":"web","team":"team-%d"}`, i)
		if broad {
			team := map[bool]string{true: "another", false: "team-0"}[i == 0]
			selector = fmt.Sprintf(`"matchExpressions":[{"key":"team","operator":"NotIn","values":[%q,"other-%d"]}]`, team, i)
		}
		return fmt.Sprintf(`"name":"profile-%d"`, i), fmt.Sprintf(
			`,"spec":{"namespaceSelector":{"matchLabels":{"colocation":"true"}},"selector":{%s},"labels":{"tier":"batch"},`+
				`"annotations":{"from":"profile"},"schedulerName":"koord-scheduler","qosClass":"BE","priorityClassName":"koord-batch"}`, selector)
	}}
}

// quotas returns ElasticQuotas. In a flat cluster each is a tree of its own; otherwise all are one tree of five levels: chains
// of four below one top.
func quotas(count int, flat bool) objects {
	return objects{count, func(i int) (metadata, rest string) {
		parent := "koordinator-root-quota"
		if !flat && i > 0 {
			parent = fmt.Sprintf("quota-%d", map[bool]int{true: 0, false: i - 1}[(i-1)%4 == 0])
		}
		inner := ""
		if !flat && (i == 0 || (i-1)%4 != 3) && i+1 < count {
			inner = `,"quota.scheduling.koordinator.sh/is-parent":"true"`
		}
		metadata = fmt.Sprintf(`"name":"quota-%d","namespace":"quotas","labels":{%q:%q%s},"annotations":{%q:%q}`,
			i, quotaParent, parent, inner, "quota.scheduling.koordinator.sh/shared-weight", `{"cpu":"1000000","memory":"1000Ti"}`)
		return metadata, `,"spec":{"max":{"cpu":"1000000","memory":"1000Ti"}}`
	}}
}

// leaf returns the number of a quota without children, at the end of a chain if it is not flat.
func leaf(count int, flat bool) int {
	if flat {
		return count / 2
	}
	return (count - 1) / 4 * 4
}

// pods returns running pods of about 7 KB as they are stored, with managedFields, in 100 namespaces and 100 quotas.
func pods(count int) objects {
	metadata, rest := storedPod()
	return objects{count, func(i int) (string, string) {
		return fmt.Sprintf(`"name":"web-%d","namespace":"team-%d","uid":"00000000-0000-4000-8000-%012d",`, i, i%100, i) +
				strings.ReplaceAll(metadata, "@QUOTA@", fmt.Sprintf("quota-%d", i%100)),
			strings.ReplaceAll(rest, "@NODE@", fmt.Sprintf("node-%d", i%2000))
	}}
}

// nodes returns nodes with the labels that a cloud provider sets.
func nodes(count int) objects {
	return objects{count, func(i int) (string, string) {
		labels := fmt.Sprintf(`"kubernetes.io/hostname":"node-%d","topology.kubernetes.io/zone":"zone-%c","topology.kubernetes.io/region":"region-1",`+
			`"node.kubernetes.io/instance-type":"m7.4xlarge","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux","example.com/pool":"pool-%d",`+
			`"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","admission-webhook":"enabled"`, i, 'a'+i%3, i%20)
		return fmt.Sprintf(`"name":"node-%d","uid":"00000000-0000-4000-9000-%012d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{%s},`+
			`"annotations":{"node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"}`, i, i, labels), ""
	}}
}

// namespaces returns the namespace of the reviews and others.
func namespaces(count int) objects {
	shop := surroundings()["namespaces"].text
	return objects{count + 1, func(i int) (string, string) {
		if i == 0 {
			return shop(0)
		}
		return fmt.Sprintf(`"name":"team-%d","uid":"00000000-0000-4000-a000-%012d","creationTimestamp":"2026-01-01T00:00:00Z",`+
			`"labels":{"kubernetes.io/metadata.name":"team-%d","admission-webhook":"enabled"}`, i, i, i), ""
	}}
}

// pausePods returns running pods as ClusterLoader2 creates them for a test of scalability, of 3 KB: 3,000 Deployments, in 100
// quotas.
func pausePods(count int) objects {
	const managed = `{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1",` +
		`"fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:group":{},"f:name":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},` +
		`"k:{\"uid\":\"0\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"load\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{` +
		`".":{},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:tolerations":{}}}}`
	const requests = `{"cpu":"5m","memory":"20M"}`
	return objects{count, func(i int) (string, string) {
		d := i % 3000
		return fmt.Sprintf(`"name":"load-%d-7d9c5b8f64-%05d","generateName":"load-%d-7d9c5b8f64-","namespace":"team-%d","uid":"00000000-0000-4000-8000-%012d",`+
				`"generation":1,"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"group":"load","name":"load-%d","pod-template-hash":"7d9c5b8f64",%q:"quota-%d"},`+
				`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"load-%d-7d9c5b8f64","uid":"00000000-0000-4000-b000-%012d","controller":true,`+
				`"blockOwnerDeletion":true}],"managedFields":[%s]`, d, i, d, 1+d%100, i, d, quotaName, d%100, d, d, managed),
			fmt.Sprintf(`,"spec":{"containers":[{"name":"load-%d","image":"registry.k8s.io/pause:3.10","resources":{"requests":%s},"terminationMessagePath":"/dev/termination-log",`+
				`"terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":1,"dnsPolicy":"Default",`+
				`"nodeName":"node-%d","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists",`+
				`"effect":"NoExecute","tolerationSeconds":900}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},`+
				`"status":{"phase":"Running","observedGeneration":1,"conditions":[{"type":"Ready","observedGeneration":1,"status":"True",`+
				`"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}],"hostIP":"10.0.0.1","podIP":"10.1.%d.%d","startTime":"2026-01-01T00:00:00Z",`+
				`"containerStatuses":[{"name":"load-%d","state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"lastState":{},"ready":true,"restartCount":0,`+
				`"image":"registry.k8s.io/pause:3.10","imageID":"sha256:0123456789abcdef","containerID":"containerd://%016x","started":true,`+
				`"allocatedResources":%s,"resources":{"requests":%s}}],"qosClass":"Burstable"}`, d, requests, i%5000, i>>8&255, i&255, d, i, requests, requests)
	}}
}

// storedPod returns the text of a running pod, with placeholders for its quota and node. Its status looks like a kubelet's.
func storedPod() (metadata, rest string) {
	_, pod := podReview("20KB-pod-changed")
	pod.Spec.Containers = pod.Spec.Containers[:1]
	pod.GenerateName, pod.Namespace, pod.Labels[quotaName], pod.Spec.NodeName = "", "", "@QUOTA@", "@NODE@"
	var owned map[string]map[string]map[string]any
	must(json.Unmarshal(pod.ManagedFields[0].FieldsV1.GetRawBytes(), &owned))
	for key := range owned["f:spec"]["f:containers"] {
		if !strings.Contains(key, pod.Spec.Containers[0].Name) {
			delete(owned["f:spec"]["f:containers"], key)
		}
	}
	pod.ManagedFields[0].FieldsV1.SetRawBytes([]byte(marshaled(owned)))
	pod.Status.Phase = corev1.PodRunning
	for _, kind := range []corev1.PodConditionType{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: "True"})
	}
	running, started, requests := &pod.Spec.Containers[0], true, pod.Spec.Containers[0].Resources.Requests
	pod.Status.AllocatedResources, pod.Status.Resources = requests, &corev1.ResourceRequirements{Requests: requests}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: running.Name, Ready: true, Started: &started, Image: running.Image, ImageID: "sha256:0123456789abcdef", ContainerID: "containerd://0123456789abcdef",
		State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		AllocatedResources: requests, Resources: &running.Resources,
	}}
	metadata = marshaled(pod.ObjectMeta)
	return metadata[1 : len(metadata)-1], fmt.Sprintf(`,"spec":%s,"status":%s`, marshaled(pod.Spec), marshaled(pod.Status))
}

// podReview returns one of the reviews of make load, and its pod.
func podReview(name string) (admissionv1.AdmissionReview, corev1.Pod) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	for _, r := range reviews.All() {
		if r.Name == name {
			must(json.Unmarshal(r.Body, &review))
			must(json.Unmarshal(review.Request.Object.Raw, &pod))
		}
	}
	return review, pod
}

// creation returns the review of a new pod of 2 KB with the given name and labels, for a route.
func creation(path, name string, labels map[string]string) reviews.Review {
	review, pod := podReview("2KB-pod")
	pod.Name, pod.Labels = name, labels
	review.Request.Object.Raw = []byte(marshaled(pod))
	return reviews.Review{Path: path, Body: []byte(marshaled(review))}
}

// quotaUpdate returns the review of a change of a quota's max.
func quotaUpdate(all objects, i int) reviews.Review {
	metadata, rest := all.text(i)
	object := fmt.Sprintf(`{"apiVersion":"scheduling.sigs.k8s.io/v1alpha1","kind":"ElasticQuota","metadata":{"uid":"u",%s}%s}`, metadata, rest)
	kind := metav1.GroupVersionKind{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Kind: "ElasticQuota"}
	resource := metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "elasticquotas"}
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "u", Kind: kind, Resource: resource,
		Namespace: "quotas", Name: fmt.Sprintf("quota-%d", i), Operation: admissionv1.Update}}
	review.APIVersion, review.Kind = "admission.k8s.io/v1", "AdmissionReview"
	review.Request.OldObject.Raw = []byte(object)
	review.Request.Object.Raw = []byte(strings.Replace(object, `"max":{"cpu":"1000000"`, `"max":{"cpu":"999999"`, 1))
	return reviews.Review{Path: "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota", Body: []byte(marshaled(review))}
}

// overrides returns a policy with overrides of the step that refuses pods with an offensive name: 10,000 are nearly 1 MiB, the
// limit. Each is for a namespace of its own or, if they are broad, for the namespaces without a label that the review's has,
// which no index can use. Only the last applies to team-0 in namespace shop.
func overrides(count int, broad bool) string {
	var b strings.Builder
	b.WriteString("names: {denied: [offensive]}\noverrides:\n")
	for i := range count {
		where := fmt.Sprintf("namespaces: [n%d]", i)
		switch {
		case i == count-1:
			where = "namespaces: [shop], selector: {matchLabels: {team: team-0}}"
		case broad && i == 0:
			where = "namespaceSelector: &x {matchExpressions: [{key: colocation, operator: DoesNotExist}]}"
		case broad:
			where = "namespaceSelector: *x"
		}
		fmt.Fprintf(&b, "- {name: o%d, steps: [denied-names], %s, mode: warn, reason: r}\n", i, where) // with an end, each would be a metric
	}
	return b.String()
}

func marshaled(v any) string {
	raw, err := json.Marshal(v)
	must(err)
	return string(raw)
}

// must is for the samples, which are part of the source.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("growth: %v", err))
	}
}
