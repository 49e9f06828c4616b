package quota

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/e2e/kubetest"
)

// frontDoor is a proxy in front of the replicas. A Service chooses a replica for each connection, and the API server
// uses one connection for all its calls. frontDoor sends each review to another replica, so that they compete for the
// quotas as often as possible. It also serves another webhook, which refuses pods, and it can drop answers.
type frontDoor struct {
	URL    string
	caFile string

	server *httptest.Server
	house  atomic.Pointer[house]

	// The percentage of answers about new pods that are dropped, as when a replica is killed between its write and its
	// answer.
	lost atomic.Int32
	// The percentage of new pods that the other webhook refuses.
	refused atomic.Int32
	// instead, if set, replaces usher for reviews of new pods.
	instead atomic.Pointer[func(context.Context, *admissionv1.AdmissionRequest) error]
	// review is called with the reviews of the other webhook.
	review atomic.Pointer[func(*admissionv1.AdmissionRequest)]

	// slowest is the longest time that a replica took for a review of a pod.
	slowest longest

	lostCount, refusedCount atomic.Int64
}

// house is an usher and its HTTP client. Only its first replicas get reviews.
type house struct {
	usher  *kubetest.Usher
	first  int
	client *http.Client
}

// lead sends all reviews to another usher from now on.
func (f *frontDoor) lead(u *kubetest.Usher) error { return f.leadToFirst(u, len(u.Replicas)) }

// leadToFirst sends all reviews to the first n replicas of an usher from now on.
func (f *frontDoor) leadToFirst(u *kubetest.Usher, n int) error {
	ca, err := os.ReadFile(u.CAFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	f.house.Store(&house{u, n, &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "usher.usher.svc"}, ForceAttemptHTTP2: true}}})
	return nil
}

func openFront(u *kubetest.Usher) (*frontDoor, error) {
	f := &frontDoor{}
	if err := f.lead(u); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", f.pass)
	mux.HandleFunc("/other", f.other)
	f.server = httptest.NewUnstartedServer(mux)
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0) // a killed API server closes its connections
	f.server.StartTLS()
	f.URL, f.caFile = f.server.URL, filepath.Join(filepath.Dir(u.CAFile), "front.crt")
	return f, os.WriteFile(f.caFile, f.certificate(), 0o600)
}

func (f *frontDoor) certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// calm stops dropping answers and refusing pods.
func (f *frontDoor) calm() {
	f.lost.Store(0)
	f.refused.Store(0)
}

// pass forwards a review to a replica.
func (f *frontDoor) pass(w http.ResponseWriter, r *http.Request) {
	review, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if instead := f.instead.Load(); instead != nil && r.URL.Path == "/validate-pod" {
		f.answer(w, review, func(asked *admissionv1.AdmissionRequest) error { return (*instead)(r.Context(), asked) })
		return
	}
	began := time.Now()
	answer, err := f.ask(r, review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if r.URL.Path == "/validate-pod" {
		f.slowest.note(time.Since(began))
	}
	if r.URL.Path == "/validate-pod" && rand.Int32N(100) < f.lost.Load() {
		f.lostCount.Add(1)
		http.Error(w, "lost", http.StatusBadGateway)
		return
	}
	for _, header := range []string{"Content-Type", "Retry-After"} {
		if value := answer.Header.Get(header); value != "" {
			w.Header().Set(header, value)
		}
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body)
}

// ask sends a review to any available replica.
func (f *frontDoor) ask(r *http.Request, review []byte) (*http.Response, error) {
	to := f.house.Load()
	first := rand.IntN(to.first)
	for i := range to.first {
		one := (first + i) % to.first
		if !to.usher.Balancer.IsReady(one) {
			continue
		}
		request, err := http.NewRequestWithContext(r.Context(), r.Method, "https://"+to.usher.Replicas[one].Reviews()+r.URL.String(), bytes.NewReader(review))
		if err != nil {
			return nil, err
		}
		request.Header = r.Header.Clone()
		return to.client.Do(request)
	}
	return nil, errors.New("no replica is ready")
}

// other is the other webhook. It refuses pods that usher may have admitted at the same time.
func (f *frontDoor) other(w http.ResponseWriter, r *http.Request) {
	review, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.answer(w, review, func(asked *admissionv1.AdmissionRequest) error {
		if see := f.review.Load(); see != nil {
			(*see)(asked)
		}
		if rand.Int32N(100) < f.refused.Load() {
			f.refusedCount.Add(1)
			return errors.New("not today")
		}
		return nil
	})
}

// answer answers a review; an error refuses.
func (f *frontDoor) answer(w http.ResponseWriter, text []byte, decide func(*admissionv1.AdmissionRequest) error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if err := decide(review.Request); err != nil {
		review.Response.Allowed, review.Response.Result = false, &metav1.Status{Code: http.StatusForbidden, Message: err.Error()}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// otherWebhook is the configuration of the other webhook, for namespaces with the label other-webhook.
func (f *frontDoor) otherWebhook() kubetest.Object {
	return kubetest.Object{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
		"metadata": kubetest.Object{"name": "zz-other"},
		"webhooks": []kubetest.Object{{
			"name": "other.example.com", "clientConfig": kubetest.Object{"url": f.URL + "/other", "caBundle": f.certificate()},
			"rules":             []kubetest.Object{{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"pods"}}},
			"namespaceSelector": kubetest.Object{"matchLabels": kubetest.Object{"other-webhook": "yes"}},
			"sideEffects":       "None", "admissionReviewVersions": []string{"v1"}, "failurePolicy": "Fail",
		}}}
}
