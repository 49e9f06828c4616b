package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/server/suite"
)

// TestQuota: the samples, as text and JSON, with the exit codes.
func TestQuota(t *testing.T) {
	const pod = "../samples/manifests/quota-pod.yaml"
	text, err := os.ReadFile(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, in, says string
		code           int
	}{
		{"", "", "team-a  cpu       5     0         8      2     departments (spec.max)\n", 0},
		{"-f " + pod, "", "1     Pod api  team-a  cpu       1      yes   departments (spec.max)\n", 0},
		{"-f -", strings.ReplaceAll(string(text), `cpu: "1"`, `cpu: "3"`), "1     Pod api  team-a  cpu       3      no    departments (spec.max)\n", 1},
		{"-f " + pod + " -o json", "", `"fits": "yes"`, 0},
		{"-f -", "{apiVersion: v1, kind: Service, metadata: {name: s}}", "the manifests have no pods\n", 0},
		{"-f missing.yaml", "", "", 2},
		{"-o yaml", "", "", 2},
		{"-n quotas", "", "forced        cpu                         not known", 2},
	} {
		var out, errs bytes.Buffer
		suites := suite.List{colocation.New()}
		program := Program{Suites: suites, In: strings.NewReader(c.in), Out: &out, Err: &errs}
		args := []string{"quota", "--cluster-dir", "../samples/cluster", "-n", "team-a"}
		if code := program.Run(t.Context(), append(args, strings.Fields(c.args)...)); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}
