package clustertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

type fakeEvent struct {
	version        int
	resource, text string
}

func (f *Server) list(w http.ResponseWriter, r *http.Request, resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	objects := f.selected(r, resource)
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	from = min(from, len(objects))
	more := ""
	to := len(objects)
	if f.Page > 0 && to > from+f.Page {
		to = from + f.Page
		more = strconv.Itoa(to)
	}
	w.Header().Set("Content-Type", "application/json")
	items, _ := json.Marshal(objects[from:to])
	_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":%s}`, f.Latest, more, items)
}

func (f *Server) watch(w http.ResponseWriter, r *http.Request, resource string) {
	f.mu.Lock()
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial && !f.WatchList {
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
		sent = f.Latest
		texts = append(texts, bookmark(sent, `"annotations":{"k8s.io/initial-events-end":"true"},`))
	} else if sent < f.Compacted {
		texts = append(texts, `{"type":"ERROR","object":`+statusText(410, "Expired")+`}`)
	}
	w.Header().Set("Content-Type", "application/json")
	for {
		for _, event := range f.events {
			if event.version > sent && event.resource == resource && matchesEvent(r, event) {
				texts = append(texts, event.text)
			}
		}
		sent = f.Latest
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
