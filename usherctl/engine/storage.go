package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// stored are objects as JSON, by their keys in a registry.
type stored map[string]json.RawMessage

// keyOf returns the key of an object; namespace is empty for cluster-scoped ones.
func keyOf(resource schema.GroupResource, namespace, name string) string {
	if namespace == "" {
		return prefixOf(resource) + "/" + name
	}
	return prefixOf(resource) + "/" + namespace + "/" + name
}

func prefixOf(resource schema.GroupResource) string {
	if resource.Group == eventsv1.GroupName {
		resource.Group = "" // the same Events
	}
	return "/" + resource.String()
}

// getter gives each registry a storage of the objects that the context of a request has: registries are the same for all clusters.
type getter func(schema.GroupResource, runtime.Object) (*storagebackend.ConfigForResource, error)

// inCodec returns a getter for storages of kinds that are not in the scheme of Kubernetes.
func inCodec(codec runtime.Codec) getter {
	return func(resource schema.GroupResource, _ runtime.Object) (*storagebackend.ConfigForResource, error) {
		return storagebackend.NewDefaultConfig("/registry", codec).ForResource(resource), nil
	}
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config, err := g(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	return generic.RESTOptions{StorageConfig: config, ResourcePrefix: prefixOf(resource), DeleteCollectionWorkers: 1, Decorator: open,
		EnableGarbageCollection: true}, nil
}

func open(config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error), create, _ func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	return objects{codec: config.Codec, prefix: prefix, create: create}, func() {}, nil
}

// objects is the storage of a kind. It only reads: all requests are dry runs for it.
type objects struct {
	storage.Interface // nil: nothing else is called by a dry run
	codec             runtime.Codec
	prefix            string
	create            func() runtime.Object
}

// Versioner implements storage.Interface.
func (objects) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Get implements storage.Interface.
func (o objects) Get(ctx context.Context, key string, options storage.GetOptions, into runtime.Object) error {
	text, found := requestFrom(ctx).object(key)
	if found {
		return o.decode(text, into)
	}
	if !options.IgnoreNotFound {
		return storage.NewKeyNotFoundError(key, 0)
	}
	value, err := conversion.EnforcePtr(into)
	if err == nil {
		value.SetZero()
	}
	return err
}

func (o objects) decode(text []byte, into runtime.Object) error {
	if _, _, err := o.codec.Decode(text, nil, into); err != nil {
		return storage.NewInternalError(fmt.Errorf("the stored object cannot be decoded: %w", err))
	}
	return nil
}

// GetList implements storage.Interface.
func (o objects) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	var found []runtime.Object
	for at, text := range requestFrom(ctx).engine.stored {
		if at != key && !strings.HasPrefix(at, strings.TrimSuffix(key, "/")+"/") {
			continue
		}
		object := o.create()
		if err := o.decode(text, object); err != nil {
			return err
		}
		if matches, err := options.Predicate.Matches(object); err == nil && matches {
			found = append(found, object)
		}
	}
	return meta.SetList(list, found)
}

// Delete implements storage.Interface. A dry run asks it only to delete an object that cannot be decoded: all can be.
func (o objects) Delete(ctx context.Context, key string, into runtime.Object, _ *storage.Preconditions, _ storage.ValidateObjectFunc,
	_ runtime.Object, _ storage.DeleteOptions) error {
	if err := o.Get(ctx, key, storage.GetOptions{}, into); err != nil {
		return err
	}
	return storage.NewInvalidObjError(key, "unsafe deletion is not allowed because the object is decodable from storage")
}

// Create implements storage.Interface.
func (objects) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return errors.New("the engine stores nothing")
}

// EnableResourceSizeEstimation implements storage.Interface.
func (objects) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// ReadinessCheck implements storage.Interface.
func (objects) ReadinessCheck() error { return nil }
