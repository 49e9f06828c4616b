package process

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"usher.dev/usher/handlers"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// What holds for the answer to every sample.

// TestDryRunsAreAnsweredAlike: a dry run gets the answer of the real request.
func TestDryRunsAreAnsweredAlike(t *testing.T) {
	real, dry := harness.NewInstances(routes.Suites()), harness.NewInstances(routes.Suites()) // two of each: the quota ledger remembers real requests
	answered := 0
	for _, name := range harness.Samples(t) {
		body := harness.ReadSample(t, name)
		w := harness.Post(harness.DefaultServer().Serve(real.Of(t, name).Routes()), name, body)
		again := harness.Post(harness.DefaultServer().Serve(dry.Of(t, name).Routes()), name, dryRun(body))
		if w.Code != again.Code || w.Body.String() != again.Body.String() {
			t.Errorf("%s: %d %s\nas a dry run %d %s", name, w.Code, w.Body, again.Code, again.Body)
		}
		if again.Code == 200 {
			answered++
		}
	}
	if answered < 300 {
		t.Errorf("only %d samples are answered", answered)
	}
}

// dryRun returns a review as a dry run. A sample that is not JSON stays as it is.
func dryRun(body []byte) []byte {
	var review map[string]any
	if json.Unmarshal(body, &review) != nil {
		return body
	}
	request, ok := review["request"].(map[string]any)
	if !ok {
		return body
	}
	if _, isBool := request["dryRun"].(bool); !isBool && request["dryRun"] != nil {
		return body // broken on purpose
	}
	request["dryRun"] = true
	dry, err := json.Marshal(review)
	if err != nil {
		return body
	}
	return dry
}

// TestPatchesLeaveIdentityAlone: no patch touches what the API server determines: the name, generateName, namespace and
// times of an object, nor the status, except for a node's.
func TestPatchesLeaveIdentityAlone(t *testing.T) {
	patched := 0
	instances := harness.NewInstances(routes.Suites())
	for _, name := range harness.Samples(t) {
		body := harness.ReadSample(t, name)
		for _, r := range instances.Of(t, name).Routes() {
			d := handlers.Decide(t.Context(), r, body, nil)
			if d.Outcome != handlers.Mutated {
				continue
			}
			patched++
			var operations []struct{ Op, Path, From string }
			if err := json.Unmarshal(d.Response.Patch, &operations); err != nil {
				t.Fatal(err)
			}
			for _, o := range operations {
				switch {
				case o.From != "", !slices.Contains([]string{"add", "replace", "remove"}, o.Op),
					strings.HasPrefix(o.Path, "/status") && !r.Heartbeat(), slices.Contains(identity, o.Path),
					strings.Count(o.Path, "/") == 1 && (o.Op != "add" || hasMember(t, body, o.Path[1:])):
					t.Errorf("%s: %s: %s %s", name, r.Path, o.Op, o.Path)
				}
			}
		}
	}
	if patched < 100 {
		t.Errorf("only %d samples are patched", patched)
	}
}

// hasMember reports whether the object of a review has a member, such as spec, which a patch would then replace whole.
func hasMember(t *testing.T, body []byte, name string) bool {
	t.Helper()
	var review struct {
		Request struct{ Object map[string]any }
	}
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	return review.Request.Object[name] != nil
}

// identity are paths that no patch may have.
var identity = []string{"/metadata/name", "/metadata/generateName", "/metadata/namespace", "/metadata/uid", "/metadata/creationTimestamp",
	"/metadata/deletionTimestamp", "/metadata/resourceVersion", "/metadata/ownerReferences", "/metadata/managedFields"}
