package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kjson "sigs.k8s.io/json"
)

// listWatch lists and watches a collection for a reflector.
func (s *server) listWatch(c *Cluster, k int) *cache.ListWatch {
	reported := func(err error) error {
		if err != nil && !errors.Is(err, context.Canceled) {
			c.failed(k, err)
		}
		return err
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			body, err := s.request(&c.rows[k], o, "PartialObjectMetadataList").Stream(ctx)
			if err != nil {
				return nil, reported(err)
			}
			defer func() { _ = body.Close() }()
			list, err := readList(body, c.rows[k].decode)
			return list, reported(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			body, err := s.request(&c.rows[k], o, "PartialObjectMetadata").Stream(ctx)
			if err != nil {
				if initial := o.SendInitialEvents != nil; initial && !connectionFailed(err) {
					return nil, err // the server may not support this kind of watch; the list that follows reports any other cause
				}
				return nil, reported(err)
			}
			frames := &watchDecoder{body: body, decoder: json.NewDecoder(body), decode: c.rows[k].decode}
			return watch.NewStreamWatcher(frames, statusOf{}), nil
		},
	}
}

// connectionFailed reports whether err is not an answer of the API server.
func connectionFailed(err error) bool {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered
}

// path returns the URL path of the API group and version of a collection.
func (r *row) path() []string {
	if r.kind.Group == "" {
		return []string{"/api", r.kind.Version}
	}
	return []string{"/apis", r.kind.Group, r.kind.Version}
}

// request returns a request to list or watch a collection, or its only object.
func (s *server) request(r *row, list metav1.ListOptions, metadata string) *rest.Request {
	path := r.path()
	if r.only.Name != "" {
		path = append(path, "namespaces", r.only.Namespace)
		list.FieldSelector = fields.OneTermEqualSelector("metadata.name", r.only.Name).String()
	}
	accept := "application/json"
	if r.metaOnly {
		accept = fmt.Sprintf("application/json;as=%s;g=meta.k8s.io;v=v1,application/json", metadata)
	}
	return s.client.Get().AbsPath(append(path, r.resource)...).
		SpecificallyVersionedParams(&list, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"}).SetHeader("Accept", accept)
}

// itemList is a list, or a page of one.
type itemList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject returns the list itself, because lists are never modified.
func (l *itemList) DeepCopyObject() runtime.Object { return l }

// readList decodes a list object by object, so that it is never in memory as a whole: all pods of a large cluster take
// gigabytes.
func readList(body io.Reader, decode func([]byte) (*item, error)) (*itemList, error) {
	list := &itemList{}
	in := json.NewDecoder(body)
	if err := expect(in, '{'); err != nil {
		return nil, err
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, err
		}
		switch name {
		case "metadata":
			err = in.Decode(&list.ListMeta)
		case "items":
			list.Items, err = readItems(in, decode)
		default:
			err = in.Decode(&Unread{})
		}
		if err != nil {
			return nil, fmt.Errorf("list: %v: %w", name, err)
		}
	}
	return list, expect(in, '}')
}

// readItems decodes a list's items: null, or an array of objects.
func readItems(in *json.Decoder, decode func([]byte) (*item, error)) (items []runtime.Object, err error) {
	if first, err := in.Token(); err != nil || first == nil {
		return nil, err
	} else if first != json.Delim('[') {
		return nil, fmt.Errorf("%v is not an array", first)
	}
	for in.More() {
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return nil, err
		}
		i, err := decode(raw)
		if err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	return items, expect(in, ']')
}

func expect(in *json.Decoder, want json.Delim) error {
	if got, err := in.Token(); err != nil {
		return err
	} else if got != want {
		return fmt.Errorf("list: %v instead of %v", got, want)
	}
	return nil
}

// watchDecoder decodes the events of a watch.
type watchDecoder struct {
	body    io.ReadCloser
	decoder *json.Decoder
	decode  func([]byte) (*item, error)
}

// Decode reads the next event.
func (f *watchDecoder) Decode() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := f.decoder.Decode(&event); err != nil {
		return "", nil, err
	}
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		i, err := f.decode(event.Object)
		return event.Type, i, err
	case watch.Bookmark: // an object of the kind with only this metadata
		var head metav1.PartialObjectMetadata
		err := kjson.UnmarshalCaseSensitivePreserveInts(event.Object, &head)
		mark := metav1.ObjectMeta{ResourceVersion: head.ResourceVersion, Annotations: head.Annotations}
		return event.Type, &item{ObjectMeta: mark}, err
	case watch.Error:
		status := &metav1.Status{}
		err := kjson.UnmarshalCaseSensitivePreserveInts(event.Object, status)
		return event.Type, status, err
	}
	return "", nil, fmt.Errorf("watch: unknown event type %.40q", string(event.Type))
}

// Close ends the watch.
func (f *watchDecoder) Close() { _ = f.body.Close() }

// statusOf converts errors of the stream to statuses.
type statusOf struct{}

// AsObject returns an error in the form in which the API server would report it.
func (statusOf) AsObject(err error) runtime.Object {
	return &apierrors.NewInternalError(err).ErrStatus
}
