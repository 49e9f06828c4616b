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

// History returns every change of the keys with a prefix, from the start of the cluster up to a revision that has been
// reached already. A watch of the API server would miss changes while the API server restarts. The history is complete
// if etcd is never compacted: --etcd-compaction-interval=0.
func (c *Cluster) History(ctx context.Context, prefix string, upTo int64, each func(Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch on return
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	encode := func(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }
	body := fmt.Sprintf(`{"create_request": {"key": %q, "range_end": %q, "start_revision": "1"}}`, encode(prefix), encode(end))
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
		if done, err := line.each(upTo, each); done || err != nil {
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

// each calls a function for the changes of a line; it is done when the revision is reached.
func (l *watchLine) each(upTo int64, each func(Change) error) (done bool, err error) {
	if l.Error != nil || l.Result.Canceled {
		return true, fmt.Errorf("etcd gives no history: %s %s", l.Error, l.Result.CancelReason)
	}
	for _, e := range l.Result.Events {
		revision, err := strconv.ParseInt(e.KV.ModRevision, 10, 64)
		if err != nil {
			return true, err
		}
		if revision > upTo {
			return true, nil
		}
		if err := each(Change{revision, string(e.KV.Key), e.Type == "DELETE", e.KV.Value}); err != nil {
			return true, err
		}
		done = revision == upTo
	}
	return done, nil
}
