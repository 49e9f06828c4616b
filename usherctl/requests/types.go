package requests

import (
	"fmt"
	"maps"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/suite"
)

// Typed returns the kinds of Kubernetes whose fields are known. Serving does not need them.
var Typed = sync.OnceValue(func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(kinds); err != nil {
			panic(fmt.Sprintf("kinds that do not go together: %v", err))
		}
	}
	return kinds
})

// Decode decodes an object as the API server does. The error of a wrong type names the field, and no Go type.
func Decode(raw []byte, into any) error {
	return reader.WrongType(kjson.UnmarshalCaseSensitivePreserveInts(raw, into))
}

// typer is implemented by the Tools of a suite that has Go types for the kinds that it reviews, so that unknown fields are found.
type typer interface {
	Kinds() map[metav1.GroupVersionKind]func() any
}

// Types maps the kinds that some suites review to functions that return a new typed object.
func Types(suites suite.List) map[metav1.GroupVersionKind]func() any {
	all := podTypes()
	for _, s := range suites {
		if of, has := s.Tools.(typer); has {
			maps.Copy(all, of.Kinds())
		}
	}
	return all
}

// podTypes has nodes, pods, and objects with a pod template, which any suite may review.
func podTypes() map[metav1.GroupVersionKind]func() any {
	core, apps, batch := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	of := func(version schema.GroupVersion, kind string) metav1.GroupVersionKind {
		return metav1.GroupVersionKind(version.WithKind(kind))
	}
	return map[metav1.GroupVersionKind]func() any{
		of(core, "Pod"): func() any { return &corev1.Pod{} }, of(core, "Node"): func() any { return &corev1.Node{} },
		of(apps, "Deployment"): func() any { return &appsv1.Deployment{} }, of(apps, "ReplicaSet"): func() any { return &appsv1.ReplicaSet{} },
		of(apps, "StatefulSet"): func() any { return &appsv1.StatefulSet{} }, of(apps, "DaemonSet"): func() any { return &appsv1.DaemonSet{} },
		of(batch, "Job"): func() any { return &batchv1.Job{} }, of(batch, "CronJob"): func() any { return &batchv1.CronJob{} },
		of(core, "ReplicationController"): func() any { return &corev1.ReplicationController{} },
		of(core, "PodTemplate"):           func() any { return &corev1.PodTemplate{} },
	}
}
