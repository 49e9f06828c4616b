package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// reviewed is the part of what usherctl review --audit-log prints that the test reads.
type reviewed struct {
	Requests, Judged, DryRuns int
	Groups                    []struct {
		Difference, Rule, Namespace string
		Count                       int
		Examples                    []struct{ At, Name, Message string }
	}
	NotJudged []struct {
		Reason string
		Count  int
	}
}

// mayNotBeJudged match why requests are not judged.
var mayNotBeJudged = regexp.MustCompile(`^(PATCH|DELETE|UPDATE|CONNECT|DELETECOLLECTION|level Metadata|the request failed for another reason)`)

// logOf returns a file with what the log has of some namespaces: other tests register other webhooks, and change the policy.
func logOf(t *testing.T, namespaces ...string) string {
	t.Helper()
	all, err := os.ReadFile(cluster.AuditLog())
	must(t, err)
	file, of := filepath.Join(t.TempDir(), "audit.log"), []byte(nil)
	for line := range bytes.Lines(all) {
		if slices.ContainsFunc(namespaces, func(n string) bool { return bytes.Contains(line, []byte(`"namespace":"`+n+`"`)) }) {
			of = append(of, line...)
		}
	}
	must(t, os.WriteFile(file, of, 0o600))
	return file
}

// reviewLog reviews a log under a policy.
func reviewLog(t *testing.T, log, policy string, args ...string) (r reviewed, code int) {
	t.Helper()
	args = append([]string{"review", "--audit-log", log, "--config", policy, "--suite=core", "-o=json"}, args...)
	out, err := exec.CommandContext(t.Context(), usherctl, args...).Output()
	failed, _ := errors.AsType[*exec.ExitError](err)
	if wrong := json.Unmarshal(out, &r); wrong != nil {
		t.Fatalf("%v: %v\n%s", err, wrong, out)
	}
	if failed != nil {
		code = failed.ExitCode()
	}
	return r, code
}

// TestUnderAnotherPolicy: some 300 requests of many kinds. Under the policy in force nothing differs; under another
// one, what was sent to be refused by it, and no more.
func TestUnderAnotherPolicy(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	const replayed = "replayed"
	for name, label := range map[string]string{replayed: "enabled", "left-out": "no"} {
		cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+name+`",
			"labels": {"admission-webhook": "`+label+`"}}}`)
		awaitAccount(ctx, t, name)
	}
	rude, dry := 0, 0
	for n := range 120 {
		word := []string{"web", "rude", "offensive", "web"}[n%4]
		in, query := replayed, ""
		switch n % 10 {
		case 3:
			in = "left-out"
		case 5:
			query, dry = "?dryRun=All", dry+1
		}
		p := pod(fmt.Sprintf("%s-%d", word, n), n)
		if n%3 == 0 {
			delete(p["spec"].(kubetest.Object), "automountServiceAccountToken")
		}
		if n%11 == 0 {
			p["metadata"].(kubetest.Object)["labels"] = kubetest.Object{"acme.com/lifespan-requested": "99"}
		}
		path := "/api/v1/namespaces/" + in + "/pods"
		stored, err := cluster.Admin().Create(ctx, path+query, p)
		if err != nil || query != "" {
			if err == nil && in == replayed && word == "rude" {
				rude++
			}
			continue
		}
		if in == replayed && word == "rude" {
			rude++
		}
		path += "/" + stored.String("metadata", "name")
		stored["metadata"].(map[string]any)["labels"] = map[string]any{"changed": "yes"}
		_, _ = cluster.Admin().Update(ctx, path, stored) // the scheduler may have been first
		if n%2 == 0 {
			labelled := kubetest.Object{"metadata": kubetest.Object{"labels": kubetest.Object{"a": "b"}}}
			_, err = cluster.Admin().Patch(ctx, path, "application/merge-patch+json", labelled)
			must(t, err)
		}
		if n%6 == 0 {
			_, err = cluster.Admin().Delete(ctx, path+"?gracePeriodSeconds=0")
			must(t, err)
		}
	}
	log := logOf(t, replayed, "left-out")
	for _, args := range [][]string{nil, {"--was", usher.PolicyFile()}} {
		r, code := reviewLog(t, log, usher.PolicyFile(), args...)
		reasons := map[string]int{}
		for _, why := range r.NotJudged {
			if reasons[why.Reason] = why.Count; !mayNotBeJudged.MatchString(why.Reason) {
				t.Errorf("not judged: %s: %d", why.Reason, why.Count)
			}
		}
		if len(r.Groups) > 0 || r.Judged < 80 || r.DryRuns < dry || (code == 2) != (len(r.NotJudged) > 0) {
			t.Errorf("%v: %d of %d judged, %d dry runs, exit code %d, differences %+v", args, r.Judged, r.Requests, r.DryRuns, code, r.Groups)
		}
		t.Logf("%d of %d judged; not judged: %v", r.Judged, r.Requests, slices.Sorted(maps.Keys(reasons)))
	}
	text, err := os.ReadFile(usher.PolicyFile())
	must(t, err)
	file := filepath.Join(t.TempDir(), "new.yaml")
	changed := strings.Replace(string(text), "[offensive]", "[offensive, rude]", 1)
	must(t, os.WriteFile(file, []byte(changed), 0o600))
	r, code := reviewLog(t, log, file)
	got := 0
	for _, g := range r.Groups {
		if got += g.Count; g.Difference != "newly refused" || g.Rule != "denied-names" || g.Namespace != replayed {
			t.Errorf("%+v", g)
		}
	}
	if rude == 0 || got != rude || code != 1 {
		t.Errorf("%d newly refused, exit code %d, want %d\n%s", got, code, rude, changed)
	}
}
