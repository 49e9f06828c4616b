package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
)

// TestLogOfDenial: the line has step, field and rule of each problem, but no values or messages; texts are shortened,
// and of very many problems only some are logged.
func TestLogOfDenial(t *testing.T) {
	const secret = "s3cret"
	key := strings.Repeat("k", 10_000)
	annotation := field.NewPath("metadata").Child("annotations")
	var many field.ErrorList
	for i := range 100 {
		many = append(many, field.Required(field.NewPath("spec").Child("containers").Index(i), secret))
	}
	for _, test := range []struct {
		name     string
		problems field.ErrorList
		want     string
	}{
		{"one", field.ErrorList{field.Invalid(annotation.Key("a"), secret, "must not be "+secret)}, "step: metadata.annotations[a]: FieldValueInvalid"},
		{"two", field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"), secret), field.NotSupported(annotation, secret, []string{secret})},
			"step: metadata.name: FieldValueForbidden; step: metadata.annotations: FieldValueNotSupported"},
		{"a long key", field.ErrorList{field.Required(annotation.Key(key), secret)}, "step: " + admit.Shorten(annotation.Key(key).String(), 253) + ": FieldValueRequired"},
		{"many", many, "; step: spec.containers[9]: FieldValueRequired; and 90 more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			log := logrus.New()
			log.SetOutput(&out)
			log.SetFormatter(&logrus.JSONFormatter{})
			r := Route{Path: "/validate-test", For: route(nil).For,
				Chain: admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{{Name: "step", Doc: "refuses", Run: func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) {
					return test.problems, nil
				}}})}
			d := r.Decide(t.Context(), []byte(podReview), nil)
			if d.Outcome != Denied {
				t.Fatalf("%s: %v", d.Outcome, d.Err)
			}
			Log(log)(r, d, 0)
			var line struct{ Problems string }
			if err := json.Unmarshal(out.Bytes(), &line); err != nil || !strings.HasSuffix(line.Problems, test.want) {
				t.Errorf("%v: the line has problems %q, want %q", err, line.Problems, test.want)
			}
			if strings.Contains(out.String(), secret) {
				t.Errorf("a value is in the log: %s", out.String())
			}
		})
	}
}

// TestLogOfFailure: an error is shortened, too, because it may quote the request.
func TestLogOfFailure(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	Log(log)(Route{}, Decision{Outcome: Failed, Err: errors.New(strings.Repeat("x", 1<<20))}, 0)
	if out.Len() > 2*maxField {
		t.Errorf("a line of %d bytes", out.Len())
	}
}
