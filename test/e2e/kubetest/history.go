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
	encode := func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }
	body := fmt.Sprintf(`{"create_request": {"key": %q, "range_end": %q, "start_revision": "%d"}}`, encode(prefix), encode(end), from)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, localURL(c.ports.etcd)+"/v3/watch", strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
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
