package asreviewed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// policiesVariable is the environment variable with the number of policies; each is tried on twelve objects.
const policiesVariable = "USHER_REVIEWED"

// report is the report of `usherctl review -o json` on an object.
type report struct {
	Source, Of, Kind, Namespace, Name, Verdict string
	Calls                                      []struct{ Path, Outcome string }
	Invalid, Unjudged                          []string
}

// outcomes returns the calls as counts has them, of mutating or of validating routes.
func (r report) outcomes(prefix string) (all []string) {
	for _, c := range r.Calls {
		if strings.HasPrefix(c.Path, prefix) {
			all = append(all, c.Path+" "+c.Outcome)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestAsReviewed: what `usherctl review` says of an object is what becomes of it at an API server with usher registered. "Not judged" is
// said of at most 5 % of the objects, and only where the Namespace is left out of the files, which it is for one policy of eight.
func TestAsReviewed(t *testing.T) {
	ctx := cluster.Within(t, 20*time.Minute)
	d, seen := draws{kubetest.Random(t)}, map[string]int{}
	untilSeen(t, seen, []string{"allowed", "denied", "invalid"}, rounds(t), func(from, to int) { reviewCreations(ctx, t, d, from, to, seen) })
	all := 0
	for _, n := range seen {
		all += n
	}
	if all > 200 && seen["not judged"]*20 > all { // of fewer, one policy would decide
		t.Errorf("%d of %d objects were not judged", seen["not judged"], all)
	}
}

// reviewCreations compares twelve objects for each of some policies.
func reviewCreations(ctx context.Context, t *testing.T, d draws, from, to int, seen map[string]int) {
	t.Helper()
	namespaces, ranges := map[int][]kubetest.Object{}, map[int][]kubetest.Object{}
	for i := from; i < to; i++ {
		namespaces[i] = d.namespaces(i)
		ranges[i] = d.limitRanges(namespaces[i])
		createNamespaces(ctx, t, namespaces[i], ranges[i]...)
	}
	for i := from; i < to; i++ {
		policy := kubetest.Encode(d.policy())
		serve(ctx, t, policy, i)
		var files []kubetest.Object
		for n := range 12 {
			files = append(files, d.object(n, namespaces[i]))
		}
		given, left := namespaces[i], ""
		if i%8 == 5 {
			given, left = given[1:], given[0].String("metadata", "name")
		}
		files = slices.Concat(files, given, ranges[i])
		t.Run(fmt.Sprintf("policy-%d", i), func(t *testing.T) { compare(ctx, t, policy, files, left, seen) })
	}
	unregister(ctx, t)
}

// mostBatches bounds what is drawn: that a verdict is missing by chance after one batch happens, after all of them it does not.
const mostBatches = 20

// untilSeen draws a batch of the size, and further ones until each verdict was seen.
func untilSeen(t *testing.T, seen map[string]int, verdicts []string, size int, batch func(from, to int)) {
	t.Helper()
	missing, drawn := verdicts, 0
	for ; drawn == 0 || len(missing) > 0 && drawn < mostBatches*size; drawn += size {
		batch(drawn, drawn+size)
		missing = slices.DeleteFunc(slices.Clone(verdicts), func(v string) bool { return seen[v] > 0 })
	}
	t.Logf("of %d draws: %v", drawn, seen)
	if len(missing) > 0 {
		t.Errorf("nothing was %q in %d draws", missing, drawn)
	}
}

// rounds returns how many policies are tried.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv(policiesVariable)
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compare reviews files, and sends the object of each report to the API server. One Namespace may be left out of the files.
func compare(ctx context.Context, t *testing.T, policy string, files []kubetest.Object, left string, seen map[string]int) {
	reports := review(ctx, t, files)
	reviewed := map[int]bool{}
	for _, r := range reports {
		i := indexOf(t, r, len(files))
		alone := !reviewed[i] // the workload has no report of its own
		reviewed[i] = true
		seen[r.Verdict]++
		if r.Verdict == "not judged" && r.Namespace != left {
			t.Errorf("%s was not judged, though its Namespace is in the files: %q", kubetest.Encode(files[i]), r.Unjudged)
		}
		verdict, answer, called := send(ctx, t, files[i], r.Of != "", alone)
		if why := differs(r, verdict, called, r.Namespace != left); why != "" {
			t.Errorf("%s\npolicy: %s\nobject: %s\nreview: %+v\nthe API server: %s: %s\nusher was asked: %q", why, policy, kubetest.Encode(files[i]), r, verdict, answer, called)
		}
	}
	if len(reviewed) != len(files) {
		t.Errorf("%d of %d objects were reviewed", len(reviewed), len(files))
	}
}

// review runs `usherctl review` on files, and compares its exit code with the verdicts.
func review(ctx context.Context, t *testing.T, files []kubetest.Object) (reports []report) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "files.yaml")
	var text strings.Builder
	for _, o := range files {
		text.WriteString(kubetest.Encode(o) + "\n---\n")
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := usher.Cluster().Usherctl(ctx, "review", "--config", usher.PolicyFile(), "--suite", "core", "--dry-run", "--as", "admin", "--as-group", "system:masters,system:authenticated", "-o", "json", file)
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wantExit(t, err, reports)
	return reports
}

// wantExit compares the exit code of a command with the verdicts.
func wantExit(t *testing.T, err error, reports []report) {
	t.Helper()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	}
	if want := exitOf(reports); code != want {
		t.Errorf("the exit code is %d, want %d", code, want)
	}
}

func exitOf(reports []report) int {
	has := func(verdicts ...string) bool {
		return slices.ContainsFunc(reports, func(r report) bool { return slices.Contains(verdicts, r.Verdict) })
	}
	switch {
	case has("denied", "invalid"):
		return 1
	case has("not judged", "error"):
		return 2
	}
	return 0
}

// indexOf returns which of the objects of the file a report is about: each is on the line after a "---", which is where it begins.
func indexOf(t *testing.T, r report, n int) int {
	t.Helper()
	line, err := strconv.Atoi(r.Source[strings.LastIndex(r.Source, ":")+1:])
	if err != nil || line/2 >= n {
		t.Fatalf("of which object is %s? %v", r.Source, err)
	}
	return line / 2
}

// send creates an object as a dry run, or the pod that a controller makes of it: if the report on the pod stands alone, only if the API
// server takes the workload. It returns what became of it, and what usher answered.
func send(ctx context.Context, t *testing.T, o kubetest.Object, pod, alone bool) (verdict, answer string, called []string) {
	t.Helper()
	client := cluster.Admin()
	if pod {
		pod := podOf(o)
		if verdict, answer = sendAs(ctx, t, client, o); verdict == "invalid" && alone || pod == nil {
			return verdict, answer, nil
		}
		o = pod
		account := map[string]string{"ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller", "DaemonSet": "daemon-set-controller", "Job": "job-controller"}[o.String("metadata", "ownerReferences", 0, "kind")]
		client = client.Impersonate("system:serviceaccount:kube-system:"+account, "system:serviceaccounts", "system:serviceaccounts:kube-system")
	}
	before := counts(ctx, t)
	verdict, answer = sendAs(ctx, t, client, o)
	return verdict, answer, since(before, counts(ctx, t))
}

func sendAs(ctx context.Context, t *testing.T, client *kubetest.Client, o kubetest.Object) (verdict, answer string) {
	t.Helper()
	response, err := client.Do(ctx, "POST", collectionOf(o)+"?dryRun=All", "application/json", o)
	if err != nil {
		t.Fatal(err)
	}
	return verdictOf(response)
}

// byLimitRange matches what the plug-in LimitRanger refuses a pod or claim with.
var byLimitRange = regexp.MustCompile(`is forbidden: \[?(m(in|ax)imum \S+ usage per|\S+ max limit to request ratio per)`)

func verdictOf(response *kubetest.Response) (verdict, answer string) {
	text := string(response.Body)
	switch {
	case response.Status < 300, response.Status == 409: // the Namespaces are there
		return "allowed", ""
	case strings.Contains(text, "denied the request"):
		return "denied", text
	case response.Status == 400 || response.Status == 422 || response.Status == 403 && byLimitRange.MatchString(text):
		return "invalid", text
	case response.Status == 500:
		return "error", text
	}
	return strconv.Itoa(response.Status), text
}

func collectionOf(o kubetest.Object) string {
	path := "/apis/" + o.String("apiVersion")
	if o.String("apiVersion") == "v1" {
		path = "/api/v1"
	}
	if !slices.Contains(clusterScoped, o.String("kind")) {
		path += "/namespaces/" + o.String("metadata", "namespace")
	}
	plural := strings.ToLower(o.String("kind")) + "s"
	if before, found := strings.CutSuffix(plural, "ys"); found {
		plural = before + "ies"
	}
	return path + "/" + strings.Replace(plural, "sss", "sses", 1)
}

// podOf returns the pod that a controller makes of a workload; nil if it has no template.
func podOf(o kubetest.Object) kubetest.Object {
	template, owner, version := o.At("spec", "template"), "ReplicaSet", "apps/v1"
	switch o.String("kind") {
	case "StatefulSet", "DaemonSet":
		owner = o.String("kind")
	case "CronJob":
		template, owner, version = o.At("spec", "jobTemplate", "spec", "template"), "Job", "batch/v1"
	case "Job":
		owner, version = "Job", "batch/v1"
	}
	if _, ok := template.(map[string]any); !ok {
		return nil
	}
	pod := kubetest.Decode(kubetest.Encode(template))
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	meta, _ := pod["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		pod["metadata"] = meta
	}
	meta["namespace"] = o.String("metadata", "namespace")
	if owner == "StatefulSet" {
		meta["name"] = o.String("metadata", "name") + "-0"
	} else {
		meta["generateName"] = o.String("metadata", "name") + "-5d8f-"
	}
	meta["ownerReferences"] = []any{map[string]any{"apiVersion": version, "kind": owner, "name": o.String("metadata", "name"), "uid": "00000000-0000-4000-8000-000000000000", "controller": true}}
	return pod
}

// since returns what has been counted since before. What a second call of a mutating route found unchanged is left out.
func since(before, now map[string]string) (all []string) {
	for _, key := range sorted(now) {
		path, outcome, _ := strings.Cut(key, " ")
		if now[key] != before[key] && (outcome != "allowed" || now[path+" mutated"] == before[path+" mutated"]) {
			all = append(all, key)
		}
	}
	return all
}

// differs says how a report and what happened differ, or returns "". Where the Namespace is not known, a route that does not decide may
// have answered otherwise.
func differs(r report, verdict string, called []string, known bool) string {
	of := func(prefix string) []string {
		return slices.DeleteFunc(slices.Clone(called), func(c string) bool { return !strings.HasPrefix(c, prefix) })
	}
	said := r.Verdict
	if said == "skipped" {
		said = "allowed"
	}
	switch {
	case said == "not judged":
		return ""
	case said == "denied" && verdict == "error" && slices.ContainsFunc(called, func(c string) bool { return strings.HasSuffix(c, " error") }):
		return "" // of two webhooks that are called at once, the API server returns what the faster one says
	case said != verdict:
		return "review says " + r.Verdict + ", and the object is " + verdict
	case verdict == "invalid" || !known:
	case !slices.Equal(r.outcomes("/mutate-"), of("/mutate-")):
		return "other mutating calls"
	case !slices.Equal(r.outcomes("/validate-"), of("/validate-")):
		return "other validating calls"
	}
	return ""
}
