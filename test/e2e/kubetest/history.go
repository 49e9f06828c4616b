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

// Change is one write to etcd: the revision is what the API server calls resourceVersion, of all kinds of objects in one order.
type Change struct {
	Revision int64
	Key      string // such as /registry/pods/apps/web
	Deleted  bool
	Value    []byte // as the API server stores it: protobuf of its own kinds, JSON of custom resources; nil of a deletion
}

// History gives every change of the keys with a prefix, from the cluster's first hour up to a revision that was reached already. A watch
// of the API server would tell of the same, but what it misses while the API server restarts is lost to it. Nothing is missing as
// long as nothing is compacted: --etcd-compaction-interval=0.
func (c *Cluster) History(ctx context.Context, prefix string, upTo int64, each func(Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a watch ends when we do
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

// watchLine is what etcd's gateway says at a time. It leaves out what is empty, and writes numbers as text.
type watchLine struct {
	Error  json.RawMessage
	Result struct {
		Canceled     bool
		CancelReason string `json:"cancel_reason"`
		Events       []struct {
			Type string // PUT is left out
			KV   struct {
				Key, Value  []byte
				ModRevision string `json:"mod_revision"`
			}
		}
	}
}

// each tells of a line's changes; done when the revision is reached.
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
