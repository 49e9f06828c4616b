package collections

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"usher.dev/usher/cluster"
)

const koordinatorPods = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",
	"webhooks":[{"name":"mpod-create.koordinator.sh","rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}]}`

// notFound answers like an API server for a missing object.
func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
}

func TestCheckConflictingWebhooks(t *testing.T) {
	const mutating = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/koordinator-mutating-webhook-configuration"
	cases := []struct {
		name      string
		answer    func(http.ResponseWriter)
		resources []string
		conflict  bool
		says      string // the text of the error
	}{
		{"no Koordinator", notFound, []string{"pods"}, false, ""},
		{"for the same resource", body(koordinatorPods), []string{"nodes/status", "pods"}, true, "registered for pods, and"},
		{"for another resource", body(koordinatorPods), []string{"nodes/status"}, false, ""},
		{"switched off", body(`{"webhooks":[]}`), []string{"pods"}, false, ""},
		{"unreadable", body(`{"webhooks":"x"}`), []string{"pods"}, false, "looking for Koordinator's webhooks"},
		{"not allowed", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, []string{"pods"}, false, "looking for Koordinator's webhooks"},
	}
	for _, c := range cases {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == mutating {
				c.answer(w)
			} else {
				notFound(w)
			}
		}))
		at, err := cluster.API(&rest.Config{Host: server.URL}, keeping())
		if err != nil {
			t.Fatal(err)
		}
		err = CheckConflictingWebhooks(t.Context(), at, c.resources)
		server.Close()
		if errors.Is(err, ErrConflictingWebhooks) != c.conflict || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func body(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, text)
	}
}
