package whole

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// slowHooks are hooks of kube-apiserver that wait for a second before they create what is in every cluster. bootstrap creates the
// same at once.
var slowHooks = []string{"rbac/bootstrap-roles", "scheduling/bootstrap-system-priority-classes"}

// bootstrap creates the PriorityClasses and roles of every cluster.
func bootstrap(ctx context.Context, client kubernetes.Interface) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	o, rbac := metav1.CreateOptions{}, client.RbacV1()
	for _, c := range scheduling.SystemPriorityClasses() {
		all.Go(created(ctx, func() error { _, err := client.SchedulingV1().PriorityClasses().Create(ctx, c, o); return err }))
	}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		all.Go(created(ctx, func() error { _, err := rbac.ClusterRoles().Create(ctx, &r, o); return err }))
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		all.Go(created(ctx, func() error { _, err := rbac.ClusterRoleBindings().Create(ctx, &b, o); return err }))
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			all.Go(created(ctx, func() error { _, err := rbac.Roles(namespace).Create(ctx, &r, o); return err }))
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			all.Go(created(ctx, func() error { _, err := rbac.RoleBindings(namespace).Create(ctx, &b, o); return err }))
		}
	}
	return all.Wait()
}

// created returns a function that creates an object, and waits for its namespace.
func created(ctx context.Context, create func() error) func() error {
	return func() error {
		return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			if err := create(); !apierrors.IsNotFound(err) {
				return true, err
			}
			return false, nil
		})
	}
}
