package expression_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/compatibility"

	"usher.dev/usher/config"
	"usher.dev/usher/routes"
)

// TestTheVersionOfTheProcess: policies have the same problems and warnings, whatever version of Kubernetes the process is compatible with, and
// with none.
func TestTheVersionOfTheProcess(t *testing.T) {
	process := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor("kube").(interface {
		MinCompatibilityVersion() *version.Version
		SetMinCompatibilityVersion(*version.Version)
	})
	defer process.SetMinCompatibilityVersion(process.MinCompatibilityVersion())
	want := readings(t)
	for _, other := range []*version.Version{version.MajorMinor(1, 31), version.MajorMinor(1, 37), nil} {
		process.SetMinCompatibilityVersion(other)
		if diff := cmp.Diff(want, readings(t)); diff != "" {
			t.Errorf("%s: %s", other, diff)
		}
	}
}

// readings returns how the policies of the samples are read, and one that uses what 1.31 does not have.
func readings(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../samples/policies/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	texts := map[string]string{"semver": `rules: [{name: a, match: {apiGroups: [""], resources: [pods], operations: [CREATE]},
		validations: [{expression: "semver('1.2.3').isLessThan(semver('2.0.0'))"}]}]`}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(raw)
	}
	read := map[string]string{}
	for name, text := range texts {
		policy, problems := config.Parse([]byte(text), routes.Suites().Schema())
		read[name] = fmt.Sprint(problems)
		if policy != nil {
			read[name] += fmt.Sprint(policy.Warnings())
		}
	}
	return read
}
