package e2e

import (
	"errors"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// Tests of the harness itself.

func TestAPIServerComesBackWithItsState(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const path = "/api/v1/namespaces/default/configmaps"
	if _, err := cluster.Admin().Create(ctx, path, kubetest.Object{"metadata": kubetest.Object{"name": "kept"}}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Admin().Delete(ctx, path+"/kept"); err != nil {
		t.Error(err)
	}
}

func TestIdentities(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	const accounts = "/api/v1/namespaces/default/serviceaccounts"
	if _, err := cluster.Admin().Create(ctx, accounts, kubetest.Object{"metadata": kubetest.Object{"name": "robot"}}); err != nil {
		t.Fatal(err)
	}
	robot, err := cluster.ServiceAccount(ctx, "default", "robot")
	if err != nil {
		t.Fatal(err)
	}
	for want, client := range map[string]*kubetest.Client{
		"admin":                               cluster.Admin(),
		"system:node:n9":                      cluster.Node("n9"),
		"system:serviceaccount:default:robot": robot,
		"somebody":                            cluster.Admin().Impersonate("somebody", "some-group"),
	} {
		review, err := client.Create(ctx, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
			kubetest.Object{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
		if err != nil {
			t.Fatal(err)
		}
		if got := review.String("status", "userInfo", "username"); got != want {
			t.Errorf("the API server takes %s for %q", want, got)
		}
	}
	var refused *kubetest.StatusError
	if _, err := robot.Get(ctx, "/api/v1/nodes"); !errors.As(err, &refused) || refused.Code != 403 {
		t.Errorf("RBAC lets a service account without rights list nodes: %v", err)
	}
}

func TestReplicasComeAndGo(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	first := usher.Replicas[0]
	first.Kill()
	if err := usher.Balancer.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := usher.Balancer.Wait(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := first.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := usher.Balancer.Wait(ctx, 2); err != nil {
		t.Error(err)
	}
}
