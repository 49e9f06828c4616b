package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/evanphx/json-patch.v4"
)

// objects are the objects of a kind that the stand-in has.
type objects struct {
	count int
	// text returns the members of metadata, without resourceVersion, and what follows metadata, with its comma.
	text func(i int) (metadata, rest string)
}

// standIn takes the place of an API server for objects that are made when they are asked for, so that it has 200,000 pods
// without keeping one. It answers lists, watches and, for the records of quotas, reads and patches of single objects.
type standIn struct {
	has map[string]objects // by resource
	// streams is set if it sends the initial objects in a watch, as API servers do since 1.34; otherwise it sends a list.
	streams bool

	url     string // where it is served
	mu      sync.Mutex
	patched map[string][]byte // single objects after a patch, by path
	version int               // of the last patch
}

// newest is the version of the lists, above the versions of all objects.
const newest = 1_000_000

// serve starts the stand-in and writes a kubeconfig for it into dir.
func (s *standIn) serve(dir string) (kubeconfig string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s.patched, s.version, s.url = map[string][]byte{}, newest, "http://"+listener.Addr().String()
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(listener) }()
	kubeconfig = filepath.Join(dir, "kubeconfig-"+strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config",
"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"users":[{"name":"u","user":{}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, s.url)
	return kubeconfig, func() { _ = server.Close() }, os.WriteFile(kubeconfig, []byte(text), 0o600)
}

// ServeHTTP answers as an API server without authentication.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	metaOnly := strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	w.Header().Set("Content-Type", "application/json")
	switch n := len(path); {
	case n >= 4 && path[n-4] == "namespaces":
		s.single(w, r, path[n-2], path[n-1])
	case strings.HasPrefix(r.URL.Path, "/apis/admissionregistration.k8s.io/"):
		refuse(w, http.StatusNotFound, "NotFound")
	case query.Get("watch") == "":
		s.list(w, r, s.has[path[n-1]], metaOnly)
	case query.Get("sendInitialEvents") == "true" && !s.streams:
		refuse(w, http.StatusUnprocessableEntity, "Invalid")
	default:
		s.watch(w, r, s.has[path[n-1]], metaOnly)
	}
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

// list returns all objects for resourceVersion=0, as an API server's watch cache does, and otherwise a page of them.
func (s *standIn) list(w http.ResponseWriter, r *http.Request, o objects, metaOnly bool) {
	from, to, more := 0, o.count, ""
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && r.URL.Query().Get("resourceVersion") != "0" {
		from, _ = strconv.Atoi(r.URL.Query().Get("continue"))
		if from+limit < to {
			to = from + limit
			more = strconv.Itoa(to)
		}
	}
	_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[`, newest, more)
	for i := from; i < to; i++ {
		if i > from {
			_, _ = io.WriteString(w, ",")
		}
		o.write(w, i, metaOnly)
	}
	_, _ = io.WriteString(w, "]}")
}

// watch sends the objects, if it is asked for them, and then nothing until the client leaves.
func (s *standIn) watch(w http.ResponseWriter, r *http.Request, o objects, metaOnly bool) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for i := range o.count {
			_, _ = io.WriteString(w, `{"type":"ADDED","object":`)
			o.write(w, i, metaOnly)
			_, _ = io.WriteString(w, "}\n")
		}
		_, _ = fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d",`+
			`"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", newest)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func (o objects) write(w io.Writer, i int, metaOnly bool) {
	metadata, rest := o.text(i)
	if metaOnly {
		rest = `,"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`
	}
	_, _ = fmt.Fprintf(w, `{"metadata":{"resourceVersion":"%d",%s}%s}`, i+1, metadata, rest)
}

// single answers a read or a patch of one object, whose name ends in its number.
func (s *standIn) single(w http.ResponseWriter, r *http.Request, resource, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, known := s.patched[r.URL.Path]
	if !known {
		i, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
		if err != nil || i >= s.has[resource].count || resource == "pods" { // the pods of the reviews are never created
			refuse(w, http.StatusNotFound, "NotFound")
			return
		}
		var b bytes.Buffer
		s.has[resource].write(&b, i, false)
		now = b.Bytes()
	}
	if r.Method == http.MethodPatch {
		next, code := s.patch(now, r.Body)
		if code != http.StatusOK {
			refuse(w, code, http.StatusText(code))
			return
		}
		now, s.patched[r.URL.Path] = next, next
	}
	_, _ = w.Write(now)
}

// patch merges a patch into an object if that is at the version of the patch.
func (s *standIn) patch(now []byte, body io.Reader) (next []byte, code int) {
	text, err := io.ReadAll(body)
	var change map[string]any
	if err != nil || json.Unmarshal(text, &change) != nil {
		return nil, http.StatusBadRequest
	}
	metadata, _ := change["metadata"].(map[string]any)
	if at := metadata["resourceVersion"]; at != nil && at != versionOf(now) {
		return nil, http.StatusConflict
	}
	s.version++
	metadata["resourceVersion"] = strconv.Itoa(s.version)
	if text, err = json.Marshal(change); err == nil {
		next, err = jsonpatch.MergePatch(now, text)
	}
	if err != nil {
		return nil, http.StatusBadRequest
	}
	return next, http.StatusOK
}

func versionOf(object []byte) string {
	var o struct {
		Metadata struct{ ResourceVersion string }
	}
	_ = json.Unmarshal(object, &o) // the stand-in's own text
	return o.Metadata.ResourceVersion
}
