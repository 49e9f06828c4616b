package validators

import (
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
// refuse that, again and again, and only the controller's log would say so. A stored profile may stay as it is.
func quotaProfile() admit.Validator[views.QuotaProfile] {
	return admit.Validator[views.QuotaProfile]{
		Name: "quota-profile",
		Doc:  "refuses elastic quota profiles whose labels, name or node selector no root quota can be made from",
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
			if len(problems) == 0 {
				req.Explain("a root quota can be made from the profile")
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
	if s.ResourceRatio != nil {
		if ratio, err := strconv.ParseFloat(*s.ResourceRatio, 64); err != nil || !(ratio > 0) {
			problems = append(problems, field.Invalid(at.Child("resourceRatio"), *s.ResourceRatio, `must be a number above 0, such as "0.9"`))
		}
	}
	return append(problems, selector.CheckPossible(s.NodeSelector, at.Child("nodeSelector"))...)
}
