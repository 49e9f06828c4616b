package oracle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"k8s.io/client-go/rest"

	"usher.dev/usher/usherctl/engine/whole"
)

// versionVariable is the environment variable with the version of Kubernetes that the tests emulate: one in a process.
const versionVariable = "USHER_ORACLE_VERSION"

// start starts the API server, which ends with the process.
func start() (*rest.Config, error) {
	s, err := whole.Start(context.Background(), whole.Options{AllowAll: true, Version: os.Getenv(versionVariable)})
	if err != nil {
		return nil, err
	}
	return s.Config, nil
}

// TestEmulated: the engine judges as an API server of an older version does, in a process that emulates it.
func TestEmulated(t *testing.T) {
	t.Logf("USHER_ORACLE_SEED=%d", seed)
	versions := whole.Versions()[1:]
	if at := seed % uint64(len(versions)); draws < 100 {
		versions = versions[at : at+1]
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			c := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.v", "-test.run=^Test(RandomRequests|Corners)$")
			c.Env = append(os.Environ(), versionVariable+"="+version, fmt.Sprintf("USHER_ORACLE_SEED=%d", seed), fmt.Sprintf("USHER_ORACLE_DRAWS=%d", draws/2))
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("%v", err)
			}
			t.Logf("%s", out)
		})
	}
}
