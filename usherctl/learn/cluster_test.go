package learn

import (
	"context"
	"maps"
	"strings"
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

// TestRunIt: the lesson with the lab is done only if the learner's webhook is registered, and has changed the pod.
func TestRunIt(t *testing.T) {
	const hook, web, paid = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/team", "/api/v1/namespaces/own/pods/web", "/api/v1/namespaces/own/pods/paid"
	all, err := Lessons()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Find(all, "28")
	if err != nil {
		t.Fatal(err)
	}
	registered := func(client, policy string) string {
		return `{"webhooks": [{"clientConfig": {"caBundle": "QQ==", ` + client + `}, "failurePolicy": "` + policy + `"}]}`
	}
	for name, c := range map[string]struct {
		differs map[string]string // from the right state; empty: not there
		says    string
	}{
		"right":                     {nil, ""},
		"right-another-port":        {map[string]string{hook: registered(`"url": "https://127.0.0.1:9000/a"`, "Fail")}, ""},
		"right-localhost":           {map[string]string{hook: registered(`"url":"https://localhost:8443/mutate"`, "Fail")}, ""},
		"wrong-not-registered":      {map[string]string{hook: ""}, "not registered"},
		"wrong-by-service":          {map[string]string{hook: registered(`"service": {"name": "a"}`, "Fail")}, "by URL"},
		"wrong-elsewhere":           {map[string]string{hook: registered(`"url": "https://example.com/127.0.0.1"`, "Fail")}, "by URL"},
		"wrong-ignored":             {map[string]string{hook: registered(`"url": "https://127.0.0.1:8443/mutate"`, "Ignore")}, "failurePolicy"},
		"wrong-created-before":      {map[string]string{web: `{"metadata": {"name": "web"}}`}, "older than the registration"},
		"wrong-team-taken":          {map[string]string{paid: `{"metadata": {"labels": {"team": "nobody"}}}`}, "keep a team"},
		"wrong-labelled-by-hand":    {map[string]string{"pods.yaml": "metadata: {name: web, labels: {team: nobody}}"}, "must set the label"},
		"wrong-only-one-of-the-two": {map[string]string{paid: ""}, "not there"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := map[string]string{hook: registered(`"url": "https://127.0.0.1:8443/mutate"`, "Fail"),
				web: `{"metadata": {"labels": {"team": "nobody"}}}`, paid: `{"metadata": {"labels": {"team": "billing"}}}`}
			maps.Copy(objects, c.differs)
			course := Course{t.TempDir()}
			if _, err := course.Begin(l); err != nil {
				t.Fatal(err)
			}
			if text := objects["pods.yaml"]; text != "" {
				if err := Write(course.Folder(l), map[string][]byte{"pods.yaml": []byte(text)}); err != nil {
					t.Fatal(err)
				}
			}
			v, err := l.Check(t.Context(), course.Folder(l), Tools{Get: func(_ context.Context, path string) ([]byte, error) {
				if objects[path] == "" {
					return nil, nil
				}
				return []byte(objects[path]), nil
			}})
			if err != nil || v.Done() != (c.says == "") || !strings.Contains(v.Missing, c.says) {
				t.Errorf("%+v, %v; want %q", v, err, c.says)
			}
		})
	}
}
