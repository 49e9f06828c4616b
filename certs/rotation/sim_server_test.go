package rotation

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"usher.dev/usher/internal/apiserver"
)

// server is an API server for single objects, as far as a keeper needs one. It runs in a bubble: delays are simulated.
type server struct {
	mu      sync.Mutex
	objects map[string]string // JSON without resourceVersion, by path
	version map[string]int
	answers map[string]string    // objects with their version, as they are now; "" if nobody has asked
	history map[string][]version // of data
	next    int
	ahead   time.Duration // of its clock
	slow    time.Duration // longest delay before and after a request
	faulty  float64       // the part of requests that fail or whose answer is lost
	away    bool
	denied  string // paths with this text are forbidden
	quota   bool   // of no Secrets
	writes  map[string]int
	changed func(path string)
	heard   func(client, method, path string, code int) // code 0: the request did not arrive
}

// version is the data that an object had once.
type version struct {
	version int
	data    any
}

func newServer() *server {
	return &server{objects: map[string]string{}, version: map[string]int{}, answers: map[string]string{}, history: map[string][]version{}, writes: map[string]int{}, changed: func(string) {}}
}

// link is the way of one client to a server. A client sends one request at a time, so the order in which its requests draw from
// its source does not depend on the scheduler.
type link struct {
	*server
	name string
	rnd  *rand.Rand
}

func (l *link) client() apiserver.Client {
	c, err := apiserver.New(&rest.Config{Host: "http://api", Transport: l})
	if err != nil {
		panic(err)
	}
	return c
}

// RoundTrip delays, answers and loses.
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	s := l.server
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	before, after, fate := l.delay(), l.delay(), l.rnd.Float64()
	time.Sleep(before)
	s.mu.Lock()
	if s.away || fate < s.faulty/2 {
		s.heard(l.name, r.Method, r.URL.Path, 0)
		s.mu.Unlock()
		return nil, errors.New("connection refused")
	}
	code, answer := s.answer(r.Method, r.URL.Path, string(body))
	s.heard(l.name, r.Method, r.URL.Path, code)
	lost := fate > 1-s.faulty/2
	date := time.Now().Add(s.ahead).UTC().Format(http.TimeFormat)
	s.mu.Unlock()
	time.Sleep(after)
	if lost {
		return nil, errors.New("connection lost")
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}, "Date": {date}},
		Body: io.NopCloser(bytes.NewReader([]byte(answer))), Request: r}, nil
}

func (l *link) delay() time.Duration { return time.Duration(l.rnd.Float64() * float64(l.slow)) }

func status(code int, reason string) (int, string) {
	return code, fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": "x is %[1]s", "code": %d}`, reason, code)
}

func (s *server) answer(method, path, body string) (int, string) {
	is, found := s.objects[path]
	switch {
	case s.denied != "" && strings.Contains(path, s.denied):
		return status(http.StatusForbidden, "Forbidden")
	case s.quota && !found && method == http.MethodPatch:
		code, text := status(http.StatusForbidden, "Forbidden")
		return code, strings.Replace(text, "x is", "x is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=0, limited: secrets=0", 1)
	case found && method == http.MethodPut && parsed(is)["immutable"] == true:
		return status(http.StatusUnprocessableEntity, "Invalid")
	case !found && method != http.MethodPatch:
		return status(http.StatusNotFound, "NotFound")
	case method == http.MethodPut && field(body, "metadata", "resourceVersion") != strconv.Itoa(s.version[path]),
		method == http.MethodPatch && found && field(body, "metadata", "resourceVersion") != strconv.Itoa(s.version[path]) && is != body:
		return status(http.StatusConflict, "Conflict")
	case method == http.MethodPatch && found && is != body: // annotations
		object := parsed(is)
		object["metadata"].(map[string]any)["annotations"] = parsed(body)["metadata"].(map[string]any)["annotations"]
		text, _ := json.Marshal(object)
		s.store(path, string(text))
	case method != http.MethodGet:
		s.store(path, body)
		s.writes[path]++
	}
	return http.StatusOK, s.read(path)
}

// read returns an object with its version.
func (s *server) read(path string) string {
	if s.answers[path] == "" {
		object := parsed(s.objects[path])
		object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version[path])
		text, _ := json.Marshal(object)
		s.answers[path] = string(text)
	}
	return s.answers[path]
}

func (s *server) store(path, text string) {
	if path == mutating || path == validating {
		text = s.owned(path, text)
	}
	s.next++
	s.objects[path], s.version[path], s.answers[path] = text, s.next, ""
	s.history[path] = append(s.history[path], version{s.next, parsed(text)["data"]})
	s.changed(path)
}

// owned returns a configuration that is to be stored, with the time when one of its caBundles was last changed.
func (s *server) owned(path, text string) string {
	was, is, owned, changed := s.bundles(path), bundlesOf(text), map[string]any{}, false
	for name, bundle := range is {
		if len(bundle) > 0 {
			owned[fmt.Sprintf(`k:{"name":%q}`, name)] = map[string]any{"f:clientConfig": map[string]any{"f:caBundle": map[string]any{}}}
			changed = changed || !bytes.Equal(bundle, was[name])
		}
	}
	object := parsed(text)
	metadata := object["metadata"].(map[string]any)
	if delete(metadata, "managedFields"); changed {
		metadata["managedFields"] = []any{map[string]any{"manager": BundleManager, "operation": "Update",
			"time": time.Now().Add(s.ahead).UTC().Format(time.RFC3339), "fieldsV1": map[string]any{"f:webhooks": owned}}}
	} else if before := s.object(path); before != nil {
		metadata["managedFields"] = before["metadata"].(map[string]any)["managedFields"]
	}
	next, _ := json.Marshal(object)
	return string(next)
}

// object returns an object, or nil.
func (s *server) object(path string) map[string]any {
	if text, found := s.objects[path]; found {
		return parsed(text)
	}
	return nil
}

func parsed(text string) (object map[string]any) {
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}
	return object
}

func field(text string, names ...string) string {
	var value any = parsed(text)
	for _, name := range names {
		inner, _ := value.(map[string]any)
		value = inner[name]
	}
	got, _ := value.(string)
	return got
}

// edit changes an object as another client would.
func (s *server) edit(path string, change func(map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text, found := s.objects[path]; found {
		object := parsed(text)
		change(object)
		edited, _ := json.Marshal(object)
		s.store(path, string(edited))
	}
}

func (s *server) remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, path)
	s.changed(path)
}

// data returns the data of a Secret.
func (s *server) data(path string) map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]byte{}
	if text, found := s.objects[path]; found {
		data, _ := parsed(text)["data"].(map[string]any)
		for key, value := range data {
			all[key], _ = base64.StdEncoding.DecodeString(value.(string))
		}
	}
	return all
}

// register stores a configuration with entries that call the Service, with the caBundle that each has already.
func (s *server) register(path string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.bundles(path)
	var webhooks []any
	for _, name := range names {
		client := map[string]any{"service": map[string]any{"namespace": "usher", "name": "usher"}}
		if has[name] != nil {
			client["caBundle"] = base64.StdEncoding.EncodeToString(has[name])
		}
		webhooks = append(webhooks, map[string]any{"name": name, "clientConfig": client, "timeoutSeconds": 3})
	}
	text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"name": "usher"}, "webhooks": webhooks})
	s.store(path, string(text))
}

// bundles returns the caBundles of a configuration by entry.
func (s *server) bundles(path string) map[string][]byte {
	if text, found := s.objects[path]; found {
		return bundlesOf(text)
	}
	return map[string][]byte{}
}

func bundlesOf(text string) map[string][]byte {
	all := map[string][]byte{}
	var c registered
	_ = json.Unmarshal([]byte(text), &c)
	for _, w := range c.Webhooks {
		all[w.Name] = w.ClientConfig.CABundle
	}
	return all
}
