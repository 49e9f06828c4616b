package colocation

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root directory of the repository, which has the samples.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
