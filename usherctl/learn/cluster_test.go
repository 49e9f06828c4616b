package learn

import (
	"context"
	"maps"
	"testing"
)

// TestRescue: the lesson that needs a cluster is done only if the right configuration is gone, and the pods are there.
func TestRescue(t *testing.T) {
	const hooks, shop, web = "/apis/admissionregistration.k8s.io/v1/", "/apis/apps/v1/namespaces/learn/deployments/shop", "/api/v1/namespaces/learn/pods/web"
	all, err := Lessons()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Find(all, "22")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		differs map[string]string // from the rescued cluster; empty: not there
		done    bool
	}{
		"right":                         {nil, true},
		"right-more-pods":               {map[string]string{shop: `{"status": {"readyReplicas": 12}}`}, true},
		"right-pod-started":             {map[string]string{web: `{"spec": {"nodeName": "node-2"}, "status": {"phase": "Running"}}`}, true},
		"wrong-ignored-and-not-removed": {map[string]string{hooks + "validatingwebhookconfigurations/guard": `{"webhooks": [{"failurePolicy": "Ignore"}]}`}, false},
		"wrong-all-removed":             {map[string]string{hooks + "validatingwebhookconfigurations/usher": ""}, false},
		"wrong-mutating-removed":        {map[string]string{hooks + "mutatingwebhookconfigurations/usher": ""}, false},
		"wrong-webhooks-removed":        {map[string]string{hooks + "validatingwebhookconfigurations/usher": `{"webhooks": []}`}, false},
		"wrong-deployment-removed":      {map[string]string{shop: ""}, false},
		"wrong-pod-elsewhere":           {map[string]string{web: ""}, false},
		"wrong-pod-without-a-node":      {map[string]string{web: `{"spec": {}}`}, false},
		"wrong-no-ready-pod":            {map[string]string{shop: `{"status": {"replicas": 1}}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := map[string]string{
				hooks + "validatingwebhookconfigurations/usher": `{"webhooks": [{"name": "validate-pods.usher.dev"}]}`,
				hooks + "mutatingwebhookconfigurations/usher":   `{"webhooks": [{"name": "mutate-pods.usher.dev"}]}`,
				web:  `{"spec": {"nodeName": "node-1"}}`,
				shop: `{"status": {"readyReplicas": 1}}`,
			}
			maps.Copy(objects, c.differs)
			v, err := l.Check(t.Context(), t.TempDir(), Tools{Get: func(_ context.Context, path string) ([]byte, error) {
				if objects[path] == "" {
					return nil, nil
				}
				return []byte(objects[path]), nil
			}})
			if err != nil || v.Done() != c.done {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}
