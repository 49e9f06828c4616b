package validators

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
)

var deviceClaimsPath = admit.AnnotationPath(api.AnnotationDeviceClaims)

// deviceClaimsKept refuses pods whose annotation on claimed devices is not what the step device-claims writes, and changes of it.
func deviceClaimsKept(devices quota.Devices) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{
		Name:    "device-claims-kept",
		Doc:     "refuses pods whose annotation on claimed devices is not what device-claims wrote, and changes of it",
		Gate:    api.GateQuotaByDeviceClasses,
		Needs:   []string{api.CollectionClaimTemplates},
		Section: sections.QuotasSection,
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) (field.ErrorList, error) {
			is, _ := pod.Annotation(api.AnnotationDeviceClaims)
			if old := storedPod(req); old != nil || req.Operation != admissionv1.Create {
				return changedClaims(req, is, old), nil
			}
			claimed, err := devices.CountPod(ctx, req, pod)
			if err != nil {
				return admit.Classify(err)
			}
			if want := claimed.Text(); is != want {
				return field.ErrorList{field.Forbidden(deviceClaimsPath, fmt.Sprintf("is not what usher counts for the devices of the pod, %q: "+
					"another webhook has changed it, a ResourceClaimTemplate was replaced, or /mutate-pod is not registered; "+
					"create the pod again", want))}, nil
			}
			return pass(req, "the devices that the pod claims count as %q", is)
		},
	}
}

// changedClaims refuses an update that changes what the devices of a pod count as. Without an old pod it refuses nothing.
func changedClaims(req *admit.Request, is string, old *admit.Pod) field.ErrorList {
	if old == nil {
		return nil
	}
	if was, _ := old.Annotation(api.AnnotationDeviceClaims); is != was {
		return field.ErrorList{field.Forbidden(deviceClaimsPath, "says what the devices of the pod count for in its quota, and cannot change "+
			"while the pod exists; leave it as it is")}
	}
	req.Explain("the annotation on the devices of the pod stays as it is")
	return nil
}
