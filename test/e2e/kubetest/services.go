package kubetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// services stand for the network of a cluster: they connect the API server to what is behind the ClusterIP of a
// Service. The API server reaches them as it reaches konnectivity, through an egress selector.
type services struct {
	cluster *Cluster
	socket  net.Listener

	mu    sync.Mutex
	known map[string]func() string // by namespace/name: the address of a backend, or "" if there is none
}

// egressFile makes the API server connect through the socket.
const egressFile = `{"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration", "egressSelections": [
	{"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": %q}}}}]}`

// openServices starts to listen, and returns the API server's flag.
func (c *Cluster) openServices() (flag string, err error) {
	s := &services{cluster: c, known: map[string]func() string{}}
	if s.socket, err = net.Listen("unix", c.file("egress.sock")); err != nil {
		return "", err
	}
	c.services = s
	go s.accept()
	file, err := c.write("egress.json", fmt.Sprintf(egressFile, c.file("egress.sock")))
	return "--egress-selector-config-file=" + file, err
}

// ServeService creates a Service in a namespace, both if they are missing, and connects it: backend returns the address
// for a new connection, or "" if no pod is ready. The API server then reaches the Service as in a real cluster; nothing
// else does.
func (c *Cluster) ServeService(ctx context.Context, namespace, name string, backend func() string) error {
	err := c.Apply(ctx, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, namespace))
	if err != nil {
		return err
	}
	err = c.Apply(ctx, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q, "namespace": %q},
		"spec": {"ports": [{"name": "https", "port": 443, "targetPort": "https"}]}}`, name, namespace))
	if err != nil {
		return err
	}
	c.services.mu.Lock()
	defer c.services.mu.Unlock()
	c.services.known[namespace+"/"+name] = backend
	return nil
}

func (s *services) accept() {
	for {
		client, err := s.socket.Accept()
		if err != nil {
			return
		}
		go s.connect(client)
	}
}

// connect answers the CONNECT that each connection begins with, and then only passes bytes on.
func (s *services) connect(client net.Conn) {
	defer client.Close()
	in := bufio.NewReader(client)
	request, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	backend, err := s.dial(request.Host)
	if err != nil {
		_, _ = fmt.Fprintf(client, "HTTP/1.1 502 %v\r\n\r\n", err)
		return
	}
	defer backend.Close()
	if _, err := fmt.Fprint(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	pass(client.(halfCloser), backend.(halfCloser))
}

// dial connects to a backend of the Service with that address, or to the address itself if it is no Service's, such as a
// kubelet's.
func (s *services) dial(address string) (net.Conn, error) {
	backend, known, err := s.backend(address)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return net.Dial("tcp", address)
	case backend == "":
		return nil, fmt.Errorf("connection refused: %s has no ready pod", address)
	}
	return net.Dial("tcp", backend)
}

// backend returns the address of a backend of the Service whose ClusterIP and port are address.
func (s *services) backend(address string) (backend string, known bool, err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", false, err
	}
	list, err := s.cluster.Admin().Get(context.Background(), "/api/v1/services")
	if err != nil {
		return "", false, err
	}
	for _, service := range list.List("items") {
		if service.String("spec", "clusterIP") != host {
			continue
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		next := s.known[service.String("metadata", "namespace")+"/"+service.String("metadata", "name")]
		if next == nil {
			return "", true, nil
		}
		return next(), true, nil
	}
	return "", false, nil
}
