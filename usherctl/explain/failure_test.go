package explain

import (
	"cmp"
	"encoding/json"
	"testing"

	"usher.dev/usher/cluster/reader"
)

// TestFailures: events of both API groups, and conditions; the newest failure of the right object wins.
func TestFailures(t *testing.T) {
	owners := []Owner{{"Deployment", "web", "1"}, {"ReplicaSet", "web-a", "2"}}
	const (
		old   = `{"reason":"FailedCreate","message":"old","count":3,"involvedObject":{"kind":"ReplicaSet","name":"web-a","uid":"2"},"lastTimestamp":"2026-11-22T12:00:00Z","firstTimestamp":"2026-11-22T11:00:00Z","eventTime":null}`
		later = `{"reason":"FailedCreate","note":"later","regarding":{"kind":"ReplicaSet","name":"web-a","uid":"2"},"eventTime":"2026-11-22T11:00:00.000001Z","series":{"count":7,"lastObservedTime":"2026-11-22T12:00:01.500000Z"}}`
		other = `{"reason":"FailedCreate","message":"other","involvedObject":{"kind":"ReplicaSet","name":"web-b"},"lastTimestamp":"2026-11-22T13:00:00Z"}`
		gone  = `{"reason":"FailedCreate","message":"of a deleted ` +
			`one","involvedObject":{"kind":"ReplicaSet","name":"web-a","uid":"9"},"lastTimestamp":"2026-11-22T13:00:00Z"}`
		fine = `{"reason":"SuccessfulCreate","message":"fine","involvedObject":{"kind":"ReplicaSet","name":"web-a","uid":"2"},"lastTimestamp":"2026-11-22T13:00:00Z"}`
	)
	condition := `{"status":{"conditions":[{"type":"ReplicaFailure","status":"True","message":"condition","lastTransitionTime":"2026-11-22T12:30:00Z"}]}}`
	for _, c := range []struct {
		name       string
		events     []string
		condition  string
		want       string
		count      int
		unreadable int
	}{
		{"v1", []string{old}, "", "old", 3, 0},
		{"events.k8s.io", []string{later}, "", "later", 7, 0},
		{"the newest", []string{old, later}, "", "later", 7, 0},
		{"of others", []string{other, gone, fine}, "", "", 0, 0},
		{"a newer condition", []string{old, later}, condition, "condition", 0, 0},
		{"a condition that is false", nil, `{"status":{"conditions":[{"type":"ReplicaFailure","status":"False"}]}}`, "", 0, 0},
		{"unreadable", []string{`{"reason":1}`, old}, "", "old", 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var events []json.RawMessage
			for _, e := range c.events {
				events = append(events, json.RawMessage(e))
			}
			found, unreadable := Failures(events, owners)
			o, _ := newObject(reader.NewKind("apps", "v1", "ReplicaSet", "replicasets"), []byte(cmp.Or(c.condition, "{}")))
			if f, has := o.failure(); has {
				found = append(found, f)
			}
			newest, has := Newest(found)
			if has != (c.want != "") || newest.Message != c.want || newest.Count != c.count || unreadable != c.unreadable {
				t.Errorf("%+v, %d unreadable", newest, unreadable)
			}
		})
	}
}
