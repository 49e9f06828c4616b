package podvalidation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reserved returns the problems of the requests and limits of a container that resources are reserved for. No container
// runs with them, so a device needs no limit.
func Reserved(r *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	var l list
	l.resources(r, at, true)
	return field.ErrorList(l)
}

// resources adds the problems of a container's requests and limits.
func (l *list) resources(r *corev1.ResourceRequirements, at *field.Path, reserved bool) {
	hugepages, usual := false, false
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		l.amounts(part.list, at.Child(part.name))
		for _, name := range slices.Sorted(maps.Keys(part.list)) {
			hugepages = hugepages || isHugepages(name)
			usual = usual || name == corev1.ResourceCPU || name == corev1.ResourceMemory
			if part.name == "requests" {
				l.request(name, r, at.Child(part.name).Key(string(name)), reserved)
			}
		}
	}
	l.forbidden(hugepages && !usual && !reserved, at, "huge pages need a request or limit of cpu or memory; add one")
}

// Amounts returns the problems of resources and their amounts.
func Amounts(all corev1.ResourceList, at *field.Path) field.ErrorList {
	var l list
	l.amounts(all, at)
	return field.ErrorList(l)
}

func (l *list) amounts(all corev1.ResourceList, at *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.resourceName(name, at.Key(string(name)))
		l.amount(name, rounded(all[name]), at.Key(string(name)))
	}
}

// request adds the problem of a request that does not fit its limit.
func (l *list) request(name corev1.ResourceName, r *corev1.ResourceRequirements, at *field.Path, reserved bool) {
	request, limit := rounded(r.Requests[name]), rounded(r.Limits[name])
	overcommit := reserved || isNative(name) && !isHugepages(name)
	if _, limited := r.Limits[name]; !limited {
		l.missing(!overcommit, at, "without a limit; "+string(name)+" needs the same request and limit")
	} else if compared := request.Cmp(limit); compared > 0 {
		l.add(field.Invalid(at, request.String(), fmt.Sprintf("must be at most the limit, %s; lower it, or raise the limit", &limit)))
	} else if compared < 0 && !overcommit {
		l.add(field.Invalid(at, request.String(), fmt.Sprintf("must be the same as the limit, %s", &limit)))
	}
}

// amount adds the problems of an amount.
func (l *list) amount(name corev1.ResourceName, amount resource.Quantity, at *field.Path) {
	l.invalid(amount.Sign() < 0, at, amount.String(), "must be 0 or more")
	l.invalid(isExtended(name) && amount.MilliValue()%1000 != 0, at, amount.String(), "must be a whole number")
	if size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix); ok {
		page, err := resource.ParseQuantity(size)
		whole := err == nil && page.Sign() > 0 && page.MilliValue()%1000 == 0
		l.invalid(!whole || amount.Value()%page.Value() != 0, at, amount.String(), "must be a multiple of the page size in the name, such as hugepages-2Mi")
	}
}

// rounded returns a quantity as API servers read it, in thousandths.
func rounded(q resource.Quantity) resource.Quantity {
	q = q.DeepCopy()
	q.RoundUp(resource.Milli)
	return q
}

func (l *list) resourceName(name corev1.ResourceName, at *field.Path) {
	before := len(*l)
	l.valid(at, string(name), validation.IsQualifiedName)
	switch {
	case len(*l) > before:
	case !strings.Contains(string(name), "/"):
		ours := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
		l.invalid(!slices.Contains(ours, name) && !isHugepages(name),
			at, name, "must be cpu, memory, ephemeral-storage or hugepages-SIZE, or have a domain, such as example.com/gpu")
	case !isNative(name):
		l.invalid(!isExtended(name), at, name, "must not begin with requests., and be short enough for a quota of requests."+string(name))
	}
}

func isHugepages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isNative reports whether Kubernetes itself knows the resource.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isExtended reports whether a device plugin or the like provides the resource.
func isExtended(name corev1.ResourceName) bool {
	return !isNative(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// claims adds the problems of names of resource claims. The pod has the claims.
func (l *list) claims(claims []corev1.ResourceClaim, at *field.Path) {
	whole, parts := map[string]bool{}, map[corev1.ResourceClaim]bool{}
	for i, c := range claims {
		at := at.Index(i)
		l.valid(at.Child("name"), c.Name, validation.IsDNS1123Label)
		if c.Request != "" {
			l.valid(at.Child("request"), c.Request, validation.IsDNS1123Label)
		}
		overlaps := c.Request == "" && slices.ContainsFunc(claims[:i], func(o corev1.ResourceClaim) bool { return o.Name == c.Name })
		l.duplicate(c.Name != "" && (whole[c.Name] || parts[c] || overlaps), at, c.Name+"/"+c.Request)
		whole[c.Name], parts[c] = whole[c.Name] || c.Request == "", true
	}
}
