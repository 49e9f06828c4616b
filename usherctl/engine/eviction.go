package engine

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod/storage"
)

// evictions is the storage of pods/eviction. It asks the API server for PodDisruptionBudgets, without the context of the request from
// which the engine knows the cluster: each eviction has a storage of its own, whose client has that context.
type evictions struct {
	*podstorage.EvictionREST
	getter getter
}

// Create implements rest.NamedCreater.
func (e evictions) Create(ctx context.Context, name string, eviction runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	config := loopback()
	transport := config.Transport
	config.Transport = roundTripper(func(r *http.Request) (*http.Response, error) { return transport.RoundTrip(r.WithContext(ctx)) })
	client, err := policyclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	pods, err := podstorage.NewStorage(e.getter, nil, nil, client, authorizerfactory.NewAlwaysAllowAuthorizer())
	if err != nil {
		return nil, err
	}
	return pods.Eviction.Create(ctx, name, eviction, validate, options)
}
