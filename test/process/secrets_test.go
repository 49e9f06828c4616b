package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/util/validation"

	"usher.dev/usher/admit"
	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/test/seed"
)

// marker begins every planted secret.
const marker = "S3CR3T"

// observed holds what leaves usher in addition to the answers: the log, the audit log and the metrics.
type observed struct {
	log, audit bytes.Buffer
	registry   *prometheus.Registry
	edge       handlers.Server
	outcomes   map[handlers.Outcome]int
	steps      map[string]bool
	// annotations are the keys of the audit annotations of the answers.
	annotations map[string]bool
	beyond      bool // the next review is beyond a limit
}

func observe() *observed {
	o := &observed{registry: prometheus.NewRegistry(), edge: harness.DefaultServer(), outcomes: map[handlers.Outcome]int{}, steps: map[string]bool{}, annotations: map[string]bool{}}
	log := logrus.New()
	log.SetOutput(&o.log)
	log.SetFormatter(&logrus.JSONFormatter{})
	metrics := handlers.NewMetrics(o.registry, o.edge.Limits)
	audit := handlers.Audit("test", &o.audit)
	o.edge.Observe = func(r admit.Route, d handlers.Decision, took time.Duration) {
		o.outcomes[d.Outcome]++
		if d.Response != nil {
			for key, value := range d.Response.AuditAnnotations {
				o.annotations[key] = true
				fmt.Fprintf(&o.log, "audit annotation %s: %s\n", key, value)
			}
		}
		for _, s := range d.Result.Steps {
			o.steps[s.Name] = true
		}
		handlers.Log(log)(r, d, took) // a new one each time, so that no line is left out as a repetition
		metrics.Observe(r, d, took)
		audit(r, d, took)
	}
	return o
}

// metrics returns the metrics as Prometheus reads them.
func (o *observed) metrics(t *testing.T) string {
	t.Helper()
	families, err := o.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(&text, f)
	}
	return text.String()
}

// leak returns a part of what was written since the last call that contains a secret, or "".
func (o *observed) leak() string {
	text := o.log.String() + o.audit.String()
	o.log.Reset()
	o.audit.Reset()
	i := strings.Index(text, marker)
	if i < 0 {
		return ""
	}
	return text[max(0, i-300):min(len(text), i+100)]
}

// TestNothingSecretIsLogged: in ten thousand reviews on all routes, with secrets in environment variables, commands,
// annotations, and the data of ConfigMaps and Secrets, nothing of a secret is in the log, the audit log, the metrics
// or the audit annotations: not for requests that are allowed, denied or invalid, that fail, or that make a step panic.
func TestNothingSecretIsLogged(t *testing.T) {
	random, o := seed.Random(t), observe()
	instances, samples := harness.NewInstances(routes.Suites()), harness.Samples(t)
	served := map[string]map[string]admit.Route{}
	n, perSample := 0, 10_000/len(samples)+1
	for _, name := range samples {
		file := harness.SamplePolicy(name)
		if served[file] == nil {
			served[file] = map[string]admit.Route{}
			for _, r := range instances.Of(t, name).Routes() {
				r.Limit = func(*admit.Request) (none admit.LimitExceeded) {
					if o.beyond {
						return admit.LimitExceeded{Limit: "tenants", Refuse: true, Wait: time.Second}
					}
					return none
				}
				served[file][r.Path] = r
			}
		}
		route, body := served[file]["/"+harness.Route(name)], harness.ReadSample(t, name)
		if route.Path == "" {
			continue
		}
		for range perSample {
			n++
			o.beyond = random.IntN(20) == 0
			review := withSecrets(random, body)
			harness.Post(o.edge.Serve([]admit.Route{troubledAt(random, route)}), name, review)
			if found := o.leak(); found != "" {
				t.Fatalf("%s: a secret is in …%s…\n%.3000s", name, found, review)
			}
		}
	}
	if strings.Contains(o.metrics(t), marker) {
		t.Error("a secret is in the metrics")
	}
	for _, outcome := range []handlers.Outcome{handlers.Allowed, handlers.Mutated, handlers.Denied, handlers.Invalid, handlers.Failed, handlers.Limited} {
		if o.outcomes[outcome] < 100 {
			t.Errorf("only %d reviews are %s", o.outcomes[outcome], outcome)
		}
	}
	if n < 10_000 || len(o.steps) < 35 {
		t.Errorf("%d reviews, %d steps", n, len(o.steps))
	}
	for key := range o.annotations { // the API server puts the webhook's name before it, and drops what is no key
		if problems := validation.IsQualifiedName("mutate-pods.usher.dev/" + key); len(problems) > 0 {
			t.Errorf("the audit annotation %q: %v", key, problems)
		}
	}
	if !o.annotations["denied-by"] || !o.annotations["changed"] || len(o.annotations) < 8 {
		t.Errorf("audit annotations: %v", o.annotations)
	}
	t.Logf("%d reviews, %d steps, %v, %v", n, len(o.steps), o.outcomes, slices.Sorted(maps.Keys(o.annotations)))
}

// troubledAt returns the route, or one in ten times with a chain that panics or fails with the object in its text.
func troubledAt(random *rand.Rand, r admit.Route) admit.Route {
	fails := func(_ context.Context, req *admit.Request, _ *admit.Meta) error {
		panic(string(req.Subject().Root().Bytes()))
	}
	switch random.IntN(20) {
	case 0:
	case 1:
		fails = func(_ context.Context, _ *admit.Request, meta *admit.Meta) error {
			return []error{}[len(meta.Name())]
		}
	default:
		return r
	}
	r.Chain = admit.Mutate(admit.AsMeta, []admit.Mutator[admit.Meta]{{Name: "broken", Doc: "fails", Run: fails}})
	return r
}

// withSecrets returns a review with secrets: in every place that may have one or only some, and sometimes damaged.
func withSecrets(random *rand.Rand, body []byte) []byte {
	var review any
	if json.Unmarshal(body, &review) != nil {
		return body // broken on purpose
	}
	share := random.IntN(3) // none, some or all of what is there is replaced
	replaceSecrets(random, review, share, "")
	if request, ok := review.(map[string]any)["request"].(map[string]any); ok {
		for _, at := range []string{"object", "oldObject"} {
			object, _ := request[at].(map[string]any)
			addSecrets(random, object)
		}
		if random.IntN(5) == 0 {
			request["operation"] = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}[random.IntN(4)]
		}
		request["dryRun"] = random.IntN(4) == 0
	}
	text, _ := json.Marshal(review)
	switch random.IntN(12) {
	case 0: // cut
		text = text[:random.IntN(len(text))]
	case 1: // a byte is something else, also in the middle of a secret
		text[random.IntN(len(text))] = "\x00\"{}[],:\xff\n\\x"[random.IntN(12)]
	}
	return text
}

// secret returns a new one; some are long, and some are JSON.
func secret(random *rand.Rand) string {
	text := fmt.Sprintf("%s-%x", marker, random.Uint64())
	switch random.IntN(6) {
	case 0:
		return strings.Repeat(text, 1+random.IntN(300))
	case 1:
		return fmt.Sprintf(`{"cpu": %q, "%s": ["%s"], "number": "%s"}`, text, marker, text, text)
	case 2:
		return fmt.Sprintf(`[{"name": %q, "key": %q}]`, text, text)
	case 3:
		return "line: " + text + "\n" + text
	}
	return text
}

// privateMembers are the members whose values are secrets, with all that they contain.
var privateMembers = []string{"annotations", "data", "stringData", "binaryData", "command", "args", "value"}

// replaceSecrets replaces texts below private members: none with share 0, half of them with 1, all with 2.
func replaceSecrets(random *rand.Rand, of any, share int, under string) any {
	switch of := of.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(of)) { // in the same order with the same seed
			in := under
			if slices.Contains(privateMembers, key) {
				in = key
			}
			of[key] = replaceSecrets(random, of[key], share, in)
		}
	case []any:
		for i := range of {
			of[i] = replaceSecrets(random, of[i], share, under)
		}
	case string:
		if under != "" && (share == 2 || share == 1 && random.IntN(2) == 0) {
			return secret(random)
		}
	}
	return of
}

// addSecrets adds an annotation, and a variable and a command to every container.
func addSecrets(random *rand.Rand, object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		annotations["example.com/secret"] = secret(random)
	} else if meta != nil {
		meta["annotations"] = map[string]any{"example.com/secret": secret(random)}
	}
	spec, _ := object["spec"].(map[string]any)
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			if c, ok := c.(map[string]any); ok {
				c["command"] = []any{"sh", "-c", secret(random)}
				variables, _ := c["env"].([]any)
				c["env"] = append(variables, map[string]any{"name": "PASSWORD", "value": secret(random)})
			}
		}
	}
}
