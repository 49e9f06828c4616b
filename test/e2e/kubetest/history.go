package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Change is one write to etcd. The revision is the resourceVersion of the API server, with one order for all kinds of
// objects.
type Change struct {
	Revision int64
	Key      string // such as /registry/pods/apps/web
	Deleted  bool
	Value    []byte // as the API server stores it: protobuf for its own kinds, JSON for custom resources; nil for a deletion
}

// Changes calls each with every change of the keys with a prefix, from a revision on, as they happen, until ctx ends or
// each returns an error. It reads from etcd: a watch of the API server would miss changes while the API server
// restarts. Nothing is missing if etcd is never compacted: --etcd-compaction-interval=0.
func (c *Cluster) Changes(ctx context.Context, prefix string, from int64, each func(Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch on return
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	answer, err := c.askEtcd(ctx, "/v3/watch", fmt.Sprintf(`{"create_request": {"key": %q, "range_end": %q, "start_revision": "%d"}}`,
		encodeKey(prefix), encodeKey(end), from))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); ; {
		var line watchLine
		if err := lines.Decode(&line); err != nil {
			return fmt.Errorf("etcd's history of %s: %w", prefix, err)
		}
		if err := line.each(each); err != nil {
			return err
		}
	}
}

// Writes returns how often the object at a key has been written to etcd since it was created, and with its creation.
func (c *Cluster) Writes(ctx context.Context, key string) (int, error) {
	answer, err := c.askEtcd(ctx, "/v3/kv/range", fmt.Sprintf(`{"key": %q, "keys_only": true}`, encodeKey(key)))
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var found struct{ KVs []struct{ Version string } }
	if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
		return 0, fmt.Errorf("etcd's key %s: %w", key, err)
	}
	if len(found.KVs) != 1 {
		return 0, fmt.Errorf("etcd has no key %s", key)
	}
	return strconv.Atoi(found.KVs[0].Version)
}

func encodeKey(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }

// askEtcd sends a request to etcd's gateway.
func (c *Cluster) askEtcd(ctx context.Context, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, localURL(c.ports.etcd)+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// watchLine is one message of etcd's gateway. The gateway omits empty values, and writes numbers as strings.
type watchLine struct {
	Error  json.RawMessage
	Result struct {
		Canceled     bool
		CancelReason string `json:"cancel_reason"`
		Events       []struct {
			Type string // omitted for PUT
			KV   struct {
				Key, Value  []byte
				ModRevision string `json:"mod_revision"`
			}
		}
	}
}

// each calls a function with the changes of a line.
func (l *watchLine) each(each func(Change) error) error {
	if l.Error != nil || l.Result.Canceled {
		return fmt.Errorf("etcd gives no history: %s %s", l.Error, l.Result.CancelReason)
	}
	for _, e := range l.Result.Events {
		revision, err := strconv.ParseInt(e.KV.ModRevision, 10, 64)
		if err != nil {
			return err
		}
		if err := each(Change{revision, string(e.KV.Key), e.Type == "DELETE", e.KV.Value}); err != nil {
			return err
		}
	}
	return nil
}
