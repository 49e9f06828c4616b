package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
)

// ClaimTemplates returns the spec of the claims of a ResourceClaimTemplate; known is false if there is no such template. An error is
// never the user's fault.
type ClaimTemplates func(ctx context.Context, namespace, name string) (spec *resourcev1.ResourceClaimSpec, known bool, err error)

// Devices counts the devices that pods claim.
type Devices struct {
	// Classes are the resources as which quotas count devices, by device class.
	Classes   map[string]corev1.ResourceName
	Templates ClaimTemplates
	expected  bool // the pod does not exist yet, and its templates need not
}

// ClaimedDevices are the devices that a pod claims.
type ClaimedDevices struct {
	Counted corev1.ResourceList
	// Unmapped are device classes whose devices count for no quota, because no mapping names them.
	Unmapped []string
	// Awaited are templates that are not there yet; only of a pod that a workload would lead to.
	Awaited []string
}

// Text returns the value of api.AnnotationDeviceClaims; "" if nothing counts.
func (c ClaimedDevices) Text() string {
	if len(c.Counted) == 0 {
		return ""
	}
	text, _ := json.Marshal(c.Counted) // a map of quantities has a text
	return string(text)
}

// devicesOf reads the annotation api.AnnotationDeviceClaims. A text that usher cannot have written counts as no devices.
func devicesOf(text string) corev1.ResourceList {
	if text == "" {
		return nil
	}
	list, err := api.ParseJSONText[api.ResourceList](text)
	if err != nil || len(list) > api.MaxDeviceNames {
		return nil
	}
	for _, amount := range list {
		if amount.Sign() < 0 {
			return nil
		}
	}
	return corev1.ResourceList(list)
}

// CountPod is Count for the pod under review.
func (d Devices) CountPod(ctx context.Context, req *admit.Request, pod *admit.Pod) (ClaimedDevices, error) {
	if len(d.Classes) == 0 {
		return ClaimedDevices{}, nil
	}
	spec := pod.Asking()
	spec.ResourceClaims, d.expected = pod.ResourceClaims(), req.Expected
	return d.Count(ctx, req.Namespace, &spec)
}

// Count returns the devices that a pod in a namespace asks for, by its claims and by the resources of its containers. A *field.Error
// says what of the pod cannot be counted: it is refused rather than left uncounted. Any other error is ours.
func (d Devices) Count(ctx context.Context, namespace string, spec *corev1.PodSpec) (claimed ClaimedDevices, err error) {
	if len(d.Classes) == 0 {
		return claimed, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.addRequested(&claimed, spec)
	for i, claim := range spec.ResourceClaims {
		if err := d.addClaim(ctx, &claimed, namespace, claim, field.NewPath("spec", "resourceClaims").Index(i)); err != nil {
			return claimed, err
		}
		if len(claimed.Awaited) > 0 {
			cancel() // one wait is enough
		}
	}
	return claimed, nil
}

// addClaim counts what one claim of a pod asks for.
func (d Devices) addClaim(ctx context.Context, claimed *ClaimedDevices, namespace string, claim corev1.PodResourceClaim, at *field.Path) error {
	if claim.ResourceClaimName != nil {
		return field.Forbidden(at.Child("resourceClaimName"), fmt.Sprintf("ResourceClaim %s may be shared by several pods, and its "+
			"devices cannot be counted for one of them; name a ResourceClaimTemplate", short(*claim.ResourceClaimName)))
	}
	if claim.ResourceClaimTemplateName == nil {
		return nil // the API server refuses it
	}
	at, name := at.Child("resourceClaimTemplateName"), *claim.ResourceClaimTemplateName
	template, known, err := d.Templates(ctx, namespace, name)
	switch {
	case err != nil:
		return fmt.Errorf("ResourceClaimTemplate %s/%s: %w", namespace, short(name), err)
	case !known && d.expected:
		claimed.Awaited = append(claimed.Awaited, name)
		return nil
	case !known:
		return field.Invalid(at, short(name), fmt.Sprintf("namespace %s has no such ResourceClaimTemplate yet, so that the devices "+
			"of the pod cannot be counted; create it first, then create the pod again", namespace))
	}
	if why := d.add(claimed, template.Devices.Requests); why != "" {
		return field.Invalid(at, short(name), why)
	}
	return nil
}

// ClaimsDevices reports whether a pod asks for devices that Count may count.
func ClaimsDevices(spec *corev1.PodSpec) bool {
	if len(spec.ResourceClaims) > 0 {
		return true
	}
	for name := range api.PodRequest(spec) {
		if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
			return true
		}
	}
	return false
}

// addRequested counts the devices that containers request as resources by the name of their class. The scheduler makes a claim of
// them (feature gate DRAExtendedResource, on by default since Kubernetes 1.36).
func (d Devices) addRequested(claimed *ClaimedDevices, spec *corev1.PodSpec) {
	requests := api.PodRequest(spec)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		class, of := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
		amount := requests[name]
		switch resourceName, mapped := d.Classes[class]; {
		case !of || amount.IsZero() || resourceName == name: // a resource of the mapping's own name counts among the requests
		case !mapped:
			claimed.unmapped(class)
		default:
			claimed.count(resourceName, amount)
		}
	}
}

// add counts the requests of a claim. It returns why they cannot be counted.
func (d Devices) add(claimed *ClaimedDevices, requests []resourcev1.DeviceRequest) (why string) {
	for _, r := range requests {
		switch {
		case r.Exactly != nil:
			why = d.addExactly(claimed, r.Name, r.Exactly)
		case len(r.FirstAvailable) > 0:
			why = d.addFirst(claimed, r.Name, r.FirstAvailable)
		default:
			why = fmt.Sprintf("its request %s is of a kind that cannot be counted; use the field exactly", short(r.Name))
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// addExactly counts a request for devices of one class. It returns why they cannot be counted.
func (d Devices) addExactly(claimed *ClaimedDevices, name string, r *resourcev1.ExactDeviceRequest) (why string) {
	resourceName, mapped := d.Classes[r.DeviceClassName]
	switch {
	case r.AdminAccess != nil && *r.AdminAccess:
		return "" // it takes no device from others
	case !mapped:
		claimed.unmapped(r.DeviceClassName)
		return ""
	case r.AllocationMode != "" && r.AllocationMode != resourcev1.DeviceAllocationModeExactCount:
		return fmt.Sprintf("its request %s has allocationMode %s, whose devices cannot be counted before they are allocated; "+
			"use ExactCount with a count", short(name), short(string(r.AllocationMode)))
	}
	claimed.count(resourceName, *resource.NewQuantity(max(r.Count, 1), resource.DecimalSI))
	return ""
}

// addFirst counts a request with alternatives. The scheduler chooses one after the pod was admitted, so that none may be of a mapped
// class. It returns why the request cannot be counted.
func (d Devices) addFirst(claimed *ClaimedDevices, name string, alternatives []resourcev1.DeviceSubRequest) (why string) {
	for _, r := range alternatives {
		if _, mapped := d.Classes[r.DeviceClassName]; mapped {
			return fmt.Sprintf("its request %s has firstAvailable with device class %s, whose devices cannot be counted before they are "+
				"allocated; use the field exactly", short(name), short(r.DeviceClassName))
		}
	}
	for _, r := range alternatives {
		claimed.unmapped(r.DeviceClassName)
	}
	return ""
}

func (c *ClaimedDevices) count(name corev1.ResourceName, more resource.Quantity) {
	if c.Counted == nil {
		c.Counted = corev1.ResourceList{}
	}
	sum := c.Counted[name].DeepCopy()
	sum.Add(more)
	c.Counted[name] = sum
}

func (c *ClaimedDevices) unmapped(class string) {
	if !slices.Contains(c.Unmapped, class) {
		c.Unmapped = append(c.Unmapped, class)
	}
}

// short shortens a name for a message.
func short(name string) string { return admit.Shorten(name, 80) }
