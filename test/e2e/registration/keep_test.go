package registration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

const (
	keepMarker = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/keep-usher"
	disable    = "delete mutatingwebhookconfiguration,validatingwebhookconfiguration -l app.kubernetes.io/name=usher"
)

// startKeeping starts replicas that restore their registration, with the rights of the component.
func startKeeping(ctx context.Context, t *testing.T, replicas int) *kubetest.Usher {
	t.Helper()
	for _, file := range []string{"clusterrole.yaml", "clusterrolebinding.yaml"} {
		if _, err := cluster.Kubectl(ctx, "apply", "-f", "deploy/components/keep-registered/"+file); err != nil {
			t.Fatal(err)
		}
	}
	u := startWatching(ctx, t, replicas, "--keep-registered=200ms")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		u.Stop()
		remove(ctx, t)
		mustDelete(ctx, t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/usher-keep")
	})
	return u
}

// kept waits until the registration is there, and is kept.
func kept(ctx context.Context, t *testing.T) {
	t.Helper()
	within(ctx, t, 20*time.Second, func(ctx context.Context) error {
		for _, path := range []string{mutating, validating} {
			if _, err := cluster.Admin().Get(ctx, path); err != nil {
				return err
			}
		}
		marker, err := cluster.Admin().Get(ctx, keepMarker)
		if armed := marker.String("metadata", "annotations", "usher.dev/armed"); err != nil || armed != "true" {
			return fmt.Errorf("it is not kept: armed %q, %v", armed, err)
		}
		return nil
	})
}

// gone returns an error if anything is registered.
func gone(ctx context.Context) error {
	for _, path := range []string{mutating, validating, keepMarker} {
		_, err := cluster.Admin().Get(ctx, path)
		if refused, is := errors.AsType[*kubetest.StatusError](err); !is || refused.Code != 404 {
			return fmt.Errorf("%s is there: %v", path, err)
		}
	}
	return nil
}

// disabled runs the command that disables usher, and fails the test if anything comes back to stay. What is restored at the very moment of
// the command is taken back.
func disabled(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := cluster.Kubectl(ctx, strings.Fields(disable)...); err != nil {
		t.Fatal(err)
	}
	within(ctx, t, 30*time.Second, func(ctx context.Context) error {
		for range 5 {
			if err := gone(ctx); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond)
		}
		return nil
	})
}

// TestTheRegistrationIsKept: whatever is deleted by its name comes back, also while replicas are restarted. Whatever is deleted by the
// command that disables usher does not, until somebody registers usher again.
func TestTheRegistrationIsKept(t *testing.T) {
	rounds := 24
	if os.Getenv("USHER_SOAK") != "" {
		rounds = 1000
	}
	ctx := cluster.Within(t, time.Minute+time.Duration(rounds)*10*time.Second)
	remove(ctx, t)
	u := startKeeping(ctx, t, 3)
	own := "--ca-file=" + u.CAFile
	apply(ctx, t, 0, []string{"registered"}, own, "--exclude-namespace=rook-ceph", "--fail-open=/validate-pods")
	kept(ctx, t)
	before := []kubetest.Object{entry(ctx, t, validating, watched), entry(ctx, t, mutating, "mutate-pods.usher.dev")}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for round := range rounds {
		restarted := make(chan error, 1)
		if random.IntN(4) == 0 {
			go func() { restarted <- u.Replicas[round%3].Restart(ctx) }()
		} else {
			restarted <- nil
		}
		switch random.IntN(4) {
		case 0:
			if random.IntN(2) == 0 { // in the middle of a restoration
				mustDelete(ctx, t, validating)
				time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			}
			disabled(ctx, t)
			apply(ctx, t, 0, []string{"registered"}, own, "--exclude-namespace=rook-ceph", "--fail-open=/validate-pods")
		case 1:
			mustDelete(ctx, t, validating)
		case 2:
			mustDelete(ctx, t, mutating)
		default:
			mustDelete(ctx, t, mutating, validating)
		}
		kept(ctx, t)
		after := []kubetest.Object{entry(ctx, t, validating, watched), entry(ctx, t, mutating, "mutate-pods.usher.dev")}
		if fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("round %d: restored as %v\nwas %v", round, after, before)
		}
		if err := <-restarted; err != nil {
			t.Fatal(err)
		}
		calmDown(ctx, t)
	}
}

// TestAMarkerAloneGoes: a replica may make a marker at the very moment when usher is disabled. It restores nothing, and goes.
func TestAMarkerAloneGoes(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	remove(ctx, t)
	startKeeping(ctx, t, 1)
	create := kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": kubetest.Object{
		"name": "keep-usher", "annotations": kubetest.Object{"usher.dev/service": "usher/usher", "usher.dev/armed": "false"}}}
	if _, err := cluster.Admin().Create(ctx, strings.TrimSuffix(keepMarker, "/keep-usher"), create); err != nil {
		t.Fatal(err)
	}
	within(ctx, t, 10*time.Second, gone)
}

// calmDown makes the keepers forget how often they have restored, which in a cluster takes minutes.
func calmDown(ctx context.Context, t *testing.T) {
	t.Helper()
	within(ctx, t, 10*time.Second, func(ctx context.Context) error {
		_, err := cluster.Admin().Patch(ctx, keepMarker, kubetest.MergePatch, kubetest.Object{"metadata": kubetest.Object{"annotations": kubetest.Object{"usher.dev/restored": ""}}})
		return err
	})
}

func mustDelete(ctx context.Context, t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := cluster.Admin().Delete(ctx, path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsChangedIsPutBack: by others, in what usher needs. What only leaves out more stays, and is reported.
func TestWhatIsChangedIsPutBack(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	remove(ctx, t)
	u := startKeeping(ctx, t, 2)
	apply(ctx, t, 0, []string{"registered"}, "--ca-file="+u.CAFile)
	kept(ctx, t)
	edit(ctx, t, func(w kubetest.Object) { w.List("rules")[0]["operations"] = []string{"DELETE"} })
	reports(ctx, t, u, "expected")
	edit(ctx, t, func(w kubetest.Object) {
		kubetest.Object(w.At("clientConfig", "service").(map[string]any))["name"] = "evil"
	})
	reports(ctx, t, u, "expected")
	edit(ctx, t, func(w kubetest.Object) { w["failurePolicy"] = "Ignore" })
	reports(ctx, t, u, "changed failurePolicy")
	time.Sleep(2 * time.Second)
	if is := entry(ctx, t, validating, watched).String("failurePolicy"); is != "Ignore" {
		t.Errorf("failurePolicy is %s: a mitigation by hand was fought", is)
	}
}

// TestAnotherInstallationIsLeftAlone: one that takes the registration over is not fought.
func TestAnotherInstallationIsLeftAlone(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	remove(ctx, t)
	u := startKeeping(ctx, t, 2)
	apply(ctx, t, 0, []string{"registered"}, "--ca-file="+u.CAFile)
	kept(ctx, t)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}`)
	cluster.MustApply(ctx, t, `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": {"name": "usher-1", "namespace": "other", "labels": {"kubernetes.io/service-name": "usher"}},
		"ports": [{"name": "https", "port": 9443}], "endpoints": [{"addresses": ["10.1.0.2"], "conditions": {"ready": true}}]}`)
	apply(ctx, t, 0, []string{"registered"}, "--ca-file="+u.CAFile, "--service=other/usher", "--force-conflicts", "--fail-open=all")
	reports(ctx, t, u, "changed clientConfig", "changed namespaceSelector") // it leaves out its own namespace
	time.Sleep(2 * time.Second)
	if is := entry(ctx, t, validating, watched).String("clientConfig", "service", "namespace"); is != "other" {
		t.Errorf("the Service is in namespace %s: the other installation was fought", is)
	}
	apply(ctx, t, 0, []string{"registered"}, "--ca-file="+u.CAFile, "--force-conflicts")
	kept(ctx, t)
}
