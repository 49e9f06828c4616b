package mutators

import (
	"context"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
	"usher.dev/usher/colocation/sections"
)

// deviceClaims writes into an annotation what the devices that a new pod claims count as. The annotation decides as long as the pod
// exists: its templates may be deleted, and created again with other devices.
func deviceClaims(devices quota.Devices) admit.Mutator[admit.Pod] {
	return admit.Mutator[admit.Pod]{
		Name:    "device-claims",
		Doc:     "writes into an annotation how many devices a pod claims by DRA, for its quota; whatever the user wrote there is overwritten",
		Gate:    api.GateQuotaByDeviceClasses,
		Needs:   []string{api.CollectionClaimTemplates},
		Section: sections.QuotasSection,
		Run: func(ctx context.Context, req *admit.Request, pod *admit.Pod) error {
			claimed, err := devices.CountPod(ctx, req, pod)
			if err != nil {
				return err
			}
			for _, class := range claimed.Unmapped {
				req.Warnf("devices of class %.80s count for no quota: quotas.deviceClassMappings of usher's policy does not name it", class)
			}
			for _, template := range claimed.Awaited {
				req.Warnf("namespace %s has no ResourceClaimTemplate %.80s yet: pods are refused until it has", req.Namespace, template)
			}
			if text := claimed.Text(); text != "" {
				pod.SetAnnotation(api.AnnotationDeviceClaims, text)
				return nil
			}
			req.Explain("the pod claims no devices that count for quotas")
			if _, has := pod.Annotation(api.AnnotationDeviceClaims); has {
				pod.RemoveAnnotation(api.AnnotationDeviceClaims)
			}
			return nil
		},
	}
}
