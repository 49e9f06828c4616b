// Command others serves webhooks that were written with the libraries of others, as their documentation shows it, for usherctl/probe to try.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"

	kubewebhook "github.com/slok/kubewebhook/v2/pkg/http"
	"github.com/slok/kubewebhook/v2/pkg/model"
	"github.com/slok/kubewebhook/v2/pkg/webhook/mutating"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// defaulter adds a label to pods.
type defaulter struct{}

func (defaulter) Default(_ context.Context, pod *corev1.Pod) error {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Labels["team"] == "" {
		pod.Labels["team"] = "nobody"
	}
	return nil
}

// validator refuses pods with an image whose tag is latest.
type validator struct{}

func (validator) ValidateCreate(_ context.Context, pod *corev1.Pod) (admission.Warnings, error) {
	for _, c := range pod.Spec.Containers {
		if strings.HasSuffix(c.Image, ":latest") {
			return nil, fmt.Errorf("container %s: the tag latest moves: name a version", c.Name)
		}
	}
	return nil, nil
}

func (v validator) ValidateUpdate(ctx context.Context, _, pod *corev1.Pod) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, pod)
}

func (validator) ValidateDelete(context.Context, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

// annotate adds annotations to pods, as kubewebhook's example does.
func annotate(_ context.Context, _ *model.AdmissionReview, object metav1.Object) (*mutating.MutatorResult, error) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return &mutating.MutatorResult{}, nil
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["mutated"], pod.Annotations["mutator"] = "true", "pod-annotate"
	return &mutating.MutatorResult{MutatedObject: pod}, nil
}

// annotator returns kubewebhook's handler.
func annotator() (http.Handler, error) {
	webhook, err := mutating.NewWebhook(mutating.WebhookConfig{ID: "podAnnotate", Obj: &corev1.Pod{}, Mutator: mutating.MutatorFunc(annotate)})
	if err != nil {
		return nil, err
	}
	return kubewebhook.HandlerFor(kubewebhook.HandlerConfig{Webhook: webhook})
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9443", "address")
	certs := flag.String("certs", ".", "folder with tls.crt and tls.key")
	flag.Parse()
	if err := serve(context.Background(), *listen, *certs); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen, certs string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{Host: host, Port: number, CertDir: certs})
	server.Register("/mutate", admission.WithDefaulter[*corev1.Pod](scheme, defaulter{}))
	annotates, err := annotator()
	if err != nil {
		return err
	}
	server.Register("/annotate", annotates)
	server.Register("/validate", admission.WithValidator[*corev1.Pod](scheme, validator{}))
	return server.Start(ctx)
}
