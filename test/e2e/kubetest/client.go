package kubetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
)

const adminUser, adminGroup = "admin", "system:masters"

// Content types of a PATCH.
const (
	JSONPatch      = "application/json-patch+json"
	MergePatch     = "application/merge-patch+json"
	StrategicPatch = "application/strategic-merge-patch+json"
	ApplyPatch     = "application/apply-patch+yaml" // needs ?fieldManager=
)

// Client sends requests to the API server as one identity, in JSON and without a client library, so that a test
// controls what is sent. Paths are paths of the API, such as /api/v1/namespaces/apps/pods?dryRun=All.
type Client struct {
	url    string
	http   *http.Client
	header http.Header
}

// Admin returns a client with all rights.
func (c *Cluster) Admin() *Client { return c.User(adminUser, adminGroup) }

// Node returns a client for the kubelet of a node, restricted by the Node authorizer and NodeRestriction.
func (c *Cluster) Node(name string) *Client { return c.User("system:node:"+name, "system:nodes") }

// User returns a client with a certificate for that name and groups. RBAC determines its rights.
func (c *Cluster) User(name string, groups ...string) *Client {
	return &Client{url: c.URL, http: &http.Client{Transport: c.transport(name, groups)}, header: http.Header{}}
}

// Bearer returns a client with a token and no certificate.
func (c *Cluster) Bearer(token string) *Client {
	client := c.User("")
	client.header.Set("Authorization", "Bearer "+token)
	return client
}

// ServiceAccount returns a client with a token for a service account, which must exist.
func (c *Cluster) ServiceAccount(ctx context.Context, namespace, name string) (*Client, error) {
	answer, err := c.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token",
		Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": Object{"expirationSeconds": 3600}})
	if err != nil {
		return nil, err
	}
	return c.Bearer(answer.String("status", "token")), nil
}

// Impersonate returns a client that acts as another user, with this client's right to impersonate.
func (c *Client) Impersonate(user string, groups ...string) *Client {
	as := &Client{url: c.url, http: c.http, header: maps.Clone(c.header)}
	as.header.Set("Impersonate-User", user)
	as.header["Impersonate-Group"] = groups
	return as
}

// Transport returns a transport with one identity, for code that sends its own requests to the API server.
func (c *Cluster) Transport(name string, groups ...string) http.RoundTripper {
	return c.transport(name, groups)
}

// transport returns the transport that all clients of one identity share. An empty name has no certificate.
func (c *Cluster) transport(name string, groups []string) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := name + "\n" + strings.Join(groups, "\n")
	if t := c.clients[key]; t != nil {
		return t
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.cert)
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100}
	if name != "" {
		t.TLSClientConfig.Certificates = []tls.Certificate{c.clientCertificate(name, groups)}
	}
	c.clients[key] = t
	return t
}

// clientCertificate can fail only because of a bug here, so creating a client returns no error.
func (c *Cluster) clientCertificate(name string, groups []string) tls.Certificate {
	identity, err := c.ca.issue(name, groups)
	if err != nil {
		panic(err)
	}
	cert, err := tls.X509KeyPair(identity.cert, identity.key)
	if err != nil {
		panic(err)
	}
	return cert
}

func (c *Cluster) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.clients {
		t.CloseIdleConnections()
	}
}

// Response is any answer, including a refusal.
type Response struct {
	Status   int
	Warnings []string // of the API server and of webhooks
	Body     []byte
}

// Do sends a request as it is. It returns an error only if there is no answer. The body may be bytes, a string, or any
// value that can be encoded as JSON; nil sends none.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body any) (*Response, error) {
	text, err := encode(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, c.header)
	request.Header.Set("Accept", "application/json, */*;q=0.5")
	if body != nil {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	response := &Response{Status: answer.StatusCode}
	for _, warning := range answer.Header.Values("Warning") {
		response.Warnings = append(response.Warnings, warningText(warning))
	}
	response.Body, err = io.ReadAll(answer.Body)
	return response, err
}

// warningText extracts the text from `299 - "text"`, or `299 agent "text"`.
func warningText(header string) string {
	if _, quoted, ok := strings.Cut(header, ` "`); ok {
		return strings.ReplaceAll(strings.TrimSuffix(quoted, `"`), `\"`, `"`)
	}
	return header
}

func encode(body any) ([]byte, error) {
	switch body := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return body, nil
	case string:
		return []byte(body), nil
	}
	return json.Marshal(body)
}

// Err returns nil for a success, else a *StatusError.
func (r *Response) Err() error {
	if r.Status < 300 {
		return nil
	}
	refusal := &StatusError{Code: r.Status, Message: string(r.Body)}
	if refusal.Object, _ = r.Object(); refusal.Object.String("kind") == "Status" {
		refusal.Reason, refusal.Message = refusal.Object.String("reason"), refusal.Object.String("message")
	}
	return refusal
}

// StatusError is a refusal by the API server.
type StatusError struct {
	Code            int
	Reason, Message string
	Object          Object // the whole Status, if it was one
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

// object sends a request and decodes the answer; a refusal is a *StatusError.
func (c *Client) object(ctx context.Context, method, path, contentType string, body any) (Object, error) {
	r, err := c.Do(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return r.Object()
}

// Get reads an object or a list.
func (c *Client) Get(ctx context.Context, path string) (Object, error) {
	return c.object(ctx, http.MethodGet, path, "", nil)
}

// Text reads a text, such as /readyz and /metrics.
func (c *Client) Text(ctx context.Context, path string) (string, error) {
	r, err := c.Do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return "", err
	}
	return string(r.Body), r.Err()
}

// Create posts an object to its collection.
func (c *Client) Create(ctx context.Context, path string, object any) (Object, error) {
	return c.object(ctx, http.MethodPost, path, "application/json", object)
}

// Update replaces an object.
func (c *Client) Update(ctx context.Context, path string, object any) (Object, error) {
	return c.object(ctx, http.MethodPut, path, "application/json", object)
}

// Patch changes an object; kind is one of the content types above.
func (c *Client) Patch(ctx context.Context, path, kind string, patch any) (Object, error) {
	return c.object(ctx, http.MethodPatch, path, kind, patch)
}

// Delete removes an object without a grace period, because no kubelet would terminate a pod.
func (c *Client) Delete(ctx context.Context, path string) (Object, error) {
	return c.object(ctx, http.MethodDelete, path, "application/json",
		Object{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
}
