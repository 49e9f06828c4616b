package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// ErrNoAnswer is the error of a Webhook that does not know an answer.
var ErrNoAnswer = errors.New("its answer is not known")

// register changes a webhook configuration so that the API server's plug-ins call its webhooks by hosts from which the engine knows
// which one is called: two may have the same Service and path. It returns the hosts, each followed by the true one.
func (e *Engine) register(object runtime.Object) (hosts []string) {
	switch configuration := object.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			hosts = append(hosts, e.address(&w.ClientConfig, &w.TimeoutSeconds, Registered{configuration.Name, w.Name, "", true})...)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			hosts = append(hosts, e.address(&w.ClientConfig, &w.TimeoutSeconds, Registered{configuration.Name, w.Name, "", false})...)
		}
	}
	return hosts
}

// longest is the timeout of webhooks in seconds: on a busy machine, one in the process might not be called in time. Texts have theirs.
const longest = 30

func (e *Engine) address(c *admissionregistrationv1.WebhookClientConfig, seconds **int32, w Registered) []string {
	original := "https://"
	if c.Service != nil {
		w.Path = ptr.Deref(c.Service.Path, "/")
		original += c.Service.Name + "." + c.Service.Namespace + ".svc:" + strconv.Itoa(int(ptr.Deref(c.Service.Port, 443)))
	} else if at, err := url.Parse(ptr.Deref(c.URL, "")); err == nil {
		w.Path, original = at.Path, at.Scheme+"://"+at.Host
	}
	host := "https://" + strconv.Itoa(len(e.registered)) + webhookHost
	e.registered = append(e.registered, w)
	*c = admissionregistrationv1.WebhookClientConfig{URL: ptr.To(host + w.Path)}
	at, timeout := host+path.Join("/", w.Path)+"?timeout=", strconv.Itoa(int(ptr.Deref(*seconds, 10)))+"s"
	*seconds = ptr.To[int32](longest)
	return []string{at + strconv.Itoa(longest) + "s", original + path.Join("/", w.Path) + "?timeout=" + timeout, host, original}
}

// webhookHost is the end of the names of hosts by which webhooks are called, after their index.
const webhookHost = ".webhook.invalid"

// inProcess lets the API server's plug-ins call webhooks in the process.
func inProcess(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	return &webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(string) (*rest.Config, error) {
			return &rest.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return roundTripper(callWebhook) }}, nil
		},
	}
}

// callWebhook answers the call of a webhook for the request of its context.
func callWebhook(r *http.Request) (*http.Response, error) {
	asked := requestFrom(r.Context())
	index, err := strconv.Atoi(strings.TrimSuffix(r.URL.Hostname(), webhookHost))
	if err != nil {
		return nil, err
	}
	review, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	call := Call{Registered: asked.engine.registered[index], Review: review}
	started := time.Now()
	answer, err := asked.engine.answer(r.Context(), call.Registered, review)
	call.Took, call.Code, call.Response, call.Err = time.Since(started), answer.Code, answer.Body, err
	asked.called(index, call)
	if errors.Is(err, ErrNoAnswer) {
		answer.Body, err = allowing(review)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: answer.Code, Status: http.StatusText(answer.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(answer.Body)),
		ContentLength: int64(len(answer.Body))}, nil
}

func (e *Engine) answer(ctx context.Context, w Registered, review []byte) (Answer, error) {
	if e.webhook == nil {
		return Answer{Code: http.StatusOK}, ErrNoAnswer
	}
	answer, err := e.webhook(ctx, w, review)
	answer.Code = cmp.Or(answer.Code, http.StatusOK)
	return answer, err
}

// allowing returns the answer that allows a review.
func allowing(review []byte) ([]byte, error) {
	var asked admissionv1.AdmissionReview // v1beta1 has the same fields
	if err := json.Unmarshal(review, &asked); err != nil {
		return nil, err
	}
	asked.Response = &admissionv1.AdmissionResponse{UID: asked.Request.UID, Allowed: true}
	asked.Request = nil
	return json.Marshal(asked)
}
