package explain

import (
	"errors"
	"regexp"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
	policies "k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	users "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
)

// Placeholders for the words of a request in errors that are made by the API server's constructors.
const aName, aWord, theRest = "ANAME", "AWORD", "THEREST"

// like returns the pattern of an error with placeholders: names are groups, and nothing is compared from the rest on.
func like(err error) *regexp.Regexp {
	text, _, _ := strings.Cut(regexp.QuoteMeta(err.Error()), theRest)
	return regexp.MustCompile(strings.NewReplacer(aName, `([^"'\s]+)`, aWord, `\S*?`).Replace(strings.TrimRight(text, ": ")))
}

// refuser is who refuses with a text, whose first group is its name.
type refuser struct {
	by   string
	text *regexp.Regexp
}

var (
	denied    = like(webhookerrors.ToStatusErr(aName, &metav1.Status{Message: theRest}))
	notCalled = like(&webhookutil.ErrCallingWebhook{WebhookName: aName, Reason: errors.New(theRest)})
	forbidden = regexp.MustCompile(` is forbidden\b`)
	invalid   = like(apierrors.NewInvalid(schema.GroupKind{Kind: aName}, aName, nil)) // its first group is the kind
	// refusalID matches the id that usher gives a refusal.
	refusalID = regexp.MustCompile(`refusal ([0-9a-f]{8})\b`)
	// policyNote is made in ValidatingAdmissionPolicy's dispatcher, which has no constructor for it.
	policyNote = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'(?: with binding '([^']+)')? denied request`)
	// otherVersion is the error of a webhook that answers with another version of AdmissionReview than it was sent.
	otherVersion = regexp.MustCompile(like(unconvertible(&admissionv1.AdmissionReview{}, &admissionv1beta1.AdmissionReview{})).String() + "|" +
		like(unconvertible(&admissionv1beta1.AdmissionReview{}, &admissionv1.AdmissionReview{})).String())

	// refusers are asked in this order.
	refusers = []refuser{
		{ByCall, notCalled},
		{ByDryRun, like(webhookerrors.NewDryRunUnsupportedErr(aName))},
		{ByPolicy, policyNote},
		{ByMutation, like(mutationError(true))}, {ByMutation, like(mutationError(false))},
		{ByConversion, regexp.MustCompile(`conversion webhook for ([^\s,]+, Kind=[^\s,]+)`)},
		{ByCondition, regexp.MustCompile(`(?s)is forbidden: \[?expression '(.+?)' resulted in error: `)}, // the first of several
		{ByPatch, regexp.MustCompile(`admission webhook "([^"]+)" attempted to modify the object`)},
		// The next two are made by the library that applies patches, those after them by decoders of what it has made.
		{ByPatch, regexp.MustCompile(`\b(?:add|remove|replace|move|copy|test) operation (?:does not apply|value must be)`)},
		{ByPatch, regexp.MustCompile(`\berror in (?:add|remove|replace|move|copy|test) for path|testing value \S+ failed: |Unexpected kind: `)},
		{ByPatch, internal(`[^\n]*cannot unmarshal `)}, {ByPatch, internal(`parsing time `)}, {ByPatch, internal(`quantities must match `)},
		{ByPatch, internal(`no kind "[^"]+" is registered `)},
		{ByQuota, regexp.MustCompile(`(?:exceeded|failed) quota: ([^\s,:]+)`)},
		{ByPodSecurity, regexp.MustCompile(`violates PodSecurity "([^"]+)"`)},
		{ByDisruption, regexp.MustCompile(`Cannot evict pod as it would violate the pod's disruption budget`)}, // has no constructor
		{ByLimitRange, regexp.MustCompile(`(?:maximum|minimum) \S+ usage per (?:Container|Pod|PersistentVolumeClaim)|max limit to request ratio per `)},
		{ByRBAC, like(responsewriters.ForbiddenStatusError(authorizer.AttributesRecord{User: &users.DefaultInfo{Name: aWord}, Verb: theRest,
			Resource: aWord, ResourceRequest: true}, ""))},
	}
)

// internal returns the pattern of an internal error with a reason.
func internal(reason string) *regexp.Regexp {
	return regexp.MustCompile(like(apierrors.NewInternalError(errors.New(theRest))).String() + `: ` + reason)
}

// unconvertible returns the error of a conversion between the versions of AdmissionReview.
func unconvertible(from, to any) error { return runtime.NewScheme().Convert(from, to, nil) }

// mutationError returns the error of a MutatingAdmissionPolicy.
func mutationError(bound bool) error {
	err := policies.PolicyError{Policy: mutating.NewMutatingAdmissionPolicyAccessor(&registration.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: aName}}), Message: errors.New(theRest)}
	if bound {
		err.Binding = mutating.NewMutatingAdmissionPolicyBindingAccessor(&registration.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: aWord}})
	}
	return err
}

// fieldTypes matches the types of validation errors, as their texts begin.
var fieldTypes = func() string {
	var all []string
	for _, t := range []validation.ErrorType{validation.ErrorTypeNotFound, validation.ErrorTypeRequired, validation.ErrorTypeDuplicate,
		validation.ErrorTypeInvalid, validation.ErrorTypeNotSupported, validation.ErrorTypeForbidden, validation.ErrorTypeTooLong,
		validation.ErrorTypeTooMany, validation.ErrorTypeInternal, validation.ErrorTypeTooFew, validation.ErrorTypeTooShort} {
		all = append(all, t.String())
	}
	return "(?:" + strings.Join(all, "|") + ")"
}()
