package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"usher.dev/usher/test/reviews"
)

// connection is one kept-alive HTTP/1.1 connection over TLS 1.3. It is minimal because it shares the machine with the
// server.
type connection struct {
	tls    *tls.Conn
	reader *bufio.Reader
	body   bytes.Buffer // of the last answer
}

// clientConfig trusts the CA of the servers. TLS records have their full size from the start, as on a warm connection.
func clientConfig(ca []byte) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the CA is no certificate")
	}
	return &tls.Config{
		RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		DynamicRecordSizingDisabled: true,
	}, nil
}

// connect opens n connections.
func connect(ctx context.Context, address string, config *tls.Config, n int) (list []*connection, err error) {
	dialer := tls.Dialer{Config: config}
	for range n {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			closeAll(list)
			return nil, err
		}
		secure := conn.(*tls.Conn)
		list = append(list, &connection{tls: secure, reader: bufio.NewReaderSize(secure, 32<<10)})
	}
	return list, nil
}

func closeAll(list []*connection) {
	for _, c := range list {
		_ = c.tls.NetConn().Close()
	}
}

// requestBytes returns a review as the API server sends it, headers and body.
func requestBytes(r reviews.Review) []byte {
	return fmt.Appendf(nil, "POST %s?timeout=10s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"+
		"Content-Length: %d\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n%s",
		r.Path, len(r.Body), r.Body)
}

// post sends a request and returns the body of the answer, which is valid until the next post. It fails unless the
// status is 200.
func (c *connection) post(request []byte) ([]byte, error) {
	if _, err := c.tls.Write(request); err != nil {
		return nil, err
	}
	status, err := c.line()
	if err != nil {
		return nil, err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 200 "))
	text := string(status[:min(len(status), 40)])
	body, err := c.rest()
	if err == nil && !ok {
		err = fmt.Errorf("answered %s: %s", text, body[:min(len(body), 400)])
	}
	return body, err
}

// line returns the next line without its line ending.
func (c *connection) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// rest reads the headers and the body.
func (c *connection) rest() ([]byte, error) {
	length := int64(-1)
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
				return nil, err
			}
		}
	}
	c.body.Reset()
	if length >= 0 {
		_, err := io.CopyN(&c.body, c.reader, length)
		return c.body.Bytes(), err
	}
	if _, err := c.body.ReadFrom(httputil.NewChunkedReader(c.reader)); err != nil {
		return nil, err
	}
	_, err := c.line() // the empty line after the last chunk
	return c.body.Bytes(), err
}

// burst sends n requests over the connections and checks every answer. A connection sends its next request after the
// answer to the last. burst returns the total time and the sorted times of the requests.
func burst(ctx context.Context, list []*connection, n int, request []byte, check func([]byte) error) (time.Duration, []time.Duration, error) {
	defer context.AfterFunc(ctx, func() { closeAll(list) })()
	var sent atomic.Int64
	var group sync.WaitGroup
	latencies, errs := make([][]time.Duration, len(list)), make([]error, len(list))
	for i := range list {
		latencies[i] = make([]time.Duration, 0, n/len(list)*2+1)
	}
	begin := time.Now()
	for i, c := range list {
		group.Go(func() {
			for sent.Add(1) <= int64(n) && errs[i] == nil {
				start := time.Now()
				body, err := c.post(request)
				latencies[i] = append(latencies[i], time.Since(start))
				if err == nil {
					err = check(body)
				}
				errs[i] = err
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return took, all, firstError(ctx, errs)
}

// firstError prefers the cause for which everything was canceled.
func firstError(ctx context.Context, errs []error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
