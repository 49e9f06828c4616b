package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Watch calls each with every object of a collection, and then with every change, until the watch breaks, ctx ends or
// each returns an error: it never returns nil. The kinds are ADDED, MODIFIED and DELETED. The path has a query, which
// may be empty: /api/v1/pods?
func (c *Client) Watch(ctx context.Context, path string, each func(kind string, object json.RawMessage) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path+"&watch=true", nil)
	if err != nil {
		return err
	}
	request.Header = c.header.Clone()
	request.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("watch %s: %s", path, answer.Status)
	}
	for events := json.NewDecoder(answer.Body); ; {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if event.Type == "ERROR" {
			return fmt.Errorf("watch %s: %s", path, event.Object)
		}
		if err := each(event.Type, event.Object); err != nil {
			return err
		}
	}
}
