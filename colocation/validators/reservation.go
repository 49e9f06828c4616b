package validators

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/admit/quantity"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/internal/check"
)

// reservation refuses reservations that the scheduler could not serve, that no pod or every pod could use, and changes
// of the template after resources were reserved for it. Existing problems may stay: an update is only refused for what
// it changes.
func reservation() admit.Validator[views.Reservation] {
	return admit.Validator[views.Reservation]{
		Name: "reservation",
		Doc:  "refuses reservations without template, containers or owners, with invalid values or amounts, or whose template changes",
		Run: func(_ context.Context, req *admit.Request, r *views.Reservation) (field.ErrorList, error) {
			spec := req.Object.Root().Get("spec")
			if r.Deleting() {
				return pass(req, "the reservation is being deleted") // its finalizers must be removable in any state
			}
			if req.OldObject == nil {
				return explainReservation(req, checkReservation(spec)), nil
			}
			old := req.OldObject.Root().Get("spec")
			if bytes.Equal(spec.Bytes(), old.Bytes()) {
				return pass(req, "the update does not change spec")
			}
			return explainReservation(req, append(newProblems(spec, old), templateChanged(spec, old)...)), nil
		},
	}
}

// explainReservation explains that there are no problems, and returns them.
func explainReservation(req *admit.Request, problems field.ErrorList) field.ErrorList {
	if len(problems) == 0 {
		req.Explain("template, owners, ttl, expires and allocatePolicy can be served, and the template is not changed")
	}
	return problems
}

// newProblems returns the problems of a spec that the stored one does not have.
func newProblems(spec, old *document.Value) field.ErrorList {
	problems := checkReservation(spec)
	if len(problems) == 0 || !old.Exists() {
		return problems
	}
	stored := old.Sub() // so that decoding errors of the stored spec are not the request's errors
	defer stored.Release()
	var known []string
	for _, problem := range checkReservation(stored.Root()) {
		known = append(known, "spec."+problem.Error())
	}
	return slices.DeleteFunc(problems, func(e *field.Error) bool { return slices.Contains(known, e.Error()) })
}

func checkReservation(spec *document.Value) field.ErrorList {
	return slices.Concat(checkTemplate(spec.Get("template")), checkOwners(spec.Get("owners")), checkEnd(spec),
		checkAllocatePolicy(spec.Get("allocatePolicy")))
}

// checkTemplate checks the template that the scheduler turns into a pod. Its CRD has no schema for it.
func checkTemplate(template *document.Value) field.ErrorList {
	if !template.Exists() {
		return field.ErrorList{field.Required(template.Path(), "the pod whose requests are reserved, as in a Deployment")}
	}
	var problems field.ErrorList
	if containers := template.At("spec", "containers"); count(containers) == 0 {
		problems = append(problems, field.Required(containers.Path(), "at least one container: its requests are reserved"))
	}
	if !template.Decodable() {
		return problems // reported by the chain
	}
	bad := badQuantities(template)
	if len(bad) > 0 {
		return append(problems, bad...)
	}
	typed, err := decodeTemplate(template.Bytes())
	if err != nil {
		return append(problems, field.Invalid(template.Path(), field.OmitValueType{}, err.Error()+"; write it as a pod's template"))
	}
	return append(problems, checkAmounts(&typed.Spec, template.Path().Child("spec"))...)
}

// checkAmounts checks what the pod requests, which the API server does for pods only.
func checkAmounts(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	problems := badAmounts(spec.Overhead, at.Child("overhead"))
	if spec.Resources != nil {
		problems = append(problems, badRequirements(spec.Resources, at.Child("resources"))...)
	}
	check := func(containers []corev1.Container, at *field.Path) {
		for i := range containers {
			at := at.Index(i).Child("resources")
			problems = append(problems, badRequirements(&containers[i].Resources, at)...)
			if d := devicesOfTemplate(&containers[i], at); d != nil && len(d.fractions()) == 0 { // those are refused above
				problems = append(problems, d.contradictions()...)
			}
		}
	}
	check(spec.InitContainers, at.Child("initContainers"))
	check(spec.Containers, at.Child("containers"))
	return problems
}

// badRequirements returns the limits and requests that no pod may have. A device needs no limit here, because no container runs with it.
func badRequirements(r *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	at, problems := at.Child("requests"), append(badAmounts(r.Limits, at.Child("limits")), badAmounts(r.Requests, at.Child("requests"))...)
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request, limit := r.Requests[name], r.Limits[name]
		if _, limited := r.Limits[name]; limited && request.Cmp(limit) > 0 {
			problems = append(problems, field.Invalid(at.Key(string(name)), request.String(),
				fmt.Sprintf("must be at most the limit, %s; lower it, or raise the limit", &limit)))
		}
	}
	return problems
}

// badAmounts returns the amounts that no pod may have: negative ones, parts of a device, and those of a wrong name.
func badAmounts(all corev1.ResourceList, at *field.Path) (problems field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		amount, at := all[name], at.Key(string(name))
		problems = append(problems, check.Key(string(name), at)...)
		device := strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
		if amount.Sign() < 0 {
			problems = append(problems, field.Invalid(at, amount.String(), "must be 0 or more"))
		} else if device && amount.MilliValue()%1000 != 0 {
			problems = append(problems, field.Invalid(at, amount.String(), "must be a whole number"))
		}
	}
	return problems
}

func count(list *document.Value) (n int) {
	for range list.Elements() {
		n++
	}
	return n
}

// decodeTemplate decodes a template whose quantities were checked by badQuantities.
func decodeTemplate(raw []byte) (corev1.PodTemplateSpec, error) {
	return api.ParseJSONText[corev1.PodTemplateSpec](string(raw))
}

// badQuantities returns the quantities of a template that api.ParseQuantity refuses. The API server has not parsed
// them, because the template has no schema, and some take resource.Quantity minutes: a client that decodes the stored
// reservation would hang.
func badQuantities(template *document.Value) field.ErrorList {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(template.Bytes()))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return field.ErrorList{field.Invalid(template.Path(), field.OmitValueType{}, err.Error())}
	}
	var bad field.ErrorList
	for at, text := range quantity.InPod(tree, template.Path()) {
		text = strings.TrimSpace(text)
		if _, err := quantity.ParseQuantity(text); err != nil {
			bad = append(bad, field.Invalid(at, admit.Shorten(text, 100), err.Error()))
		}
	}
	return bad
}

// checkOwners checks the owners of the reservation. An owner without any matcher would match every pod.
func checkOwners(owners *document.Value) (problems field.ErrorList) {
	if count(owners) == 0 {
		return field.ErrorList{field.Required(owners.Path(), "at least one owner: nobody could use the reservation")}
	}
	for owner := range owners.Elements() {
		selector := owner.Get("labelSelector")
		if !hasText(owner.Get("object"), "name", "namespace", "uid", "apiVersion") &&
			!hasText(owner.Get("controller"), "name", "namespace", "uid", "apiVersion", "kind") && !selector.Exists() {
			problems = append(problems, field.Required(owner.Path(),
				"object, controller or labelSelector: without one of them every pod is an owner"))
		}
		if s := document.As[*metav1.LabelSelector](selector); s != nil {
			options := metavalidation.LabelSelectorValidationOptions{}
			problems = append(problems, metavalidation.ValidateLabelSelector(s, options, selector.Path())...)
		}
	}
	return problems
}

// hasText reports whether any of the members of an object is a non-empty text.
func hasText(object *document.Value, members ...string) bool {
	return slices.ContainsFunc(members, func(name string) bool { return object.Get(name).Text() != "" })
}

// checkEnd checks when the reservation ends. Both fields may be missing: the CRD defaults the ttl to 24h.
func checkEnd(spec *document.Value) (problems field.ErrorList) {
	if ttl := spec.Get("ttl"); ttl.Exists() {
		lives, err := time.ParseDuration(ttl.Text())
		if err != nil {
			problems = append(problems, field.Invalid(ttl.Path(), ttl.Text(),
				"is no duration such as 24h or 1h30m; write days as hours, and 0 for ever"))
		} else if lives < 0 {
			problems = append(problems, field.Invalid(ttl.Path(), ttl.Text(), "must not be negative; write 0 for ever"))
		}
	}
	if expires := spec.Get("expires"); expires.Exists() {
		if _, err := time.Parse(time.RFC3339, expires.Text()); err != nil {
			problems = append(problems, field.Invalid(expires.Path(), expires.Text(), "is no time such as 2026-11-21T08:00:00Z"))
		}
	}
	return problems
}

func checkAllocatePolicy(policy *document.Value) field.ErrorList {
	known := []api.AllocatePolicy{api.AllocateAligned, api.AllocateRestricted}
	if text := api.AllocatePolicy(policy.Text()); text != "" && !slices.Contains(known, text) {
		return field.ErrorList{field.NotSupported(policy.Path(), text, known)}
	}
	return nil
}

// templateChanged refuses another template: the resources were sized and placed for the stored one.
func templateChanged(spec, old *document.Value) field.ErrorList {
	now, was := spec.Get("template"), old.Get("template")
	if !now.Exists() || !was.Exists() || sameTemplate(now, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(now.Path(), field.OmitValueType{},
		"cannot change: the resources are reserved for the stored template; create a new reservation and delete this one")}
}

// sameTemplate compares by meaning: a typed client that only adds a label sends the template in its own encoding, with
// 1000m as 1, and without the fields that its types do not have. What does not decode is compared as text.
func sameTemplate(a, b *document.Value) bool {
	if bytes.Equal(a.Bytes(), b.Bytes()) {
		return true
	}
	if !a.Decodable() || !b.Decodable() {
		return false
	}
	if len(badQuantities(a)) == 0 && len(badQuantities(b)) == 0 {
		left, errA := decodeTemplate(a.Bytes())
		right, errB := decodeTemplate(b.Bytes())
		if errA == nil && errB == nil {
			return equality.Semantic.DeepEqual(left, right)
		}
	}
	var left, right any
	return json.Unmarshal(a.Bytes(), &left) == nil && json.Unmarshal(b.Bytes(), &right) == nil && reflect.DeepEqual(left, right)
}
