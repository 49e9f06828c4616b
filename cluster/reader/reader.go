// Package reader reads single objects of a cluster: for commands, which ask once, and watch nothing.
package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"usher.dev/usher/cluster/manifest"
	"usher.dev/usher/internal/apiserver"
)

// Timeout bounds one request, so that a command cannot hang.
const Timeout = 5 * time.Second

// pageSize is the number of objects that are read at a time.
const pageSize = 500

// Source is where objects are read from: an API server, or files that stand for a cluster. The zero value is an empty
// cluster. It may be used concurrently.
type Source struct {
	api    *apiserver.Client // nil for files
	files  []manifest.Object
	onDisk []manifest.Object // see WithStatic

	withStatic bool

	connection *connection
}

// connection remembers whether an API server answers. One that has never answered is not asked again.
type connection struct {
	sync.Mutex
	answered bool
	broken   error
}

// API returns the source that reads from an API server.
func API(client apiserver.Client) Source { return Source{api: &client, connection: &connection{}} }

// Files returns the source that reads the files of a directory, without its subdirectories, as --cluster-dir does.
func Files(dir string) (Source, error) {
	objects, err := manifest.ReadDir(dir)
	if err != nil {
		return Source{}, fmt.Errorf("--cluster-dir: %w", err)
	}
	return Source{files: objects}, nil
}

// With returns a source that has more objects, which come before others of the same name. An API server has none but
// its own.
func (s Source) With(more []manifest.Object) Source {
	if s.api == nil {
		s.files = append(more[:len(more):len(more)], s.files...)
	}
	return s
}

// Live reports whether the objects come from an API server, and not from files.
func (s Source) Live() bool { return s.api != nil }

// Now returns the time by the API server's clock; for files, by this machine's.
func (s Source) Now() time.Time {
	if s.api == nil {
		return time.Now()
	}
	return s.api.Now()
}

// List returns the objects of a kind in a namespace or, if that is "", in all of them; from files in their order. A
// kind that the API server does not serve is ErrNotFound.
func (s Source) List(ctx context.Context, kind Kind, namespace string) (found []json.RawMessage, err error) {
	err = s.Each(ctx, kind, namespace, func(raw json.RawMessage) { found = append(found, raw) })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Each is List for kinds with many objects: it calls do with each, a page at a time.
func (s Source) Each(ctx context.Context, kind Kind, namespace string, do func(json.RawMessage)) error {
	for _, o := range s.onDisk {
		if o.GroupVersionKind().GroupKind() == kind.GroupKind() {
			do(o.JSON)
		}
	}
	if s.api == nil {
		for _, raw := range s.listFiles(kind, namespace) {
			do(raw)
		}
		return nil
	}
	what := kind.Resource
	if namespace != "" {
		what += " in namespace " + namespace
	}
	query := map[string]string{"limit": fmt.Sprint(pageSize)}
	for {
		raw, err := s.probe(ctx, what, func(ctx context.Context) ([]byte, error) {
			return s.api.Query(ctx, kind.path(namespace), query)
		})
		if err != nil {
			return err
		}
		var page struct {
			Metadata struct{ Continue string }
			Items    []json.RawMessage
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return &UnreadableError{What: what, Err: err}
		}
		for _, raw := range page.Items {
			do(raw)
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query["continue"] = page.Metadata.Continue
	}
}

// listFiles returns the first of the objects with each name. Any version of a kind will do.
func (s Source) listFiles(kind Kind, namespace string) (found []json.RawMessage) {
	seen := map[objectName]bool{}
	for _, o := range s.files {
		name := nameOf(o)
		if o.GroupVersionKind().GroupKind() == kind.GroupKind() && (namespace == "" || name.Namespace == namespace) && !seen[name] {
			seen[name] = true
			found = append(found, o.JSON)
		}
	}
	return found
}

// Get returns an object; namespace is "" for one that is not in a namespace.
func (s Source) Get(ctx context.Context, kind Kind, namespace, name string) (json.RawMessage, error) {
	what := kind.Resource + " " + name
	if namespace != "" {
		what = kind.Resource + " " + namespace + "/" + name
	}
	if s.api == nil {
		for _, o := range s.files {
			if o.GroupVersionKind().GroupKind() == kind.GroupKind() && nameOf(o) == (objectName{namespace, name}) {
				return o.JSON, nil
			}
		}
		return nil, fmt.Errorf("%s %w", what, ErrNotFound)
	}
	return s.probe(ctx, what, func(ctx context.Context) ([]byte, error) {
		return s.api.Get(ctx, kind.path(namespace)+"/"+url.PathEscape(name))
	})
}

// Ask posts a review, such as a SubjectAccessReview, which an API server answers and does not store.
func (s Source) Ask(ctx context.Context, path string, review any) (json.RawMessage, error) {
	if s.api == nil {
		return nil, &UnreadableError{What: path, Err: errors.New("files do not answer questions; use --cluster=api")}
	}
	raw, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	return s.probe(ctx, path, func(ctx context.Context) ([]byte, error) { return s.api.Create(ctx, path, raw) })
}

// DryCreate has an API server judge the creation of an object, and store nothing. It returns the warnings, also with an error, which is
// the API server's own.
func (s Source) DryCreate(ctx context.Context, kind Kind, namespace string, object []byte) (warnings []string, err error) {
	if s.api == nil {
		return nil, &UnreadableError{What: kind.Resource, Err: errors.New("files judge nothing; use --cluster=api")}
	}
	return s.api.DryCreate(ctx, kind.path(namespace), object)
}

// Read returns what is at a path of an API server, such as "/apis/apps/v1", which lists the resources of a version.
func (s Source) Read(ctx context.Context, path string) (json.RawMessage, error) {
	if s.api == nil {
		return nil, &UnreadableError{What: path, Err: errors.New("files have no discovery; use --cluster=api")}
	}
	return s.probe(ctx, path, func(ctx context.Context) ([]byte, error) { return s.api.Get(ctx, path) })
}

// probe sends one request to the API server.
func (s Source) probe(ctx context.Context, what string, send func(context.Context) ([]byte, error)) (json.RawMessage, error) {
	if err := s.connection.down(); err != nil {
		return nil, &UnreadableError{What: what, Away: err, Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("no answer within %s", Timeout))
	defer cancel()
	raw, err := send(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.connection.note(err)
	switch {
	case err == nil:
		return raw, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s %w", what, ErrNotFound)
	}
	return nil, &UnreadableError{What: what, Forbidden: apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err), Away: s.connection.down(), Err: err}
}

// down returns why the API server is not asked again, or nil.
func (c *connection) down() error {
	c.Lock()
	defer c.Unlock()
	return c.broken
}

// note remembers whether the API server has answered.
func (c *connection) note(err error) {
	var status apierrors.APIStatus
	c.Lock()
	defer c.Unlock()
	c.answered = c.answered || err == nil || errors.As(err, &status)
	if sent, is := errors.AsType[*url.Error](err); is { // the rest of it is of one request
		err = sent.Err
	}
	if !c.answered && c.broken == nil {
		c.broken = err
	}
}

// objectName is the name of an object within its kind.
type objectName struct{ Namespace, Name string }

func nameOf(o manifest.Object) objectName {
	var head struct{ Metadata objectName }
	_ = json.Unmarshal(o.JSON, &head) // an object without a name is found by none
	return head.Metadata
}

// One decodes an object that Get has returned.
func One[T any](raw json.RawMessage, err error) (object T, _ error) {
	if err != nil {
		return object, err
	}
	return object, Decode(raw, &object)
}

// All decodes the objects that List has returned.
func All[T any](list []json.RawMessage, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	all := make([]T, len(list))
	for i, raw := range list {
		if err := Decode(raw, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
