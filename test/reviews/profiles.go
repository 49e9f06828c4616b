package reviews

import (
	"fmt"
	"strings"
)

// Profiles returns reviews of the colocation suite: the pod of 20 KB in a cluster with ten ClusterColocationProfiles, of
// which one matches it, or none.
func Profiles() []Review {
	pod := productionPod("production-pod")
	return []Review{
		{Name: "20KB-pod-1-of-10-profiles", Path: "/mutate-pod", Body: pod, Patched: true, Cluster: colocation(10, 0)},
		{Name: "20KB-pod-0-of-10-profiles", Path: "/mutate-pod", Body: pod, Cluster: colocation(10, 1)},
	}
}

// colocation returns a cluster with profiles for pods of the parts that a shop has; the pod is of the first part.
func colocation(profiles, first int) string {
	var b strings.Builder
	b.WriteString(`apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {enable-koordinator-colocation: "true"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: koord-batch}
value: 5500
preemptionPolicy: Never
`)
	for i := first; i < first+profiles; i++ {
		part := "shop"
		if i > 0 {
			part = fmt.Sprintf("shop-%d", i)
		}
		fmt.Fprintf(&b, `---
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: profile-%02d}
spec:
  namespaceSelector: {matchLabels: {enable-koordinator-colocation: "true"}}
  selector: {matchLabels: {app.kubernetes.io/name: storefront, app.kubernetes.io/part-of: %s}}
  labels: {tier: batch}
  annotations: {from: profile}
  schedulerName: koord-scheduler
  qosClass: BE
  priorityClassName: koord-batch
`, i, part)
	}
	return b.String()
}
