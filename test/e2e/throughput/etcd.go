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
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", url, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}
