package learn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	applier "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	webhookrequest "k8s.io/apiserver/pkg/admission/plugin/webhook/request"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/internal/answer"
)

// Patch is a JSON patch of an object, and the object that must come out, or a field of it. Without an object it need only be a patch.
type Patch struct {
	Object string `json:"object,omitempty"`
	Patch  string `json:"patch"`
	After  string `json:"after,omitempty"` // a file of the lesson
	Field  string `json:"field,omitempty"` // with dots
	Is     string `json:"is,omitempty"`    // the field's JSON, or its text
}

// Answer is an AdmissionReview with a response to a review, and what the API server must do with it.
type Answer struct {
	Review string `json:"review"`
	Answer string `json:"answer,omitempty"` // empty: that of the learner's webhook
	Then   string `json:"then"`             // allowed, mutated or denied; or unanswered, by the webhook of the start state
	After  string `json:"after,omitempty"`
}

// patched returns why the learner's patch does not give the object that it should, or "".
func (l Lesson) patched(p Patch, folder string) (string, error) {
	object, err := []byte(nil), error(nil)
	if p.Object != "" {
		object, err = objectIn(folder, p.Object)
	}
	if err != nil {
		return err.Error(), nil
	}
	patch, err := objectIn(folder, p.Patch)
	if err != nil {
		return err.Error(), nil
	}
	operations, err := applier.DecodePatch(patch)
	if err != nil || p.Object == "" {
		return notAList(err), nil
	}
	if p.Field == "" {
		return l.gives(object, operations, p.After)
	}
	got, err := operations.Apply(object)
	if value := fieldOf(got, p.Field); err == nil && value != p.Is {
		return fmt.Sprintf("in the object, %s is %s", p.Field, value), nil
	}
	return notApplied(err), nil
}

func notAList(err error) string {
	if err == nil {
		return ""
	}
	return "the patch is not a JSON list of operations: " + err.Error()
}

func notApplied(err error) string {
	if err == nil {
		return ""
	}
	return "the API server cannot apply the patch: " + err.Error()
}

// gives returns why a patch of an object does not give the object of a file of the lesson, or "". An empty name stands for
// any object.
func (l Lesson) gives(object []byte, operations applier.Patch, after string) (string, error) {
	got, err := operations.Apply(object)
	if err != nil || after == "" {
		return notApplied(err), nil
	}
	text, err := fs.ReadFile(l.files, "check/"+after)
	if err != nil {
		return "", err
	}
	want, err := yaml.YAMLToJSON(text)
	if err != nil {
		return "", err
	}
	var is, should any
	if err := errors.Join(json.Unmarshal(got, &is), json.Unmarshal(want, &should)); err != nil || reflect.DeepEqual(is, should) {
		return "", err
	}
	shown, _ := yaml.JSONToYAML(got)
	return fmt.Sprintf("in the object, %s\n%s", cmp.Or(difference(should, is, "").String(), "a field is null"), shown), nil
}

// answered returns why the API server would not do with an answer what it should, or "".
func (l Lesson) answered(ctx context.Context, a Answer, folder string, webhook *program) (string, error) {
	sent, err := l.objectOf(folder, a.Review)
	if err != nil {
		return err.Error(), nil
	}
	var raw []byte
	switch {
	case a.Then == "unanswered":
		return l.unanswered(ctx, a.Review, sent, webhook)
	case a.Answer != "":
		if raw, err = objectIn(folder, a.Answer); err != nil {
			return err.Error(), nil
		}
	default:
		a.Answer = "the answer of the webhook"
		var wrong string
		if raw, wrong, err = webhook.ask(ctx, sent); wrong != "" || err != nil {
			return wrong, err
		}
	}
	var review, given admissionv1.AdmissionReview
	if err := utiljson.Unmarshal(sent, &review); err != nil || review.Request == nil {
		return a.Review + " is not an AdmissionReview with a request", nil
	}
	if err := utiljson.Unmarshal(raw, &given); err != nil {
		return fmt.Sprintf("%s cannot be read as an AdmissionReview: %v", a.Answer, err), nil
	}
	if err := verify(&given, review.Request.UID, a.Then == "mutated"); err != nil {
		return "the API server does not accept the answer: " + err.Error(), nil
	}
	if then := answer.Outcome(given.Response); then != a.Then {
		return fmt.Sprintf("by this answer the request is %s, and not %s", then, a.Then), nil
	}
	if a.Then != "mutated" {
		return "", nil
	}
	operations, err := applier.DecodePatch(given.Response.Patch)
	if err != nil {
		return notAList(err), nil
	}
	return l.gives(review.Request.Object.Raw, operations, a.After)
}

// verify returns why the API server does not accept an answer.
func verify(given *admissionv1.AdmissionReview, uid types.UID, mutating bool) error {
	r, err := webhookrequest.VerifyAdmissionResponse(uid, mutating, given)
	if err == nil && len(r.Patch) > 0 && r.PatchType != admissionv1.PatchTypeJSONPatch {
		err = fmt.Errorf("unsupported patch type %q: it knows only JSONPatch", r.PatchType)
	}
	return err
}

// objectOf returns a YAML or JSON file of a folder, or of check/, as JSON.
func (l Lesson) objectOf(folder, name string) ([]byte, error) {
	if strings.HasPrefix(name, "check/") {
		text, err := fs.ReadFile(l.files, name)
		if err != nil {
			return nil, err
		}
		return yaml.YAMLToJSON(text)
	}
	return objectIn(folder, name)
}

// objectIn returns a YAML or JSON file of a folder as JSON.
func objectIn(folder, name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return nil, fmt.Errorf("%s is missing", name)
	}
	if filepath.Ext(name) == ".json" && !json.Valid(text) {
		return nil, fmt.Errorf("%s is not JSON", name)
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	return raw, nil
}
