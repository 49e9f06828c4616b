package process

import (
	"testing"

	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// TestDefaultPolicy: the policy that is used without a file is put together from the sections of the steps, in an order to
// read.
func TestDefaultPolicy(t *testing.T) {
	const file = "test/testdata/default-policy.yaml"
	if got := string(routes.Suites().Schema().DefaultYAML()); got != harness.ReadFile(t, file) {
		t.Errorf("the default policy is not %s:\n%s", file, got)
	}
}
