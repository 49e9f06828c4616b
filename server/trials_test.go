package server

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// adding is a section that adds a container to pods.
var adding = config.Section[[]string]{Name: "sidecars", Trial: func(images []string, at *field.Path) *config.Trial {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: images[0]}}}}
	return &config.Trial{Pod: pod, Parts: map[string]*field.Path{"spec.containers[0]": at.Index(0)}}
}}

var (
	bad     = apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", field.ErrorList{field.Required(field.NewPath("spec.containers[0].image"), "")})
	barred  = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("exceeded quota: few"))
	secured = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(`violates PodSecurity "restricted:latest": privileged`))
	webhook = apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(`a webhook says: pods "p" is forbidden: violates PodSecurity "own"`))
	errAway = errors.New("connection refused")
)

// TestTrials: a new policy is refused only if the API server says that what it adds is invalid, and the first one never is. Without a
// judgement it is in force, and tried again, more and more seldom, until there is one.
func TestTrials(t *testing.T) {
	for _, c := range []struct {
		name      string
		reloaded  bool
		answers   []error // the last one for ever
		inForce   bool
		tries     int // in an hour
		validated float64
		logged    []string
		not       string
	}{
		{"valid", true, []error{nil}, true, 1, 1, nil, "sidecars"},
		{"invalid", true, []error{bad}, false, 1, 1, []string{"the policy file is bad", "sidecars[0].image: Required value"}, "not validated"},
		{"forbidden, then valid", true, []error{barred, barred, nil}, true, 3, 1,
			[]string{"level=warning", "sidecars not validated", "exceeded quota", "policy: sidecars validated"}, "is bad"},
		{"barred by Pod Security", true, []error{secured}, true, 1, 1, nil, "sidecars"},
		{"by a webhook that sounds like it", true, []error{webhook}, true, 20, 0, []string{"sidecars not validated"}, "is bad"},
		{"away", true, []error{errAway}, true, 20, 0, []string{"sidecars not validated: connection refused"}, "is bad"},
		{"away, then invalid", true, []error{errAway, bad}, true, 2, 0, []string{"level=error", "refuses pods with the sidecars of the policy in force: sidecars[0].image"}, "is bad"},
		{"valid at the start", false, []error{nil}, true, 1, 1, nil, "sidecars"},
		{"invalid at the start", false, []error{bad}, true, 1, 0, []string{"refuses pods with the sidecars of the policy in force: sidecars[0].image"}, "is bad"},
		{"away at the start", false, []error{errAway, nil}, true, 2, 1, []string{"sidecars not validated", "sidecars validated"}, "is bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				o := Options{Log: logrus.New(), Config: "policy.yaml"}
				o.Log.SetOutput(&log)
				s, tries := newService(o), 0
				s.trials.create = func([]byte) error {
					answer := c.answers[min(tries, len(c.answers)-1)]
					tries++
					return answer
				}
				go s.trials.run(t.Context())
				if c.reloaded {
					s.use(&config.Policy{}, nil)
				}
				policy := configtest.Parse(t, "sidecars: [i]", adding)
				s.use(policy, nil)
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := s.inForce.Load() == policy; got != c.inForce || tries != c.tries {
					t.Errorf("in force: %v after %d tries, want %v, %d", got, tries, c.inForce, c.tries)
				}
				if got := testutil.ToFloat64(s.trials.validated); got != c.validated {
					t.Errorf("validated: %v", got)
				}
				for _, want := range c.logged {
					if !strings.Contains(log.String(), want) {
						t.Errorf("no %q in\n%s", want, log.String())
					}
				}
				if n := strings.Count(log.String(), "not validated"); strings.Contains(log.String(), c.not) || n > 1 {
					t.Errorf("%q, or something twice, in\n%s", c.not, log.String())
				}
			})
		})
	}
}

// TestNoTrial: without an API server, the log says what was not looked at.
func TestNoTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := Options{Log: logrus.New()}
		o.Log.SetOutput(&log)
		s := newService(o)
		go s.trials.run(t.Context())
		s.use(configtest.Parse(t, "sidecars: [i]", adding), nil)
		synctest.Wait()
		if !strings.Contains(log.String(), "sidecars not validated: without --cluster=api") || testutil.ToFloat64(s.trials.validated) != 0 {
			t.Error(log.String())
		}
	})
}
