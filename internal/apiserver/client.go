// Package apiserver reads and writes single objects of an API server, as JSON, and says how the API server is reached.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadConfig returns the configuration to reach the API server with: from a kubeconfig file and one of its contexts (by
// default its current one) or, if kubeconfig is empty, from where kubectl would take it, or from the pod's service
// account. The error for neither of them names no flag and no environment variable: callers say which flag they have.
func LoadConfig(kubeconfig, context string) (*rest.Config, error) {
	config, err := load(kubeconfig, context).ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // client-go names the variable KUBERNETES_MASTER, which has no effect here
		return nil, errors.New("found neither a kubeconfig file nor the token of a service account")
	}
	return config, err
}

// Namespace returns the namespace that kubectl would use: that of the current context of a kubeconfig file, or of the pod; else
// default.
func Namespace(kubeconfig string) (string, error) {
	namespace, _, err := load(kubeconfig, "").Namespace()
	return namespace, err
}

func load(kubeconfig, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// NewREST returns a client that decodes only errors, and whose requests have no time limit but their context's.
func NewREST(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // unlimited: a few watches and polls, which back off on their own
	config.Timeout = 0
	if config.UserAgent == "" {
		config.UserAgent = "usher"
	}
	return rest.UnversionedRESTClientFor(config)
}

// Client reads and writes single objects of one API server. It is safe for concurrent use. Paths are paths of the API,
// such as "/api/v1/namespaces/usher/secrets/usher-tls". Errors are the API server's, *apierrors.StatusError, or the
// connection's; after the latter, a write may or may not have happened. A request takes at most 10 s.
type Client struct {
	rest  rest.Interface
	clock *clock
}

// timeLimit bounds a request: the API server answers a request for a single object at once, or not at all.
const timeLimit = 10 * time.Second

// admissionLimit bounds a request that webhooks are called for: the API server gives up after 34 s.
const admissionLimit = 35 * time.Second

// New returns a client.
func New(config *rest.Config) (Client, error) {
	clock := &clock{}
	config = rest.CopyConfig(config)
	config.Wrap(clock.reading)
	client, err := NewREST(config)
	if err != nil {
		return Client{}, fmt.Errorf("API server: %w", err)
	}
	return Client{client, clock}, nil
}

// Get returns an object, as it is in etcd.
func (c Client) Get(ctx context.Context, path string) ([]byte, error) {
	return do(ctx, c.rest.Get().AbsPath(path))
}

// Query is Get with the parameters of a query, such as the limit of a list.
func (c Client) Query(ctx context.Context, path string, parameters map[string]string) ([]byte, error) {
	request := c.rest.Get().AbsPath(path)
	for name, value := range parameters {
		request = request.Param(name, value)
	}
	return do(ctx, request)
}

// Create creates an object in the collection at path, or posts a review, such as a TokenReview, and returns the result.
func (c Client) Create(ctx context.Context, path string, object []byte) ([]byte, error) {
	return do(ctx, c.rest.Post().AbsPath(path).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(object))
}

// DryCreate is Create as a dry run: admission judges the object, and nothing is stored. It returns the warnings, also with an error.
// Webhooks may take their time, so that it waits as long as an API server waits for them.
func (c Client) DryCreate(ctx context.Context, path string, object []byte) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, admissionLimit)
	defer cancel()
	request := c.rest.Post().AbsPath(path).SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON)
	result := request.Param("dryRun", "All").Body(object).Do(ctx)
	for _, w := range result.Warnings() {
		warnings = append(warnings, w.Text)
	}
	return warnings, result.Error()
}

// Update replaces an object. If the object has a resourceVersion, only that version is replaced; otherwise the error is
// a conflict. Manager identifies the writer in managedFields.
func (c Client) Update(ctx context.Context, path, manager string, object []byte) ([]byte, error) {
	request := c.rest.Put().AbsPath(path).SetHeader("Content-Type", runtime.ContentTypeJSON)
	return do(ctx, request.Param("fieldManager", manager).Body(object))
}

// Apply is a server-side apply: it sets the fields of object, removes those that manager set before and object lacks,
// and leaves all others as they are. If force is set, it takes fields over from other managers; otherwise the error is
// a conflict. If the object has a resourceVersion, only that version is changed. An object that does not exist is
// created, for which RBAC checks the verb create with the object's name. It returns the result.
func (c Client) Apply(ctx context.Context, path, manager string, force bool, object []byte) ([]byte, error) {
	return do(ctx, c.apply(path, manager, force, object))
}

// DryApply is Apply as a dry run: it returns what the result would be.
func (c Client) DryApply(ctx context.Context, path, manager string, force bool, object []byte) ([]byte, error) {
	return do(ctx, c.apply(path, manager, force, object).Param("dryRun", "All"))
}

func (c Client) apply(path, manager string, force bool, object []byte) *rest.Request {
	return c.rest.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", manager).Param("force", fmt.Sprint(force)).Body(object)
}

// Delete deletes an object.
func (c Client) Delete(ctx context.Context, path string) error {
	_, err := do(ctx, c.rest.Delete().AbsPath(path))
	return err
}

// do sends a request. A query in an absolute path would be escaped, so there is none. Error, unlike Raw, returns what the API
// server says in a refusal.
func do(ctx context.Context, request *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	result := request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// Now returns the time by the API server's clock, by which it checks certificates: the time of its last answer, plus
// the time since. Before the first answer it is the time of this machine.
func (c Client) Now() time.Time { return c.clock.now() }

// clock is another machine's clock, to the second.
type clock struct {
	last atomic.Pointer[reading]
}

// reading is a time that was read, and when, by the local clock including its monotonic part.
type reading struct {
	read, at time.Time
}

func (c *clock) now() time.Time {
	last := c.last.Load()
	if last == nil {
		return time.Now()
	}
	return last.read.Add(time.Since(last.at))
}

// reading reads the clock from the header Date of every answer.
func (c *clock) reading(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err != nil {
			return answer, err
		}
		if date, err := http.ParseTime(strings.TrimSpace(answer.Header.Get("Date"))); err == nil {
			c.last.Store(&reading{date, time.Now()})
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
