package cluster

import (
	"context"
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

// listWatch lists and watches the collections of a stream for a reflector.
func (s *server) listWatch(c *Cluster, of stream) *cache.ListWatch {
	reported := func(err error) error {
		if err != nil && !errors.Is(err, context.Canceled) {
			for _, k := range of {
				c.failed(k, err)
			}
		}
		return err
	}
	decode := func(raw []byte) (*item, error) { return c.decode(of, raw) }
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			body, err := s.request(&c.rows[of[0]], o, "PartialObjectMetadataList").Stream(ctx)
			if err != nil {
				return nil, reported(err)
			}
			defer func() { _ = body.Close() }()
			list, err := readList(body, decode)
			return list, reported(err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			body, err := s.request(&c.rows[of[0]], o, "PartialObjectMetadata").Stream(ctx)
			if err != nil {
				if initial := o.SendInitialEvents != nil; initial && !connectionFailed(err) {
					return nil, err // the server may not support this kind of watch; the list that follows reports any other cause
				}
				return nil, reported(err)
			}
			frames := &watchDecoder{body: body, values: newValues(body), decode: decode}
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
	list, in := &itemList{}, newValues(body)
	err := in.members(func(name string) (err error) {
		switch name {
		case "metadata":
			err = in.decode(&list.ListMeta)
		case "items":
			list.Items, err = readItems(in, decode)
		default:
			err = in.skip()
		}
		if err != nil {
			err = fmt.Errorf("list: %s: %w", name, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// readItems decodes a list's items: null, or an array of objects.
func readItems(in *values, decode func([]byte) (*item, error)) (items []runtime.Object, err error) {
	if first, err := in.peek(); err == nil && first == 'n' {
		return nil, in.decode(&items)
	}
	var raw []byte
	err = in.list('[', ']', func() (err error) {
		if raw, err = in.next(raw); err != nil {
			return err
		}
		i, err := decode(withoutManagedFields(raw))
		items = append(items, i)
		return err
	})
	return items, err
}

// watchDecoder decodes the events of a watch.
type watchDecoder struct {
	body   io.ReadCloser
	values *values
	decode func([]byte) (*item, error)
	object []byte // the text of the last event's object, which decode must not retain
}

// Decode reads the next event.
func (f *watchDecoder) Decode() (watch.EventType, runtime.Object, error) {
	if _, err := f.values.peek(); err != nil {
		return "", nil, err
	}
	var event watch.EventType
	f.object = f.object[:0]
	if err := f.values.members(func(name string) (err error) {
		switch name {
		case "type":
			err = f.values.decode(&event)
		case "object":
			f.object, err = f.values.next(f.object)
		default:
			err = f.values.skip()
		}
		return err
	}); err != nil {
		return "", nil, err
	}
	switch event {
	case watch.Added, watch.Modified, watch.Deleted:
		i, err := f.decode(withoutManagedFields(f.object))
		return event, i, err
	case watch.Bookmark: // an object of the kind with only this metadata
		var head metav1.PartialObjectMetadata
		err := kjson.UnmarshalCaseSensitivePreserveInts(f.object, &head)
		return event, &item{version: head.ResourceVersion, annotations: head.Annotations}, err
	case watch.Error:
		status := &metav1.Status{}
		err := kjson.UnmarshalCaseSensitivePreserveInts(f.object, status)
		return event, status, err
	}
	return "", nil, fmt.Errorf("watch: unknown event type %.40q", string(event))
}

// Close ends the watch.
func (f *watchDecoder) Close() { _ = f.body.Close() }

// statusOf converts errors of the stream to statuses.
type statusOf struct{}

// AsObject returns an error in the form in which the API server would report it.
func (statusOf) AsObject(err error) runtime.Object {
	return &apierrors.NewInternalError(err).ErrStatus
}
