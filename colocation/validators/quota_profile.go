package validators

import (
	"bytes"
	"context"
	"strconv"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/profile"
	"usher.dev/usher/colocation/views"
	"usher.dev/usher/internal/selector"
)

// quotaProfile refuses an ElasticQuotaProfile from which Koordinator's controller could not make a root quota: the API server would
// refuse that, again and again, and only the controller's log would say so. It refuses a ratio that the controller ignores. A stored
// profile, and a stored ratio, may stay.
func quotaProfile() admit.Validator[views.QuotaProfile] {
	return admit.Validator[views.QuotaProfile]{
		Name: "quota-profile",
		Doc:  "refuses elastic quota profiles with an invalid name, label or node selector, or a ratio that has no effect",
		Run: func(_ context.Context, req *admit.Request, view *views.QuotaProfile) (field.ErrorList, error) {
			switch {
			case view.Deleting():
				return pass(req, "the profile is being deleted")
			case !view.SpecChanged(req.OldObject):
				return pass(req, "the update does not change spec")
			}
			object := view.Object()
			if req.Object.Err() != nil {
				return nil, nil // reported by the chain
			}
			problems := checkQuotaProfile(&object.Spec, field.NewPath("spec"))
			if ratio := object.Spec.ResourceRatio; ratio != nil && ratioChanged(req) {
				problems = append(problems, checkPart(*ratio, field.NewPath("spec", "resourceRatio"))...)
			}
			if len(problems) == 0 {
				req.Explain("a root quota can be made from the profile, and a new ratio has an effect")
			}
			return problems, nil
		},
	}
}

func checkQuotaProfile(s *api.ElasticQuotaProfileSpec, at *field.Path) (problems field.ErrorList) {
	for _, rule := range validation.IsDNS1123Subdomain(s.QuotaName) {
		problems = append(problems, field.Invalid(at.Child("quotaName"), s.QuotaName, rule))
	}
	for _, label := range profile.Sorted(s.QuotaLabels) {
		at := at.Child("quotaLabels").Key(label.Key)
		problems = append(problems, metavalidation.ValidateLabelName(label.Key, at)...)
		for _, rule := range validation.IsValidLabelValue(label.Value) {
			problems = append(problems, field.Invalid(at, label.Value, rule))
		}
	}
	return append(problems, selector.CheckPossible(s.NodeSelector, at.Child("nodeSelector"))...)
}

func ratioChanged(req *admit.Request) bool {
	at := []string{"spec", "resourceRatio"}
	return req.OldObject == nil || !bytes.Equal(req.Object.Root().At(at...).Bytes(), req.OldObject.Root().At(at...).Bytes())
}

// checkPart refuses a ratio that the controller ignores, except the empty one.
func checkPart(text string, at *field.Path) field.ErrorList {
	if ratio, err := strconv.ParseFloat(text, 64); text == "" || err == nil && ratio > 0 && ratio <= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, text,
		`must be a number above 0 and at most 1, such as "0.9"; Koordinator ignores any other, and takes all resources of the nodes`)}
}
