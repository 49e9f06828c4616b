package engine

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/webhook"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservice "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"
)

var definitionKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// addExtensions adds CustomResourceDefinitions and APIServices, which servers of their own have inside kube-apiserver.
func (r *registries) addExtensions() error {
	storage, err := customresourcedefinition.NewREST(apiserver.Scheme, inCodec(apiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)))
	if err != nil {
		return err
	}
	definitions := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, apiserver.Scheme, metav1.ParameterCodec, apiserver.Codecs)
	definitions.VersionedResourcesStorageMap["v1"] = map[string]rest.Storage{"customresourcedefinitions": storage,
		"customresourcedefinitions/status": customresourcedefinition.NewStatusREST(apiserver.Scheme, storage)}
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(apiregistrationv1.SchemeGroupVersion)
	services := apiservice.NewRESTStorage(enabled, inCodec(aggregatorscheme.Codecs.LegacyCodec(apiregistrationv1.SchemeGroupVersion)), false)
	for _, info := range []*genericapiserver.APIGroupInfo{&definitions, &services} {
		if err := r.add(info); err != nil {
			return err
		}
	}
	return nil
}

// establish returns a CustomResourceDefinition of a file with the status that an API server gives it, and its kinds.
func establish(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, map[schema.GroupVersionKind]kind, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return nil, nil, err
	}
	apiserver.Scheme.Default(definition)
	definition.Status.AcceptedNames, definition.Status.StoredVersions = definition.Spec.Names, nil
	definition.Status.Conditions = nil
	for _, is := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
		definition.Status.Conditions = append(definition.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{Type: is,
			Status: apiextensionsv1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))})
	}
	if definition.UID == "" {
		definition.UID = types.UID(definition.Name)
	}
	kinds := map[schema.GroupVersionKind]kind{}
	for _, version := range definition.Spec.Versions {
		if version.Served {
			gvk := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
			kinds[gvk] = kind{gvk.GroupVersion().WithResource(definition.Spec.Names.Plural), definition.Spec.Scope == apiextensionsv1.NamespaceScoped}
		}
		if version.Storage {
			definition.Status.StoredVersions = []string{version.Name}
		}
	}
	return definition, kinds, nil
}

// customHandler returns the API server's handler of custom resources.
func customHandler(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition) (http.Handler, error) {
	objects := make([]runtime.Object, len(definitions))
	for i, definition := range definitions {
		objects[i] = definition
	}
	factory := externalversions.NewSharedInformerFactory(fake.NewSimpleClientset(objects...), 0)
	handler, err := apiserver.NewCustomResourceDefinitionHandler(nil, nil, factory.Apiextensions().V1().CustomResourceDefinitions(),
		http.NotFoundHandler(), inCodec(unstructured.UnstructuredJSONScheme), chained{}, nil, webhook.NewDefaultServiceResolver(),
		webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, loopback(), nil), 1, authorizerfactory.NewAlwaysAllowAuthorizer(),
		time.Minute, time.Minute, nil, maxBody)
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSyncWithContext(ctx)
	return handler, nil
}
