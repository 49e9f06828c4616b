// Package oracle tests how the API server's own code interprets usher's answers. Its webhook plugins run in this
// process with the configurations that `usher webhooks` prints, and call a running usher. There is no control plane, so
// a sample takes a millisecond or two.
//
//	oracle_test.go      every sample review: same object, refusal, warnings and audit annotations as in its golden file
//	conditions_test.go  the match conditions: they exclude only updates of fields that no check reads
//	placement_test.go   node selectors and tolerations: the verdicts are those of the API server's own plugins
//	edits_test.go       randomly edited samples: the API server can use every answer
//	plugin_test.go      the API server's side
//	sample_test.go      the samples, their goldens, and the requests that they came from
package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"usher.dev/usher/e2e/kubetest"
)

// Shared by all tests.
var (
	all     configurations // for the default policy
	samples []*sample
	served  map[string]bool   // the paths that this usher binary has
	running map[string]*world // by policy: samples are reviewed under the policy of their step, see sample.policy
	sandbox *kubetest.Cluster // in which usher runs
)

// world is usher under one policy, and how it is registered.
type world struct {
	usher          *kubetest.Usher
	configurations configurations
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	box, err := kubetest.WithoutControlPlane()
	if err == nil {
		defer func() { _ = box.Stop() }()
		sandbox = box
		err = start(ctx, box)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the oracle cannot start:", err)
		return 1
	}
	return m.Run()
}

// start runs usher as `make run` does, with which the golden files were written, once for each policy.
func start(ctx context.Context, box *kubetest.Cluster) error {
	root, err := kubetest.Repository()
	if err != nil {
		return err
	}
	gates, err := os.ReadFile(filepath.Join(root, "samples", "feature-gates"))
	if err != nil {
		return err
	}
	open := "--feature-gates=" + strings.TrimSpace(string(gates))
	policy, err := os.ReadFile(filepath.Join(root, "test", "testdata", "default-policy.yaml"))
	if err != nil {
		return err
	}
	running = map[string]*world{}
	if running[""], err = startWorld(ctx, box, root, open, "usher", policy); err != nil {
		return err
	}
	all = running[""].configurations
	if served, err = routes(ctx, running[""].usher, open); err != nil {
		return err
	}
	if samples, err = readSamples(root); err != nil {
		return err
	}
	for _, s := range samples {
		if running[s.policy] != nil {
			continue
		}
		policy, err := os.ReadFile(filepath.Join(root, "samples", "policies", s.policy+".yaml"))
		if err != nil {
			return err
		}
		if running[s.policy], err = startWorld(ctx, box, root, open, "usher-"+s.policy, policy); err != nil {
			return err
		}
	}
	return nil
}

// startWorld starts usher under one policy, and prints how it is registered for it.
func startWorld(ctx context.Context, box *kubetest.Cluster, root, gates, name string, policy []byte) (*world, error) {
	usher, err := box.StartUsher(ctx, kubetest.UsherOptions{Name: name, Policy: string(policy),
		Flags: []string{"--cluster-dir=" + filepath.Join(root, "samples", "cluster"), gates}})
	if err != nil {
		return nil, err
	}
	w := &world{usher: usher}
	// Suite by suite: together they would have one of the two node amplifiers, and each has samples.
	for _, suite := range []string{"core", "colocation"} {
		printed, err := usher.Run(ctx, "webhooks", "--config", usher.PolicyFile(), "--url", usher.URL, "--ca-file", usher.CAFile, "--suite="+suite, gates)
		if err != nil {
			return nil, err
		}
		c, err := parseConfigurations(printed)
		if err != nil {
			return nil, err
		}
		w.configurations.mutating.Webhooks = append(w.configurations.mutating.Webhooks, c.mutating.Webhooks...)
		w.configurations.validating.Webhooks = append(w.configurations.validating.Webhooks, c.validating.Webhooks...)
	}
	return w, nil
}

// routes returns the paths of the binary.
func routes(ctx context.Context, usher *kubetest.Usher, open string) (map[string]bool, error) {
	text, err := usher.Cluster().Usherctl(ctx, "steps", "--suite=core,colocation", "-o", "json", open)
	if err != nil {
		return nil, err
	}
	var steps []struct {
		Path string
		On   bool
	}
	if err := json.Unmarshal([]byte(text), &steps); err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	for _, step := range steps {
		paths[step.Path] = paths[step.Path] || step.On
	}
	return paths, nil
}

// namespaces returns the namespaces of all samples.
func namespaces() []string {
	names := map[string]bool{}
	for _, s := range samples {
		names[s.request.Namespace] = true
	}
	delete(names, "")
	return slices.Collect(maps.Keys(names))
}

// servers holds an API server for each path, version of the review and policy, created on first use.
type servers map[string]*apiServer

func (all servers) of(t *testing.T, s *sample) *apiServer {
	t.Helper()
	key := s.path + s.version + s.policy
	if all[key] == nil {
		server, err := newAPIServer(running[s.policy].configurations.only(s.path, s.version), namespaces(), nil)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = server
	}
	return all[key]
}

// TestSamplesAsStored sends each sample with all its fields, and compares everything with the golden file.
func TestSamplesAsStored(t *testing.T) {
	everySample(t, asStored, func(t *testing.T, s *sample, got outcome) {
		compare(t, s, got)
		compareObject(t, s, got, asStored)
	})
}

// TestSamplesAsTyped sends each sample through the Go types, as the API server sends pods and nodes to a webhook. This
// changes the format of quantities, also in messages, so only the object and the verdict are compared.
func TestSamplesAsTyped(t *testing.T) {
	everySample(t, asTyped, func(t *testing.T, s *sample, got outcome) { compareObject(t, s, got, asTyped) })
}

// forget restarts usher, because it keeps what it admitted in other tests for a while.
func forget(ctx context.Context) error {
	usher := running[""].usher
	if err := usher.Replicas[0].Restart(ctx); err != nil {
		return err
	}
	return usher.Balancer.Wait(ctx, 1)
}

// everySample sends every sample that can be rebuilt to a restarted usher, and logs why the others cannot be rebuilt.
func everySample(t *testing.T, decode decoder, check func(*testing.T, *sample, outcome)) {
	if err := forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, asked, able := servers{}, 0, 0
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			if !served[s.path] {
				t.Skip("this usher has no route " + s.path)
			}
			attributes, err := s.attributes(decode, s.request.Object.Raw)
			if err != nil {
				t.Skip("no API server sends this: ", err)
			}
			able++
			got := made.of(t, s).admit(attributes)
			if len(got.calls.sent) == 0 {
				keptAway(t, s, got)
				return
			}
			asked++
			check(t, s, got)
			if t.Failed() {
				t.Logf("sent:\n%s\nanswered:\n%s", got.calls.sent[0], got.calls.answered[0])
			}
		})
	}
	t.Logf("%d samples; %d could be rebuilt; usher was asked about %d, the rules keep the others away", len(samples), able, asked)
	if asked < len(samples)/2 {
		t.Errorf("usher was asked about %d of %d samples: fewer than half", asked, len(samples))
	}
}

// keptAway checks a request that the rules of the configuration do not send to usher: usher must not have changed or
// refused it.
func keptAway(t *testing.T, s *sample, got outcome) {
	t.Helper()
	t.Logf("the configuration keeps %s %s/%s away", s.request.Operation, s.request.Resource.Resource, s.request.SubResource)
	if got.err != nil {
		t.Errorf("refused all the same: %v", got.err)
	}
	if s.golden.code == 200 && (s.golden.patched || !s.golden.allowed) {
		t.Errorf("usher would have had something to say: allowed %v, patched %v", s.golden.allowed, s.golden.patched)
	}
}

// compare compares the verdict, the warnings and the audit annotations with the golden file.
func compare(t *testing.T, s *sample, got outcome) {
	t.Helper()
	if !slices.Equal(got.warnings, s.golden.warnings) {
		t.Errorf("warnings: %s", cmp.Diff(s.golden.warnings, got.warnings))
	}
	audit, webhook := map[string]string{}, strings.TrimPrefix(s.path, "/")+".usher.dev"
	for key, value := range got.audit {
		// A route for both scopes has a second webhook, for cluster-scoped objects.
		if own, ok := strings.CutPrefix(strings.TrimPrefix(key, "cluster."), webhook+"/"); ok {
			audit[own] = value
		}
	}
	if diff := cmp.Diff(s.golden.audit, audit); diff != "" {
		t.Errorf("audit annotations: %s", diff)
	}
	var refusal *apierrors.StatusError
	if s.golden.allowed || !errors.As(got.err, &refusal) {
		return // compareObject compares the verdict
	}
	want := s.golden.status
	if strings.Contains(refusal.ErrStatus.Message, `"cluster.`+webhook) {
		webhook = "cluster." + webhook
	}
	want.Message = fmt.Sprintf("admission webhook %q denied the request: %s", webhook, want.Message)
	if diff := cmp.Diff(want, refusal.ErrStatus); diff != "" {
		t.Errorf("status: %s", diff)
	}
}

// compareObject compares the verdict and the object with the golden file.
func compareObject(t *testing.T, s *sample, got outcome, decode decoder) {
	t.Helper()
	if s.golden.code != 200 {
		t.Fatalf("the golden is HTTP %d, yet the rules let this through: %v", s.golden.code, got.err)
	}
	if err := unusable(got.err); err != nil {
		t.Fatal(err)
	}
	if (got.err == nil) != s.golden.allowed {
		t.Fatalf("want allowed %v, got %v", s.golden.allowed, got.err)
	}
	if got.err != nil || got.object == nil {
		return
	}
	want := s.request.Object.Raw
	if s.golden.patched {
		want = s.golden.object
	}
	object, err := decode(want, got.object.GetObjectKind().GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain(t, object), plain(t, got.object)); diff != "" {
		t.Errorf("the object: %s", diff)
	}
}

// plain returns an object decoded from JSON, independent of the order of its keys.
func plain(t *testing.T, o runtime.Object) (value map[string]any) {
	t.Helper()
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// unusable returns nil for no error and for an intended refusal by usher. Otherwise the API server could not use the
// answer.
func unusable(err error) error {
	if err == nil {
		return nil
	}
	var refusal *apierrors.StatusError
	if errors.As(err, &refusal) && refusal.ErrStatus.Code < 500 &&
		strings.HasPrefix(refusal.ErrStatus.Message, "admission webhook ") &&
		strings.Contains(refusal.ErrStatus.Message, " denied the request: ") {
		return nil
	}
	return fmt.Errorf("the API server cannot use the answer: %w", err)
}
