package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// A run has at least these rounds, and more until enough was compared, but not more than most.
const rounds, most, perRound = 8, 80, 30

// enough is the minimum number of comparisons of each outcome.
var enough = map[string]int{"pairs by review": 2000, "pairs by manifest": 1000, "not: rules": 200, "not: scope": 10, "not: matchPolicy": 2, "not: namespaceSelector": 40,
	"not: objectSelector": 40, "not: matchConditions": 40, "not: a condition without a result": 5, "not: exempt": 10, "not: refused": 1, "called: namespaceSelector": 40,
	"called: objectSelector": 40, "called: matchConditions": 40, "called: as an equivalent resource": 2}

// TestAgreesWithTheAPIServer: for random requests and random configurations, usherctl doctor says of every webhook what the
// API server does. It is asked twice: about the review that the API server sends, and about the manifest.
func TestAgreesWithTheAPIServer(t *testing.T) {
	ctx := cluster.Within(t, 5*time.Minute)
	random := kubetest.Random(t)
	r := newRecorder(t)
	createAll(ctx, t)
	compare := &comparison{t: t, counts: map[string]int{}}
	for round := 0; round < rounds || len(compare.missing()) > 0 && round < most; round++ {
		configurations := r.configurations(random)
		r.register(ctx, t, round, configurations)
		compare.hooks = hooksOf(configurations)
		var asked []asked
		for range perRound {
			sent := randomRequest(random, func(th thing, namespace string) object { return stored(ctx, t, th, namespace) })
			a := send(ctx, r, sent)
			if a.called[first] == (a.review == nil) {
				t.Fatalf("no review of %s %s", sent.method, sent.path)
			}
			asked = append(asked, a)
		}
		compare.reviews(ctx, asked)
		compare.manifests(ctx, asked)
	}
	compare.finish()
}

// createAll creates an object of each kind in each namespace, to be updated and deleted.
func createAll(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, namespace := range namespaces {
		for _, th := range things {
			if th.cluster {
				continue
			}
			if err := kubetest.Eventually(ctx, func(ctx context.Context) error { // -count=2: the webhooks of the run before are still called for some time
				var status *kubetest.StatusError // 409 under another version
				_, err := cluster.Admin().Create(ctx, th.in(namespace), th.object(namespace, "kept", object{"app": "web", "tier": "b"}))
				if errors.As(err, &status) && status.Code == 409 {
					return nil
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// stored returns an object of a kind.
func stored(ctx context.Context, t *testing.T, th thing, namespace string) object {
	t.Helper()
	name := map[string]string{"Node": "n0", "Namespace": namespace}[th.kind]
	if name == "" {
		name = "kept"
	}
	found, err := cluster.Admin().Get(ctx, th.in(namespace)+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// asked is a request that was sent, and who was called.
type asked struct {
	request
	called map[string]bool
	review json.RawMessage
}

// send sends a request. Its answer does not matter: nothing runs that could answer a CONNECT.
func send(ctx context.Context, r *recorder, sent request) asked {
	a := asked{request: sent}
	a.called, a.review = r.during(func() {
		var body any
		if sent.body != nil {
			body = sent.body
		}
		_, _ = cluster.Admin().Impersonate(sent.user, users[sent.user]...).Do(ctx, sent.method, sent.path, "application/json", body)
	})
	return a
}

// verdict holds what usherctl doctor says of a webhook.
type verdict struct {
	Configuration, Name, Filter, Why string
	Called                           bool
}

type report struct {
	Source   string
	Verdict  string
	Webhooks []verdict
	Calls    []struct{ Message string }
}

// comparison counts what was compared.
type comparison struct {
	t      *testing.T
	hooks  map[string]object
	counts map[string]int
}

func hooksOf(configurations []object) map[string]object {
	all := map[string]object{}
	for _, c := range configurations {
		for _, w := range plain(c).List("webhooks") {
			all[w.String("name")] = w
		}
	}
	return all
}

// reviews compares what usherctl doctor says of the reviews that the API server has sent.
func (c *comparison) reviews(ctx context.Context, all []asked) {
	c.t.Helper()
	var with []asked
	var files []string
	for _, a := range all {
		if a.review != nil {
			with, files = append(with, a), append(files, write(c.t, a.review))
		}
	}
	for i, r := range doctor(ctx, c.t, files) {
		c.compare("review", with[i], r)
	}
}

// manifests compares what usherctl doctor says of the manifests. Manifests of similar requests are examined together.
func (c *comparison) manifests(ctx context.Context, all []asked) {
	c.t.Helper()
	groups := map[string][]asked{}
	updates := 0
	for _, a := range all {
		key := a.operation + " " + a.sub + " " + a.user + " " + fmt.Sprint(strings.HasSuffix(a.path, dry))
		if a.old != nil {
			if updates++; updates > 4 {
				continue
			}
			key = fmt.Sprint(key, updates)
		}
		groups[key] = append(groups[key], a)
	}
	for _, group := range groups {
		of := group[0]
		flags := []string{"--no-templates", "--operation", of.operation, "--subresource", of.sub, "--as", of.user, "--as-group", strings.Join(users[of.user], ",")}
		if strings.HasSuffix(of.path, dry) {
			flags = append(flags, "--dry-run")
		}
		if of.old != nil {
			flags = append(flags, "--old", write(c.t, of.old))
		}
		var files []string
		for _, a := range group {
			files = append(files, write(c.t, a.manifest))
		}
		for i, r := range doctor(ctx, c.t, files, flags...) {
			c.compare("manifest", group[i], r)
		}
	}
}

// compare compares one report with what was called.
func (c *comparison) compare(mode string, a asked, r report) {
	c.t.Helper()
	if len(r.Webhooks) < 20 {
		c.t.Fatalf("%s %s: %s: %+v", a.method, a.path, r.Verdict, r)
	}
	for _, w := range r.Webhooks {
		if strings.HasPrefix(w.Name, ready) {
			continue
		}
		if w.Filter == "unknown" {
			c.counts["unknown in "+mode]++
			if !mayBeUnknown(mode, w.Why) {
				c.t.Errorf("%s %s, %s: %s", a.method, a.path, w.Name, w.Why)
			}
			continue
		}
		c.counts["pairs by "+mode]++
		if w.Called != a.called[w.Name] {
			c.t.Errorf("%s: %s %s by %s\n%s\nwebhook %s\nusher doctor: called %t (%s: %s), the API server: %t", mode, a.method, a.path, a.user, text(a.body), text(shown(c.hooks[w.Name])),
				w.Called, w.Filter, w.Why, a.called[w.Name])
		}
		c.count(w)
	}
}

// mayBeUnknown reports whether it is right not to know: what only the API server converts, and in a manifest the fields
// that it fills in.
func mayBeUnknown(mode, why string) bool {
	return strings.Contains(why, "converts the object") || strings.Contains(why, "called, unless the API server refuses") ||
		mode == "manifest" && strings.Contains(why, "does not say which") ||
		mode == "manifest" && strings.Contains(why, "fills in defaults")
}

// count counts what each filter has decided.
func (c *comparison) count(w verdict) {
	if !w.Called {
		c.counts["not: "+w.Filter]++
		if strings.Contains(w.Why, "has no result") {
			c.counts["not: a condition without a result"]++
		}
		return
	}
	for _, filter := range []string{"namespaceSelector", "objectSelector", "matchConditions"} {
		if c.hooks[w.Name][filter] != nil {
			c.counts["called: "+filter]++
		}
	}
	if strings.HasPrefix(w.Why, "as ") {
		c.counts["called: as an equivalent resource"]++
	}
}

// missing returns the outcomes that were not compared often enough.
func (c *comparison) missing() (all []string) {
	for _, what := range slices.Sorted(maps.Keys(enough)) {
		if c.counts[what] < enough[what] {
			all = append(all, fmt.Sprintf("%s: %d times, want %d", what, c.counts[what], enough[what]))
		}
	}
	return all
}

// finish checks that enough was compared.
func (c *comparison) finish() {
	c.t.Helper()
	c.t.Logf("%v", c.counts)
	unknown, known := c.counts["unknown in review"]+c.counts["unknown in manifest"], c.counts["pairs by review"]+c.counts["pairs by manifest"]
	if unknown*100 > known {
		c.t.Errorf("%d pairs are unknown, and only %d are known: more than one in a hundred", unknown, known)
	}
	if missing := c.missing(); len(missing) > 0 {
		c.t.Errorf("too little was compared in %d rounds: %s", most, strings.Join(missing, "; "))
	}
}

// doctor runs usherctl doctor on files.
func doctor(ctx context.Context, t *testing.T, files []string, flags ...string) (reports []report) {
	t.Helper()
	if len(files) == 0 {
		return nil
	}
	out, err := exec.CommandContext(ctx, usherctl, append(append([]string{"doctor", "-o", "json", "--kubeconfig", cluster.AdminKubeconfig()}, flags...), files...)...).Output()
	if json.Unmarshal(out, &reports) != nil || len(reports) != len(files) {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("usherctl doctor %v: %d reports for %d files: %v\n%s", flags, len(reports), len(files), err, out)
	}
	return reports
}

func write(t *testing.T, content any) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := json.NewEncoder(file).Encode(content); err != nil {
		t.Fatal(err)
	}
	return filepath.Clean(file.Name())
}

// shown is a webhook without its address.
func shown(w object) object {
	w = maps.Clone(w)
	delete(w, "clientConfig")
	return w
}

func text(content any) string {
	raw, _ := json.Marshal(content)
	return string(raw)
}
