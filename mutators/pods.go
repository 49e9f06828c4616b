package mutators

import (
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/admit"
)

// newPod reports whether a request creates a pod.
func newPod(req *admit.Request) bool {
	return req.Operation == admissionv1.Create && req.SubResource == ""
}
