package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// pause is the time between two questions.
const pause = 500 * time.Millisecond

// Await waits until the API server can reach a replica: until the Service has a ready endpoint and, if there is a
// Deployment of its name, this has been rolled out, so that no older replica is called for what it does not serve. It
// calls say with what it waits for, when that changes.
func (r Registrar) Await(ctx context.Context, wait time.Duration, say func(string)) error {
	ready := r.serviceReady
	if r.At.URL != "" {
		ready = r.urlReady
	}
	return until(ctx, wait, func() (string, error) { return ready(ctx) }, say)
}

// until calls ask until nothing is missing, and say with what is missing, when that changes. say may be nil.
func until(ctx context.Context, wait time.Duration, ask func() (string, error), say func(string)) error {
	end := time.Now().Add(wait)
	for last := ""; ; {
		missing, err := ask()
		if err != nil || missing == "" {
			return err
		}
		if !time.Now().Add(pause).Before(end) {
			return fmt.Errorf("%s, after waiting for %s", missing, wait)
		}
		if say != nil && missing != last {
			say("waiting: " + missing)
		}
		last = missing
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// serviceReady returns what is missing until the Service leads to usher, or "".
func (r Registrar) serviceReady(ctx context.Context) (missing string, err error) {
	if missing, err = r.rolledOut(ctx); missing != "" || err != nil {
		return missing, err
	}
	raw, err := r.Client.Get(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+r.At.Namespace+"/endpointslices")
	if err != nil {
		return "", explained(err)
	}
	var slices discoveryv1.EndpointSliceList
	if err := json.Unmarshal(raw, &slices); err != nil {
		return "", fmt.Errorf("the EndpointSlices of %s: %w", r.At.Namespace, err)
	}
	known := 0
	for _, slice := range slices.Items {
		if slice.Labels[discoveryv1.LabelServiceName] != r.At.Service {
			continue
		}
		for _, e := range slice.Endpoints {
			if known++; e.Conditions.Ready == nil || *e.Conditions.Ready {
				return "", nil
			}
		}
	}
	return fmt.Sprintf("no replica behind the Service %s/%s is ready (of %d): see kubectl -n %[1]s get pods",
		r.At.Namespace, r.At.Service, known), nil
}

// rolledOut returns what is missing until the Deployment of the Service's name is rolled out, or "". It need not exist,
// nor be readable.
func (r Registrar) rolledOut(ctx context.Context) (missing string, err error) {
	raw, err := r.Client.Get(ctx, "/apis/apps/v1/namespaces/"+r.At.Namespace+"/deployments/"+r.At.Service)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var d appsv1.Deployment
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", fmt.Errorf("the Deployment %s/%s: %w", r.At.Namespace, r.At.Service, err)
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas || s.AvailableReplicas < want {
		return fmt.Sprintf("the Deployment %s/%s is being rolled out, %d of %d replicas are up to date: "+
			"see kubectl -n %[1]s rollout status deployment/%[2]s", r.At.Namespace, r.At.Service, s.UpdatedReplicas, want), nil
	}
	return "", nil
}

// urlReady returns what is missing until the URL leads to usher, or "".
func (r Registrar) urlReady(ctx context.Context) (missing string, err error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	bundle, err := r.bundleOfURL(ctx)
	if err != nil {
		return "", err
	}
	if len(bundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(bundle)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.At.URL+"/healthz", nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Sprintf("usher does not answer: %v", err), nil
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s/healthz answers %s", r.At.URL, answer.Status), nil
	}
	return "", nil
}

// bundleOfURL returns the caBundle by which the API server verifies what it calls by a URL: the flag's, or what is registered.
func (r Registrar) bundleOfURL(ctx context.Context) (bundle []byte, err error) {
	if len(r.At.CABundle) > 0 {
		return r.At.CABundle, nil
	}
	registered, err := r.registered(ctx)
	for _, c := range registered {
		for _, w := range c.ours() {
			if w.ClientConfig.URL != nil {
				bundle = append(bundle, w.ClientConfig.CABundle...)
			}
		}
	}
	return bundle, err
}
