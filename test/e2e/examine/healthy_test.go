package examine

import (
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// TestHealthy: in a healthy cluster nothing is found, and one line says how much was examined.
func TestHealthy(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	if found, code := doctor(ctx, t, cluster.AdminKubeconfig()); len(found) > 0 || code != 0 {
		t.Errorf("exit code %d, %d findings: %+v", code, len(found), found)
	}
	began := time.Now()
	out, err := cluster.RunProgram(ctx, usherctl, "doctor", "--kubeconfig="+cluster.AdminKubeconfig())
	if err != nil || !strings.HasSuffix(out, " in 3 configurations: nothing found\n") {
		t.Errorf("%q %v", out, err)
	}
	t.Logf("%s in %s", strings.TrimSpace(out), time.Since(began).Round(time.Millisecond))
}

// TestNothingIsWritten: the API server's audit log has nothing of usherctl doctor but reads and reviews of access.
func TestNothingIsWritten(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	config, err := cluster.Kubeconfig("examiner", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	doctor(ctx, t, config)
	verbs := map[string]int{}
	_, err = cluster.Audit(func(e kubetest.AuditEvent) bool {
		if e.User.Username != "examiner" || e.Stage != "ResponseComplete" {
			return false
		}
		verbs[e.Verb]++
		reads := e.Verb == "get" || e.Verb == "list"
		if !reads && (e.Verb != "create" || e.ObjectRef.Resource != "subjectaccessreviews") {
			t.Errorf("%s %s", e.Verb, e.RequestURI)
		}
		return false
	})
	if err != nil || verbs["list"] < 3 || verbs["create"] == 0 {
		t.Errorf("%v %v", verbs, err)
	}
}
