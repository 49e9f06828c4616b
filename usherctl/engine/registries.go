package engine

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/test/bufconn"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	autoscalingrest "k8s.io/kubernetes/pkg/registry/autoscaling/rest"
	batchrest "k8s.io/kubernetes/pkg/registry/batch/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	resourcerest "k8s.io/kubernetes/pkg/registry/resource/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"
	storagemigrationrest "k8s.io/kubernetes/pkg/registry/storagemigration/rest"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"usher.dev/usher/usherctl/engine/memetcd"
)

// maxBody is the size of a request that the API server accepts.
const maxBody = 3 << 20

// provider makes the storages of an API group, as kube-apiserver does.
type provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// kind is a kind that an API server stores.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// registries are the API server's storages of all kinds of Kubernetes, and its handlers on top of them. They are the same for all
// clusters: a request's context has the cluster.
type registries struct {
	kinds  map[schema.GroupVersionKind]kind
	groups map[schema.GroupVersion]*group
	// equivalents are the resources with the same objects, by which webhooks with matchPolicy Equivalent are called.
	equivalents runtime.EquivalentResourceRegistry

	addresses sync.Once // waits for the allocator of addresses
}

// group is a version of an API group. Its handlers are made for the first request.
type group struct {
	info        *genericapiserver.APIGroupInfo
	version     schema.GroupVersion
	equivalents runtime.EquivalentResourceRegistry
	handler     func() (http.Handler, error)
}

// loaded returns the registries. They take 100 ms, and share tables of the process in any case: schemes, feature gates.
var loaded = sync.OnceValues(newRegistries)

func newRegistries() (*registries, error) {
	capabilities.Setup(true, 0)    // privileged pods are what Pod Security decides about
	klog.SetLogger(logr.Discard()) // the API server's own log is no concern of a tool's user
	factory, err := storageFactory()
	if err != nil {
		return nil, err
	}
	providers, err := newProviders(factory)
	if err != nil {
		return nil, err
	}
	r := &registries{kinds: map[schema.GroupVersionKind]kind{}, groups: map[schema.GroupVersion]*group{},
		equivalents: runtime.NewEquivalentResourceRegistryWithIdentity(factory.ResourcePrefix)}
	for _, p := range providers {
		info, err := p.NewRESTStorage(controlplane.DefaultAPIResourceConfigSource(), getter(factory.NewConfig))
		if err != nil {
			return nil, fmt.Errorf("API group %q: %w", p.GroupName(), err)
		}
		if eviction, is := info.VersionedResourcesStorageMap["v1"]["pods/eviction"].(*podstorage.EvictionREST); is {
			info.VersionedResourcesStorageMap["v1"]["pods/eviction"] = evictions{eviction, factory.NewConfig}
		}
		if err := r.add(&info); err != nil {
			return nil, err
		}
	}
	return r, r.addExtensions()
}

// storageFactory returns how kube-apiserver stores each kind. Nothing is stored; only the allocator of node ports insists on an etcd,
// which it has in memory and reaches without a socket.
func storageFactory() (*serverstorage.DefaultStorageFactory, error) {
	listener := bufconn.Listen(1 << 16)
	memetcd.Serve(listener)
	etcd := serveroptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	etcd.StorageConfig.Transport.ServerList = []string{"http://etcd.invalid:2379"}
	etcd.StorageConfig.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) }, nil
	}
	etcd.DefaultStorageMediaType = runtime.ContentTypeProtobuf // an answer has been encoded so, and decoded: [] is null then
	config := kubeapiserver.NewStorageFactoryConfig()
	config.APIResourceConfig = controlplane.DefaultAPIResourceConfigSource()
	return config.Complete(etcd).New()
}

func newProviders(factory *serverstorage.DefaultStorageFactory) ([]provider, error) {
	client, err := kubernetes.NewForConfig(loopback())
	if err != nil {
		return nil, err
	}
	_, addresses, err := net.ParseCIDR(serviceAddresses)
	if err != nil {
		return nil, err
	}
	tokens, err := newTokens()
	if err != nil {
		return nil, err
	}
	allow, f := authorizerfactory.NewAlwaysAllowAuthorizer(), serviceInformers()
	core, err := corerest.New(corerest.Config{
		GenericConfig: corerest.GenericConfig{StorageFactory: factory, EventTTL: time.Hour, LoopbackClientConfig: loopback(), Informers: f,
			ServiceAccountIssuer: tokens, APIAudiences: authenticator.Audiences{issuer}, ExtendExpiration: true,
			MaxExtendedExpiration: serviceaccount.ExpirationExtensionSeconds * time.Second},
		Proxy: corerest.ProxyConfig{Transport: loopback().Transport,
			KubeletClientConfig: kubeletclient.KubeletClientConfig{Port: 10250, PreferredAddressTypes: []string{"Hostname"}}},
		Services: corerest.ServicesConfig{ClusterIPRange: *addresses, NodePortRange: utilnet.PortRange{Base: 30000, Size: 2768},
			IPRepairInterval: time.Hour},
		Authorizer: allow,
	}, allow)
	f.Start(nil)
	f.WaitForCacheSync(nil)
	return []provider{
		core,
		autoscalingrest.RESTStorageProvider{}, batchrest.RESTStorageProvider{}, certificatesrest.RESTStorageProvider{Authorizer: allow},
		coordinationrest.RESTStorageProvider{}, discoveryrest.StorageProvider{}, networkingrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{}, policyrest.RESTStorageProvider{}, rbacrest.RESTStorageProvider{Authorizer: allow},
		schedulingrest.RESTStorageProvider{}, storagerest.RESTStorageProvider{}, flowcontrolrest.RESTStorageProvider{InformerFactory: f},
		storagemigrationrest.RESTStorageProvider{}, appsrest.StorageProvider{}, eventsrest.RESTStorageProvider{TTL: time.Hour},
		admissionregistrationrest.RESTStorageProvider{Authorizer: allow, DiscoveryClient: client.Discovery()},
		resourcerest.RESTStorageProvider{NamespaceClient: client.CoreV1().Namespaces(), Authorizer: allow},
	}, err
}

// newTokens returns what makes the tokens of ServiceAccounts. Nobody trusts its key.
func newTokens() (serviceaccount.TokenGenerator, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return serviceaccount.JWTTokenGenerator(issuer, key)
}

// issuer is that of the tokens of ServiceAccounts in most clusters, and the audience of those that name none.
const issuer = "https://kubernetes.default.svc"

// serviceAddresses are those that Services may have: which ones a cluster has is seldom in a file.
const serviceAddresses = "0.0.0.0/0"

// serviceInformers return what the allocator of the addresses of Services looks at.
func serviceInformers() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(newClient([]runtime.Object{&networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{serviceAddresses}},
		Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady,
			Status: metav1.ConditionTrue}}},
	}}, nil), 0)
}

// add adds the kinds of an API group.
func (r *registries) add(info *genericapiserver.APIGroupInfo) error {
	for _, gv := range info.PrioritizedVersions {
		storages := info.VersionedResourcesStorageMap[gv.Version]
		if storages == nil {
			continue
		}
		g := &group{info: info, version: gv, equivalents: r.equivalents}
		g.handler = sync.OnceValues(g.install)
		r.groups[gv] = g
		for name, storage := range storages {
			k, err := endpoints.GetResourceKind(gv, storage, info.Scheme)
			if err != nil {
				return err
			}
			resource, subresource, _ := strings.Cut(name, "/")
			r.equivalents.RegisterKindFor(gv.WithResource(resource), subresource, k)
			scoper, scoped := storage.(rest.Scoper)
			if !scoped || subresource != "" {
				continue
			}
			r.kinds[k] = kind{gv.WithResource(name), scoper.NamespaceScoped()}
		}
	}
	return nil
}

// install returns the API server's handlers of a version of a group.
func (g *group) install() (http.Handler, error) {
	served := map[string][]string{}
	for version, storages := range g.info.VersionedResourcesStorageMap {
		for resource := range storages {
			served[resource] = append(served[resource], strings.TrimPrefix(g.version.Group+"/"+version, "/"))
		}
	}
	scheme := g.info.Scheme
	version := &endpoints.APIGroupVersion{
		Storage: g.info.VersionedResourcesStorageMap[g.version.Version], Root: root(g.version.Group), GroupVersion: g.version,
		AllServedVersionsByResource: served, MetaGroupVersion: g.info.MetaGroupVersion, OptionsExternalVersion: g.info.OptionsExternalVersion,
		ParameterCodec: g.info.ParameterCodec, Serializer: g.info.NegotiatedSerializer,
		Creater: scheme, Convertor: scheme, ConvertabilityChecker: scheme, Defaulter: scheme, Typer: scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme), Namer: runtime.Namer(meta.NewAccessor()),
		TypeConverter: managedfields.NewDeducedTypeConverter(), EquivalentResourceRegistry: g.equivalents,
		Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Admit: chained{}, MinRequestTimeout: time.Minute,
		MaxRequestBodyBytes: maxBody,
	}
	container := restful.NewContainer()
	container.ServeMux = http.NewServeMux()
	container.Router(restful.CurlyRouter{})
	container.ServiceErrorHandler(noRoute)
	_, _, err := version.InstallREST(container)
	return container, err
}

// noRoute answers a request for which there is no handler, a PUT without a name, as the API server does.
func noRoute(e restful.ServiceError, r *restful.Request, w *restful.Response) {
	status := apierrors.NewGenericServerResponse(e.Code, "", schema.GroupResource{}, "", e.Message, 0, false)
	responsewriters.ErrorNegotiated(status, legacyscheme.Codecs, schema.GroupVersion{}, w, r.Request)
}

func root(group string) string {
	if group == "" {
		return "/api"
	}
	return "/apis"
}

// served returns the kinds, with custom ones, as discovery tells them.
func (r *registries) served(custom map[schema.GroupVersionKind]kind) (lists []*metav1.APIResourceList) {
	of, all := map[schema.GroupVersion]*metav1.APIResourceList{}, maps.Clone(r.kinds)
	maps.Copy(all, custom)
	for k, is := range all {
		list := of[k.GroupVersion()]
		if list == nil {
			list = &metav1.APIResourceList{GroupVersion: k.GroupVersion().String()}
			of[k.GroupVersion()] = list
			lists = append(lists, list)
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: is.resource.Resource, Kind: k.Kind, Namespaced: is.namespaced,
			Verbs: metav1.Verbs{"create", "update", "delete", "get", "list", "watch"}})
	}
	return lists
}
