package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/spec3"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// client is what admission plug-ins have of the API: the objects of a cluster, and discovery.
type client struct {
	kubernetes.Interface
	discovery discoveries
}

// newClient returns a client of objects. It writes nothing: the status of a ResourceQuota, say, stays as it is.
func newClient(objects []runtime.Object, served []*metav1.APIResourceList) client {
	clientset := fake.NewSimpleClientset(objects...)
	clientset.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated := action.(clienttesting.UpdateAction).GetObject().(metav1.Object)
		as, err := clientset.Tracker().Get(action.GetResource(), action.GetNamespace(), updated.GetName())
		return true, as, err
	})
	found := clientset.Discovery().(*fakediscovery.FakeDiscovery)
	found.Resources = served
	return client{clientset, discoveries{found}}
}

// Discovery implements kubernetes.Interface.
func (c client) Discovery() discovery.DiscoveryInterfaces { return c.discovery }

// IsWatchListSemanticsUnSupported tells informers to list before they watch.
func (client) IsWatchListSemanticsUnSupported() bool { return true }

type discoveries struct{ *fakediscovery.FakeDiscovery }

// OpenAPIV3 implements discovery.DiscoveryInterface. MutatingAdmissionPolicies ask it for the schemas of what they change.
func (discoveries) OpenAPIV3() openapi.Client { return schemas{} }

type schemas struct{}

// Paths implements openapi.Client.
func (schemas) Paths() (map[string]openapi.GroupVersion, error) {
	paths := map[string]openapi.GroupVersion{}
	for _, version := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		paths[strings.TrimPrefix(root(version.Group)+"/"+version.String(), "/")] = versionSchemas(version)
	}
	return paths, nil
}

// PathsWithContext implements openapi.Client.
func (s schemas) PathsWithContext(context.Context) (map[string]openapi.GroupVersionWithContext, error) {
	all, err := s.Paths()
	paths := map[string]openapi.GroupVersionWithContext{}
	for path, of := range all {
		paths[path] = of.(versionSchemas)
	}
	return paths, err
}

type versionSchemas schema.GroupVersion

// ServerRelativeURL implements openapi.GroupVersion.
func (v versionSchemas) ServerRelativeURL() string { return schema.GroupVersion(v).String() }

// ServerRelativeURLWithContext implements openapi.GroupVersionWithContext.
func (v versionSchemas) ServerRelativeURLWithContext(context.Context) string {
	return v.ServerRelativeURL()
}

// SchemaWithContext implements openapi.GroupVersionWithContext.
func (v versionSchemas) SchemaWithContext(_ context.Context, contentType string) ([]byte, error) {
	return v.Schema(contentType)
}

// Schema implements openapi.GroupVersion.
func (v versionSchemas) Schema(string) ([]byte, error) {
	config := genericapiserver.DefaultOpenAPIV3Config(utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions),
		openapinamer.NewDefinitionNamer(legacyscheme.Scheme))
	var names []string
	for kind := range legacyscheme.Scheme.KnownTypes(schema.GroupVersion(v)) {
		object, err := legacyscheme.Scheme.New(schema.GroupVersion(v).WithKind(kind))
		if err != nil {
			return nil, err
		}
		if name := openapiutil.GetCanonicalTypeName(object); strings.HasPrefix(name, "k8s.io/api/") || strings.HasPrefix(name, "io.k8s.api.") {
			names = append(names, name)
		}
	}
	made, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		return nil, err
	}
	return json.Marshal(spec3.OpenAPI{Components: &spec3.Components{Schemas: made}})
}

// loopback returns the client configuration by which registries ask the API server itself: in the process, about the cluster of the
// request that they serve. Whatever else they would call does not answer.
func loopback() *rest.Config {
	return &rest.Config{Host: "https://" + loopbackHost, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		asked, has := r.Context().Value(requestKey{}).(*asked)
		if !has || r.URL.Host != loopbackHost || r.Method != http.MethodGet {
			return nil, errors.New("the engine has no network")
		}
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			return nil, err
		}
		answer := httptest.NewRecorder()
		asked.engine.handler(info).ServeHTTP(answer, r.WithContext(request.WithRequestInfo(r.Context(), info)))
		return answer.Result(), nil
	})}
}

const loopbackHost = "apiserver.invalid"

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
