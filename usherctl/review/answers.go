package review

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	applier "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/nearest"
	"usher.dev/usher/usherctl/engine"
	"usher.dev/usher/usherctl/report"
)

// GivenAnswer is the answer of a webhook that is not usher's, as a file gives it.
type GivenAnswer struct {
	Webhook string // the name in its configuration
	Match   struct {
		Namespace, Resource string // the resource is such as pods or pods/status; empty: any
		Operation           admissionv1.Operation
	}
	Allowed  *bool
	Code     int // of a refusal; 0: 403
	Message  string
	Warnings []string
	Patch    json.RawMessage // a JSON patch
}

// ReadAnswers reads a list of answers. The first one that matches a call counts.
func ReadAnswers(file string) (all []GivenAnswer, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &all)
	}
	for i := 0; i < len(all) && err == nil; i++ {
		if err = all[i].check(); err != nil {
			err = fmt.Errorf("answer %d: %w", i+1, err)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return all, err
}

// WithoutPatches returns answers to an object that has their patches.
func WithoutPatches(answers []GivenAnswer) []GivenAnswer {
	others := slices.Clone(answers)
	for i := range others {
		others[i].Patch = nil
	}
	return others
}

func (a *GivenAnswer) check() error {
	switch {
	case a.Webhook == "":
		return errors.New("webhook: the name of the webhook is missing")
	case strings.HasSuffix(a.Webhook, ".usher.dev"):
		return fmt.Errorf("webhook: %s is usher's own, which answers itself", a.Webhook)
	case a.Allowed == nil:
		return errors.New("allowed: true or false is missing")
	case a.Patch == nil:
		return nil
	case !*a.Allowed:
		return errors.New("patch: a refusal has none")
	}
	_, err := applier.DecodePatch(a.Patch)
	return err
}

// unasked returns a line for each answer of a webhook that none of some objects registers.
func unasked(answers []GivenAnswer, among []*unstructured.Unstructured) (lines []string) {
	var names []string
	for _, object := range among {
		hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, hook := range hooks {
			entry, _ := hook.(map[string]any)
			name, _ := entry["name"].(string)
			names = append(names, name)
		}
	}
	for _, a := range answers {
		if !slices.Contains(names, a.Webhook) {
			lines = append(lines, "no webhook configuration has "+a.Webhook+nearest.Question(a.Webhook, names))
		}
	}
	return lines
}

func (a *GivenAnswer) matches(w engine.Registered, r *admissionv1.AdmissionRequest) bool {
	resource := strings.TrimSuffix(r.Resource.Resource+"/"+r.SubResource, "/")
	return a.Webhook == w.Name && cmp.Or(a.Match.Namespace, r.Namespace) == r.Namespace && cmp.Or(a.Match.Resource, resource) == resource &&
		cmp.Or(a.Match.Operation, r.Operation) == r.Operation
}

// foreign answers the call of a webhook that is not usher's from the file. A webhook that is called again finds its patch applied.
func (a *asking) foreign(w engine.Registered, body []byte) (engine.Answer, error) {
	var review admissionv1.AdmissionReview // v1beta1 has the same fields
	if err := json.Unmarshal(body, &review); err != nil {
		return engine.Answer{}, err
	}
	for _, given := range a.choice.chooser.Answers {
		if !given.matches(w, review.Request) {
			continue
		}
		if !w.Mutates || len(a.calls[callKey(w)]) > 0 {
			given.Patch = nil
		}
		call, response := given.call(w, review.Request), given.response(review.Request)
		a.calls[callKey(w)] = append(a.calls[callKey(w)], call)
		review.Request, review.Response = nil, response
		text, err := json.Marshal(review)
		return engine.Answer{Body: text}, err
	}
	return engine.Answer{}, engine.ErrNoAnswer
}

func (a *GivenAnswer) response(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	is := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: *a.Allowed, Warnings: a.Warnings}
	if !is.Allowed {
		code := cmp.Or(a.Code, http.StatusForbidden)
		is.Result = &metav1.Status{Message: a.Message, Code: int32(code), Reason: reasonOf(code)}
	}
	if a.Patch != nil {
		is.Patch, is.PatchType = a.Patch, new(admissionv1.PatchTypeJSONPatch)
	}
	return is
}

// call returns the answer as a report shows it.
func (a *GivenAnswer) call(w engine.Registered, r *admissionv1.AdmissionRequest) report.Call {
	c := report.Call{Configuration: w.Configuration, Webhook: w.Name, Validates: !w.Mutates, Outcome: string(handlers.Allowed), Code: http.StatusOK,
		Warnings: a.Warnings}
	switch {
	case !*a.Allowed:
		c.Outcome, c.Message, c.Code = string(handlers.Denied), a.Message, cmp.Or(a.Code, http.StatusForbidden)
		c.Reason = string(reasonOf(c.Code))
	case a.Patch != nil:
		c.Outcome = string(handlers.Mutated)
		patch, err := applier.DecodePatch(a.Patch)
		if err == nil {
			_, err = patch.Apply(r.Object.Raw)
		}
		if err = cmp.Or(err, json.Unmarshal(a.Patch, &c.Patch)); err != nil {
			c.Outcome, c.Code, c.Message = string(handlers.Failed), http.StatusInternalServerError, "its patch cannot be applied: "+err.Error()
		}
	}
	return c
}

func reasonOf(code int) metav1.StatusReason {
	if code == http.StatusForbidden {
		return metav1.StatusReasonForbidden
	}
	return ""
}
