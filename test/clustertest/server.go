// Package clustertest simulates an API server, for tests of programs that watch one.
package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Server is an API server that supports lists, pages, watches, bookmarks and expired versions, and can drop its
// connections. It also supports GET and PATCH of single objects in namespaces. Its fields may only be accessed in Set.
type Server struct {
	*httptest.Server
	mu        sync.Mutex
	Latest    int                                   // the newest resourceVersion
	Compacted int                                   // watches from before it get 410 Gone
	Stored    map[string]map[string]json.RawMessage // resource to key to object
	WatchList bool                                  // offers sendInitialEvents
	Page      int                                   // at most so many objects in a list, 0 for all
	Missing   map[string]bool                       // resources without CRD
	StatusOf  map[string]bool                       // resources with the subresource
	Refuse    map[string]int                        // resource to the HTTP code of every answer
	Accept    map[string]string                     // resource to the header of the last list or watch
	Single    []Request                             // for one object
	Hang      bool                                  // requests for one object are not answered
	seen      []string                              // requests, as "list pods" or "watch pods"
	kinds     map[string]Kind                       // by resource
	events    []fakeEvent
	changed   chan struct{} // closed when there are new events
}

// Kind is a kind of object, and its plural in URLs.
type Kind struct {
	schema.GroupVersionKind
	Resource string
}

// Request is a request for one object, as it came.
type Request struct{ Method, URI, ContentType, Accept, Body string }

// New starts a server that is closed at the end of the test.
func New(t testing.TB) *Server {
	f := &Server{Latest: 100, Stored: map[string]map[string]json.RawMessage{}, changed: make(chan struct{}),
		Missing: map[string]bool{}, StatusOf: map[string]bool{}, Refuse: map[string]int{}, Accept: map[string]string{}, WatchList: true, kinds: map[string]Kind{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

// Backoff is a short backoff for clusters in tests.
func Backoff() wait.Backoff {
	return wait.Backoff{Duration: 5 * time.Millisecond, Cap: 50 * time.Millisecond, Steps: 10, Factor: 2, Jitter: 1}
}

// Set changes the server under its lock.
func (f *Server) Set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Apply stores an object, given without resourceVersion; nil removes it.
func (f *Server) Apply(k Kind, key, object string) {
	f.Set(func() { f.store(k, key, object) })
}

// store implements Apply. The caller holds mu.
func (f *Server) store(k Kind, key, object string) {
	resource := k.Resource
	f.kinds[resource] = k
	if f.Stored[resource] == nil {
		f.Stored[resource] = map[string]json.RawMessage{}
	}
	before, known := f.Stored[resource][key]
	f.Latest++
	kind := "ADDED"
	switch {
	case object == "" && !known:
		return
	case object == "":
		kind, object = "DELETED", string(before)
		delete(f.Stored[resource], key)
	case known:
		kind = "MODIFIED"
	}
	text := WithVersion(k, key, object, f.Latest)
	if kind != "DELETED" {
		f.Stored[resource][key] = json.RawMessage(text)
	}
	f.events = append(f.events, fakeEvent{f.Latest, resource, fmt.Sprintf(`{"type":%q,"object":%s}`, kind, text)})
	close(f.changed)
	f.changed = make(chan struct{})
}

// WithVersion completes an object like an API server, including managedFields.
func WithVersion(k Kind, key, object string, version int) string {
	var o map[string]any
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		panic(err)
	}
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	namespace, name, namespaced := strings.Cut(key, "/")
	if !namespaced {
		name = namespace
	} else {
		meta["namespace"] = namespace
	}
	meta["name"], meta["resourceVersion"] = name, strconv.Itoa(version)
	meta["managedFields"] = []any{map[string]any{
		"manager": "somebody", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}},
	}}
	o["metadata"], o["apiVersion"], o["kind"] = meta, k.GroupVersion().String(), k.GroupVersionKind.Kind
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if n := len(path); n == 3 && path[0] == "apis" {
		f.discover(w)
		return
	} else if n > 5 && path[n-1] == "status" {
		f.status(w, r, path[n-3], path[n-4]+"/"+path[n-2])
		return
	}
	if n := len(path); slices.Index(path, "namespaces") == n-4 && n > 4 { // namespaces, namespace, resource, name
		f.one(w, r, path[n-2], path[n-3]+"/"+path[n-1])
		return
	}
	resource := path[len(path)-1]
	verb := "list"
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	f.mu.Lock()
	f.seen = append(f.seen, verb+" "+resource)
	f.Accept[resource] = r.Header.Get("Accept")
	missing, code := f.Missing[resource], f.Refuse[resource]
	f.mu.Unlock()
	switch {
	case missing:
		http.Error(w, "404 page not found", http.StatusNotFound)
	case code != 0:
		answerStatus(w, code, "Refused")
	case verb == "list":
		f.list(w, r, resource)
	default:
		f.watch(w, r, resource)
	}
}

// discover answers with the resources of a group, as all of its kinds have been stored.
func (f *Server) discover(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for resource := range f.kinds {
		names = append(names, fmt.Sprintf(`{"name":%q}`, resource))
		if f.StatusOf[resource] {
			names = append(names, fmt.Sprintf(`{"name":%q}`, resource+"/status"))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","resources":[%s]}`, strings.Join(names, ","))
}

// status answers a request for the subresource of an object, which is not found if its kind has none.
func (f *Server) status(w http.ResponseWriter, r *http.Request, resource, key string) {
	f.mu.Lock()
	has := f.StatusOf[resource]
	f.mu.Unlock()
	if !has {
		answerStatus(w, http.StatusNotFound, "NotFound")
		return
	}
	f.one(w, r, resource, key)
}

// one answers a request for one object in a namespace.
func (f *Server) one(w http.ResponseWriter, r *http.Request, resource, key string) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Single = append(f.Single, Request{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)})
	if f.Hang {
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
		return
	}
	stored, known := f.Stored[resource][key]
	var patch struct {
		Metadata struct{ ResourceVersion string }
	}
	_ = json.Unmarshal(body, &patch)
	switch {
	case f.Refuse[resource] != 0:
		answerStatus(w, f.Refuse[resource], "Refused")
		return
	case !known:
		answerStatus(w, http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPatch && patch.Metadata.ResourceVersion != "" && patch.Metadata.ResourceVersion != versionOf(stored):
		answerStatus(w, http.StatusConflict, "Conflict")
		return
	case r.Method == http.MethodPatch:
		merged, err := jsonpatch.MergePatch(stored, body)
		if err != nil {
			panic(err)
		}
		f.store(f.kinds[resource], key, string(merged))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(f.Stored[resource][key])
}

func versionOf(object []byte) string {
	var o struct {
		Metadata struct{ ResourceVersion string }
	}
	_ = json.Unmarshal(object, &o)
	return o.Metadata.ResourceVersion
}

func answerStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(statusText(code, reason)))
}

func statusText(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`, reason, code)
}

// selected returns the requested objects, sorted. The caller holds mu.
func (f *Server) selected(r *http.Request, resource string) (objects []json.RawMessage) {
	for _, key := range slices.Sorted(maps.Keys(f.Stored[resource])) {
		if matches(r, key) {
			objects = append(objects, f.Stored[resource][key])
		}
	}
	return objects
}

func matches(r *http.Request, key string) bool {
	want, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	everywhere := !strings.Contains(r.URL.Path, "/namespaces/")
	return !ok || strings.HasSuffix("/"+key, "/"+want) && (everywhere || strings.Contains(r.URL.Path, "/namespaces/"+strings.Split(key, "/")[0]+"/"))
}

// Requests returns how often each kind of request was made, such as "list pods".
func (f *Server) Requests(what string) (n int) {
	f.Set(func() {
		for _, each := range f.seen {
			if each == what {
				n++
			}
		}
	})
	return n
}

// Eventually waits until a condition holds, however slow the machine is.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
