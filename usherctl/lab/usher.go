package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/internal/poll"
	"usher.dev/usher/internal/printable"
	"usher.dev/usher/server"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
)

// service is usher's Service in a cluster, and user its name at the API server.
const service, user = "usher/usher", "system:serviceaccount:usher:usher"

// enableDefault gives the Namespace default the label of those that usher is asked about.
func (l *lab) enableDefault(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.server.Config)
	if err != nil {
		return err
	}
	label := []byte(`{"metadata":{"labels":{"admission-webhook":"enabled"}}}`)
	_, err = client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceDefault, types.MergePatchType, label, metav1.PatchOptions{})
	return err
}

// serve runs usher as `usher serve --cluster=api` does, registers it, and follows the policy until ctx ends.
func (l *lab) serve(ctx context.Context) error {
	if err := l.grant(ctx); err != nil {
		return err
	}
	kubeconfig, err := l.server.Kubeconfig(user, "system:serviceaccounts", "system:serviceaccounts:usher")
	if err != nil {
		return err
	}
	serving, asked := make(chan server.Addresses, 1), make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, server.Options{Suites: l.suites, Schema: l.Env.Suites.Schema(), Gates: l.gates, Version: l.Version, Log: l.log(ctx),
			Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Config: l.config, ShutdownGrace: time.Second,
			Cluster:      suite.Source{From: "api", Kubeconfig: kubeconfig},
			Certificates: server.Certificates{StateDir: filepath.Join(l.server.Dir, "usher")},
			Record: func() (handlers.Observe, func(context.Context), error) {
				return tell(asked), func(context.Context) {}, nil
			},
			Serving: func(at server.Addresses) { serving <- at }})
	}()
	select {
	case err := <-ended:
		return err
	case at := <-serving:
		if err := l.follow(ctx, at, asked); err != nil {
			return err
		}
	}
	l.greet()
	return <-ended
}

// tell returns an observer that sends something on a channel, unless there is something.
func tell(asked chan<- struct{}) handlers.Observe {
	return func(admit.Route, handlers.Decision, time.Duration) {
		select {
		case asked <- struct{}{}:
		default:
		}
	}
}

// grant gives usher its Namespace, and the rights that `usher webhooks --rbac` prints.
func (l *lab) grant(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.server.Config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "usher"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	rights := l.suites.Rights(suite.Instance{Suites: l.suites, Policy: suite.NoPolicy, Gates: l.gates}.Routes())
	sidecars := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}} // of the Role usher-sidecars
	role := &rbacv1.ClusterRole{ObjectMeta: webhooks.Meta(), Rules: append(rights, sidecars)}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: webhooks.Meta(), Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}

// serverReads is how often the server reads the policy file: it is to have a policy before the API server calls it for that.
const serverReads = 2 * time.Second

// follow registers usher for the policy, waits until the API server calls it, and registers it anew when the policy changes.
func (l *lab) follow(ctx context.Context, at server.Addresses, asked <-chan struct{}) error {
	address, err := webhooks.NewAddress(service, "https://"+at.Reviews, at.CAFile)
	if err != nil {
		return err
	}
	address.User = user
	client, err := apiserver.New(l.server.Config)
	if err != nil {
		return err
	}
	register := func(policy *config.Policy) ([]admit.Route, error) {
		in := suite.Instance{Suites: l.suites, Policy: policy, Gates: l.gates}
		r := webhooks.Registrar{Client: client, Routes: webhooks.OneAmplifier(in.Routes()), At: address}
		plan, err := r.Plan(ctx)
		if err == nil {
			err = r.Apply(ctx, plan, time.Minute, func(string) {})
		}
		return r.Routes, err
	}
	policy, sum, err := config.Open(l.config, l.Env.Suites.Schema())
	if err != nil {
		return err
	}
	routes, err := register(policy)
	if err != nil {
		return err
	}
	if l.config != "" {
		go config.Watch(ctx, l.config, poll.Times{Every: time.Second}, sum, l.Env.Suites.Schema(), func(policy *config.Policy, err error) {
			if err == nil { // the server says what is wrong
				time.Sleep(serverReads)
				_, err = register(policy)
				l.registered(ctx, err)
			}
		})
	}
	return l.awaitCall(ctx, routes, asked)
}

// registered says that usher was registered anew.
func (l *lab) registered(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		_, _ = fmt.Fprintln(l.Err, "error: the policy has changed, but usher was not registered for it:", printable.Line(err.Error()))
	default:
		l.Say("The policy has changed, and usher is registered for it.")
	}
}

// awaitCall waits until the API server asks usher about a pod, if it is registered for pods: it reads configurations a moment later.
func (l *lab) awaitCall(ctx context.Context, routes []admit.Route, asked <-chan struct{}) error {
	create := &admit.Request{Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: admissionv1.Create,
		Namespace: metav1.NamespaceDefault}
	if !slices.ContainsFunc(routes, func(r admit.Route) bool { return r.Covers(create) }) {
		return nil
	}
	client, err := kubernetes.NewForConfig(l.server.Config)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "usher-lab"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	for {
		_, _ = client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		select {
		case <-asked:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// log returns usher's log: warnings and errors, or all of it, until ctx ends.
func (l *lab) log(ctx context.Context) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(l.Err)
	log.SetLevel(logrus.WarnLevel)
	if l.verbose {
		log.SetLevel(logrus.InfoLevel)
	}
	log.SetFormatter(plain{l.verbose})
	context.AfterFunc(ctx, func() { log.SetLevel(logrus.PanicLevel) })
	return log
}

// plain formats a line of a log for a person. Nothing asks to register usher for a new policy: the lab does. Who sent something else than a
// review has the answer, so only a verbose log has it, too.
type plain struct{ verbose bool }

func (p plain) Format(e *logrus.Entry) ([]byte, error) {
	answered := e.Message == "review not answered" || strings.HasPrefix(e.Message, "http: TLS handshake error")
	if strings.Contains(e.Message, "usher webhooks") || answered && !p.verbose {
		return nil, nil
	}
	text := "usher: " + e.Level.String() + ": " + printable.Line(e.Message)
	if err, has := e.Data[logrus.ErrorKey]; has {
		text += ": " + printable.Lines(fmt.Sprint(err))
	}
	return []byte(text + "\n"), nil
}
