package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/internal/apiserver"
)

// answering returns a client of an API server that answers every request in one way.
func answering(t *testing.T, answer func(r *http.Request) (code int, reason, message string)) apiserver.Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, reason, message := answer(r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "message": %q, "code": %d}`, reason, message, code)
	}))
	t.Cleanup(server.Close)
	client, err := apiserver.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestPlanMeetsAnotherWriter: a configuration that changes between the read and the dry run, as when a replica writes the
// caBundle, is read again by the caller.
func TestPlanMeetsAnotherWriter(t *testing.T) {
	r := Registrar{At: Address{Namespace: "usher", Service: "usher", CABundle: []byte("x")}}
	r.Client = answering(t, func(*http.Request) (int, string, string) {
		return http.StatusConflict, "Conflict", "the object has been modified"
	})
	if _, _, err := r.try(t.Context(), &part{apply: needed(nil, r.At)[0]}); !errors.Is(err, ErrChanged) {
		t.Errorf("%v", err)
	}
}

// TestRemoveWithoutRights: the error names the missing verb, and the other configuration is removed all the same.
func TestRemoveWithoutRights(t *testing.T) {
	var asked []string
	client := answering(t, func(r *http.Request) (int, string, string) {
		asked = append(asked, r.Method)
		if strings.Contains(r.URL.Path, "mutatingwebhook") {
			return http.StatusForbidden, "Forbidden", "User x cannot delete"
		}
		return http.StatusOK, "", ""
	})
	gone, err := Remove(t.Context(), client)
	if err == nil || !strings.Contains(err.Error(), "delete") || strings.Contains(err.Error(), "components/registration") {
		t.Errorf("%v", err)
	}
	if len(gone) != 1 || gone[0] != "ValidatingWebhookConfiguration" {
		t.Errorf("gone: %v after %v", gone, asked)
	}
}

// TestEntriesOfOthers: their caBundles are not usher's, and usher does not wait for a caBundle that they do not need.
func TestEntriesOfOthers(t *testing.T) {
	foreign := Hook{Name: "of.somebody.else", ClientConfig: registration.WebhookClientConfig{Service: &registration.ServiceReference{}}}
	usher := Hook{Name: "validate-pods.usher.dev", ClientConfig: registration.WebhookClientConfig{Service: &registration.ServiceReference{}, CABundle: []byte("usher's")}}
	if _, unbundled := (configuration{Webhooks: []Hook{foreign, usher}}).openFailing(); unbundled {
		t.Error("usher waits for the caBundle of somebody else")
	}
	if got := (configuration{Webhooks: []Hook{foreign, usher}}).others(); len(got) != 1 || got[0] != "of.somebody.else" {
		t.Errorf("others: %v", got)
	}
	foreign.ClientConfig.CABundle = []byte("theirs")
	if got := string(configuration{Webhooks: []Hook{foreign, usher}}.bundle()); got != "usher's" {
		t.Errorf("caBundle: %s", got)
	}
	if got := (configuration{Webhooks: []Hook{foreign}}).bundle(); got != nil {
		t.Errorf("caBundle: %s", got)
	}
}

// TestPlanNamesTheWayOut: a result that the API server refuses, such as an entry with a URL and a Service.
func TestPlanNamesTheWayOut(t *testing.T) {
	r := Registrar{At: Address{Namespace: "usher", Service: "usher", CABundle: []byte("x")}}
	r.Client = answering(t, func(*http.Request) (int, string, string) {
		return http.StatusUnprocessableEntity, "Invalid", "exactly one of url or service is required"
	})
	_, _, err := r.try(t.Context(), &part{apply: needed(nil, r.At)[0]})
	if err == nil || !strings.Contains(err.Error(), "exactly one") || !strings.Contains(err.Error(), "usher webhooks remove") {
		t.Errorf("%v", err)
	}
}

// TestAnotherInstallation: a second installation does not silently take over the registration of the first.
func TestAnotherInstallation(t *testing.T) {
	calls := func(name, namespace, service string) configuration {
		return configuration{Webhooks: []Hook{{Name: name, ClientConfig: registration.WebhookClientConfig{
			Service: &registration.ServiceReference{Namespace: namespace, Name: service}}}}}
	}
	at := Address{Namespace: "usher", Service: "usher"}
	for _, test := range []struct {
		name string
		is   configuration
		want string
	}{
		{"none", configuration{}, ""},
		{"this one", calls("validate-pods.usher.dev", "usher", "usher"), ""},
		{"another namespace", calls("validate-pods.usher.dev", "team", "usher"), "team/usher"},
		{"another Service", calls("validate-pods.usher.dev", "usher", "other"), "usher/other"},
		{"somebody else's entry", calls("of.somebody.else", "team", "other"), ""},
		{"a URL", configuration{Webhooks: []Hook{{Name: "validate-pods.usher.dev"}}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.is.elsewhere(at); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s is sent", r.Method)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind": "MutatingWebhookConfiguration", "metadata": {"name": "usher"}, "webhooks": [
			{"name": "validate-pods.usher.dev", "clientConfig": {"service": {"namespace": "team", "name": "usher"}}}]}`)
	}))
	t.Cleanup(answers.Close)
	client, err := apiserver.New(&rest.Config{Host: answers.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Registrar{Client: client, At: at}.Plan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "team/usher") || !strings.Contains(err.Error(), "--force-conflicts") {
		t.Errorf("%v", err)
	}
}
