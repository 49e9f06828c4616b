package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// forget removes etcd's history, as the API server does every five minutes: so that each round begins with the same
// database, and no compaction falls into a round.
func forget(ctx context.Context, etcdURL string) error {
	var status struct {
		Header struct{ Revision string }
	}
	if err := gateway(ctx, etcdURL+"/v3/maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	err := gateway(ctx, etcdURL+"/v3/kv/compaction", map[string]any{"revision": status.Header.Revision, "physical": true}, &struct{}{})
	if err != nil && strings.Contains(err.Error(), "has been compacted") {
		return nil // nothing was written since
	}
	return err
}

// gateway calls etcd's JSON gateway.
func gateway(ctx context.Context, url string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	text, err := ask(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// ask returns the answer of a URL of etcd.
func ask(ctx context.Context, method, url string, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	return send(http.DefaultClient, request)
}

// send returns the body of an answer, which must be 200.
func send(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", request.URL, response.Status, text)
	}
	return text, err
}
