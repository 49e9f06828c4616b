package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// fieldManager is who usher is in the managedFields of what it writes.
const fieldManager = "usher"

// errFiles is the answer to requests that only an API server can serve.
var errFiles = errors.New("cluster: it is read from files, there is no API server")

// Raw returns what the API server answers to a GET of a path, for what is in no collection.
func (c *Cluster) Raw(ctx context.Context, path ...string) ([]byte, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return client.Get().AbsPath(path...).DoRaw(ctx)
}

// Read returns an object of a declared collection as etcd has it: a request without a resourceVersion is not answered from a cache that
// may be behind. As in a snapshot, an object whose newest state does not decode counts as it last did, if the collection is watched. The
// error is the API server's, an *apierrors.StatusError, or one of the connection.
func (c *Cluster) Read(ctx context.Context, collection string, name types.NamespacedName) (Object, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return Object{}, err
	}
	raw, err := c.at(client.Get(), k, name).DoRaw(ctx)
	return c.received(k, raw, err)
}

// Version returns an object's resourceVersion as etcd has it. The error is Read's.
func (c *Cluster) Version(ctx context.Context, collection string, name types.NamespacedName) (string, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return "", err
	}
	raw, err := c.at(client.Get(), k, name).SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(ctx)
	var found metav1.PartialObjectMetadata
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	return found.ResourceVersion, err
}

// Annotate sets one annotation of an object, or removes it if the text is empty, and nothing else. With a version, only that version is
// changed. It returns the object as it is then, and the error of Read. After an error the write may have happened or not.
func (c *Cluster) Annotate(ctx context.Context, collection string, name types.NamespacedName, version, annotation, text string) (Object, error) {
	client, k, err := c.remote(collection)
	if err != nil {
		return Object{}, err
	}
	var patch struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion,omitempty"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	patch.Metadata.ResourceVersion = version
	patch.Metadata.Annotations = map[string]*string{annotation: nil}
	if text != "" {
		patch.Metadata.Annotations[annotation] = &text
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return Object{}, err
	}
	raw, err := c.at(client.Patch(types.MergePatchType), k, name).Param("fieldManager", fieldManager).Body(body).DoRaw(ctx)
	return c.received(k, raw, err)
}

func (c *Cluster) client() (rest.Interface, error) {
	from, ok := c.source.(*server)
	if !ok {
		return nil, errFiles
	}
	return from.client, nil
}

func (c *Cluster) remote(collection string) (rest.Interface, int, error) {
	k, known := c.index[collection]
	if !known {
		return nil, 0, fmt.Errorf("cluster: no collection %s is declared", collection)
	}
	client, err := c.client()
	return client, k, err
}

// at makes a request one for an object of a collection.
func (c *Cluster) at(request *rest.Request, k int, name types.NamespacedName) *rest.Request {
	path := c.rows[k].path()
	if c.rows[k].namespaced {
		path = append(path, "namespaces", name.Namespace)
	}
	return request.AbsPath(append(path, c.rows[k].resource, name.Name)...).SetHeader("Accept", "application/json")
}

// received reads an answer.
func (c *Cluster) received(k int, raw []byte, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	i, err := c.rows[k].decode(raw)
	if err != nil {
		return Object{}, err
	}
	found := Object{Key: i.key(), Version: i.ResourceVersion, Kept: i.kept, Told: i.told}
	if i.err != nil {
		known := false
		if found.Kept, known = c.latest().collected[k].objects.get(i.key()); !known {
			return Object{}, i.err
		}
	}
	return found, nil
}
