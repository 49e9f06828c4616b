package cluster

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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// fakeAPI is an API server that knows lists, pages, watches, bookmarks and expired versions, and can lose its connections. It gives and
// patches single ElasticQuotas, too.
type fakeAPI struct {
	*httptest.Server
	mu        sync.Mutex
	version   int
	compacted int                                   // watches from before it get 410 Gone
	stored    map[string]map[string]json.RawMessage // resource to key to object
	events    []fakeEvent
	changed   chan struct{} // closed when there are new events
	watchList bool          // offers sendInitialEvents
	page      int           // at most so many objects in a list, 0 for all
	missing   map[string]bool
	refuse    map[string]int // resource to the HTTP code of every answer
	seen      []string       // requests, as "list pods" or "watch pods"
	accept    map[string]string
	single    []fakeRequest // for one object
	hang      bool          // requests for one object are not answered
}

// fakeRequest is a request for one object, as it came.
type fakeRequest struct{ method, uri, contentType, body string }

type fakeEvent struct {
	version        int
	resource, text string
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{version: 100, stored: map[string]map[string]json.RawMessage{}, changed: make(chan struct{}),
		missing: map[string]bool{}, refuse: map[string]int{}, accept: map[string]string{}, watchList: true}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

// follow gives a cluster that watches f until the test ends.
func (f *fakeAPI) follow(t *testing.T, o Options) *Cluster {
	t.Helper()
	c, err := API(&rest.Config{Host: f.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	c.source.(*server).backoff = wait.Backoff{Duration: 5 * time.Millisecond, Cap: 50 * time.Millisecond, Steps: 10, Factor: 2, Jitter: 1}
	go c.Run(t.Context())
	return c
}

// set changes the server under its lock.
func (f *fakeAPI) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// apply stores an object, given without resourceVersion; nil removes it.
func (f *fakeAPI) apply(k Kind, key, object string) {
	f.set(func() { f.store(k, key, object) })
}

// store does apply's work. The caller holds mu.
func (f *fakeAPI) store(k Kind, key, object string) {
	resource := rows[k].resource
	if f.stored[resource] == nil {
		f.stored[resource] = map[string]json.RawMessage{}
	}
	before, known := f.stored[resource][key]
	f.version++
	kind := "ADDED"
	switch {
	case object == "" && !known:
		return
	case object == "":
		kind, object = "DELETED", string(before)
		delete(f.stored[resource], key)
	case known:
		kind = "MODIFIED"
	}
	text := withVersion(k, key, object, f.version)
	if kind != "DELETED" {
		f.stored[resource][key] = json.RawMessage(text)
	}
	f.events = append(f.events, fakeEvent{f.version, resource, fmt.Sprintf(`{"type":%q,"object":%s}`, kind, text)})
	close(f.changed)
	f.changed = make(chan struct{})
}

// withVersion completes an object as an API server does, managedFields included.
func withVersion(k Kind, key, object string, version int) string {
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
	meta["managedFields"] = []any{map[string]any{"manager": "somebody", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	o["metadata"], o["apiVersion"], o["kind"] = meta, rows[k].kind.GroupVersion().String(), rows[k].kind.Kind
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) == 7 { // apis, group, version, namespaces, namespace, resource, name
		f.one(w, r, path[4]+"/"+path[6])
		return
	}
	resource := path[len(path)-1]
	verb := "list"
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	f.mu.Lock()
	f.seen = append(f.seen, verb+" "+resource)
	f.accept[resource] = r.Header.Get("Accept")
	missing, code := f.missing[resource], f.refuse[resource]
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

// one answers a request for one ElasticQuota.
func (f *fakeAPI) one(w http.ResponseWriter, r *http.Request, key string) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.single = append(f.single, fakeRequest{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(body)})
	if f.hang {
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
		return
	}
	resource := rows[ElasticQuotas].resource
	stored, known := f.stored[resource][key]
	var patch struct {
		Metadata struct{ ResourceVersion string }
	}
	_ = json.Unmarshal(body, &patch)
	switch {
	case f.refuse[resource] != 0:
		answerStatus(w, f.refuse[resource], "Refused")
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
		f.store(ElasticQuotas, key, string(merged))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(f.stored[resource][key])
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

// selected gives the objects that a request asks for, sorted. The caller holds mu.
func (f *fakeAPI) selected(r *http.Request, resource string) (objects []json.RawMessage) {
	for _, key := range slices.Sorted(maps.Keys(f.stored[resource])) {
		if matches(r, key) {
			objects = append(objects, f.stored[resource][key])
		}
	}
	return objects
}

func matches(r *http.Request, key string) bool {
	want, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	return !ok || strings.HasSuffix("/"+key, "/"+want) && strings.Contains(r.URL.Path, "/namespaces/"+strings.Split(key, "/")[0]+"/")
}

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request, resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects := f.selected(r, resource)
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	from = min(from, len(objects))
	more := ""
	to := len(objects)
	if f.page > 0 && to > from+f.page {
		to = from + f.page
		more = strconv.Itoa(to)
	}
	w.Header().Set("Content-Type", "application/json")
	items, _ := json.Marshal(objects[from:to])
	_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":%s}`, f.version, more, items)
}

func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request, resource string) {
	f.mu.Lock()
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial && !f.watchList {
		f.mu.Unlock()
		answerStatus(w, http.StatusUnprocessableEntity, "Invalid")
		return
	}
	sent, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	var texts []string
	if initial {
		for _, object := range f.selected(r, resource) {
			texts = append(texts, fmt.Sprintf(`{"type":"ADDED","object":%s}`, object))
		}
		sent = f.version
		texts = append(texts, bookmark(sent, `"annotations":{"k8s.io/initial-events-end":"true"},`))
	} else if sent < f.compacted {
		texts = append(texts, `{"type":"ERROR","object":`+statusText(410, "Expired")+`}`)
	}
	w.Header().Set("Content-Type", "application/json")
	for {
		for _, event := range f.events {
			if event.version > sent && event.resource == resource && matchesEvent(r, event) {
				texts = append(texts, event.text)
			}
		}
		sent = f.version
		changed := f.changed
		f.mu.Unlock()
		for _, text := range append(texts, bookmark(sent, "")) {
			_, _ = fmt.Fprintln(w, text)
		}
		w.(http.Flusher).Flush()
		texts = nil
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
		f.mu.Lock()
	}
}

func matchesEvent(r *http.Request, event fakeEvent) bool {
	var frame struct {
		Object struct {
			Metadata struct{ Namespace, Name string }
		}
	}
	if err := json.Unmarshal([]byte(event.text), &frame); err != nil {
		panic(err)
	}
	return matches(r, frame.Object.Metadata.Namespace+"/"+frame.Object.Metadata.Name)
}

func bookmark(version int, annotations string) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"metadata":{%s"resourceVersion":"%d"}}}`, annotations, version)
}

// requests counts what was asked for, as "list pods".
func (f *fakeAPI) requests(what string) (n int) {
	f.set(func() {
		for _, each := range f.seen {
			if each == what {
				n++
			}
		}
	})
	return n
}

// eventually waits for something that will come, however slow the machine is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
