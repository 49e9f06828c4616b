package probe

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"usher.dev/usher/usherctl/requests"
)

// registered is a webhook with the configuration that has it, alone.
type registered struct {
	Hook
	configuration *unstructured.Unstructured
	namespaces    *metav1.LabelSelector
	objects       *metav1.LabelSelector
	uncalled      []string // given objects for which it is not called
	notes         []string // what else is to be known of its samples
	close         func()   // ends the judge of its samples
}

// place says where requests are sent, in place of the Service or URL of a configuration.
type place struct {
	address    string // such as https://127.0.0.1:8443; empty: the URL of the configuration
	serverName string
	roots      *x509.CertPool
}

// unregistered returns the webhook at a URL of which no configuration is known: it is taken for one that is called for everything.
func unregistered(at string, mutates bool, to place) (*registered, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--url %s: want https://HOST:PORT/PATH: the API server calls nothing else", at)
	}
	kind := "ValidatingWebhookConfiguration"
	if mutates {
		kind = "MutatingWebhookConfiguration"
	}
	configuration := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
		"metadata": map[string]any{"name": "probe"}, "webhooks": []any{map[string]any{
			"name": "probe.example.com", "clientConfig": map[string]any{"url": "https://probe.example.com/"}, "sideEffects": "None",
			"admissionReviewVersions": []any{"v1"}, "rules": []any{map[string]any{"apiGroups": []any{"*"}, "apiVersions": []any{"*"},
				"operations": []any{"*"}, "resources": []any{"*/*"}}}}}}}
	hook := Hook{Name: at, Mutates: mutates, URL: at, Timeout: 10 * time.Second, unregistered: true, ServerName: u.Hostname(), Roots: to.roots}
	if to.serverName != "" {
		hook.ServerName = to.serverName
	}
	return &registered{Hook: hook, configuration: configuration}, nil
}

// At returns the webhook at a URL, with objects as samples, and a function that ends it. Its certificate must be of the CA in PEM form.
func At(ctx context.Context, at string, mutates bool, ca []byte, samples []requests.Document) (*Hook, func(), error) {
	to := place{roots: x509.NewCertPool()}
	to.roots.AppendCertsFromPEM(ca)
	h, err := unregistered(at, mutates, to)
	if err == nil {
		err = h.addSamples(ctx, samples, false)
	}
	if err != nil {
		return nil, nil, err
	}
	return &h.Hook, h.close, nil
}

// hooksOf returns the webhooks of the configurations among documents.
func hooksOf(documents []requests.Document, to place) (all []*registered, err error) {
	for _, d := range documents {
		if d.Err != nil {
			return nil, d.Err
		}
		var object map[string]any
		if err := json.Unmarshal(d.JSON, &object); err != nil {
			return nil, err
		}
		kind := text(object, "kind")
		if kind != "MutatingWebhookConfiguration" && kind != "ValidatingWebhookConfiguration" {
			continue
		}
		webhooks, _ := object["webhooks"].([]any)
		for _, w := range webhooks {
			hook, err := hookOf(object, w, to)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", kind, text(at(object, "metadata"), "name"), err)
			}
			all = append(all, hook)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no webhook configuration: want a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration")
	}
	return all, nil
}

// hookOf returns one webhook of a configuration. A caBundle that is a placeholder is left out.
func hookOf(configuration map[string]any, webhook any, to place) (*registered, error) {
	w, is := webhook.(map[string]any)
	if !is {
		return nil, errors.New("webhooks: want a list of objects")
	}
	client := at(w, "clientConfig")
	if _, err := base64.StdEncoding.DecodeString(text(client, "caBundle")); err != nil {
		delete(client, "caBundle")
	}
	raw, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	var typed admissionregistrationv1.MutatingWebhook // a ValidatingWebhook has the same fields but one
	if err := json.Unmarshal(raw, &typed); err != nil {
		return nil, fmt.Errorf("webhook %s: %w", text(w, "name"), err)
	}
	kind := text(configuration, "kind")
	alone := &unstructured.Unstructured{Object: map[string]any{"apiVersion": configuration["apiVersion"], "kind": kind,
		"metadata": map[string]any{"name": text(at(configuration, "metadata"), "name")}, "webhooks": []any{webhook}}}
	hook := &registered{configuration: alone, namespaces: typed.NamespaceSelector, objects: typed.ObjectSelector, Hook: Hook{
		Name: typed.Name, Configuration: kind + " " + alone.GetName(), Mutates: kind == "MutatingWebhookConfiguration",
		Timeout: time.Duration(ptr.Deref(typed.TimeoutSeconds, 10)) * time.Second, Versions: typed.AdmissionReviewVersions,
		FailurePolicy: string(ptr.Deref(typed.FailurePolicy, admissionregistrationv1.Fail)),
		SideEffects:   string(ptr.Deref(typed.SideEffects, admissionregistrationv1.SideEffectClassUnknown))}}
	return hook, hook.locate(typed.ClientConfig, to)
}

// locate sets where the requests are sent, and what the certificate must be.
func (h *registered) locate(c admissionregistrationv1.WebhookClientConfig, to place) error {
	h.Roots = to.roots
	if h.Roots == nil && len(c.CABundle) > 0 {
		h.Roots = x509.NewCertPool()
		h.Roots.AppendCertsFromPEM(c.CABundle)
	}
	path := ""
	switch {
	case c.Service != nil:
		h.ServerName, path = c.Service.Name+"."+c.Service.Namespace+".svc", ptr.Deref(c.Service.Path, "/")
		if to.address == "" {
			return fmt.Errorf("webhook %s: it is behind a Service, which only the cluster reaches; forward a port, and pass its address:\n"+
				"  kubectl port-forward -n %s service/%s 8443:%d\n  --address https://127.0.0.1:8443", h.Name,
				c.Service.Namespace, c.Service.Name, ptr.Deref(c.Service.Port, 443))
		}
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			return fmt.Errorf("webhook %s: %w", h.Name, err)
		}
		h.ServerName, path, h.URL = u.Hostname(), u.RequestURI(), *c.URL
	default:
		return fmt.Errorf("webhook %s: clientConfig has neither service nor url", h.Name)
	}
	if to.address != "" {
		h.URL = strings.TrimSuffix(to.address, "/") + path
	}
	if to.serverName != "" {
		h.ServerName = to.serverName
	}
	return nil
}
