package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const secret = "/api/v1/namespaces/usher/secrets/usher-tls"

// started returns a client of an API server that echoes each request.
func started(t *testing.T, answer http.HandlerFunc) Client {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), body)
}

func TestRequests(t *testing.T) {
	c, ctx, body := started(t, echo), context.Background(), []byte(`{}`)
	for _, row := range []struct {
		name, want string
		send       func() ([]byte, error)
	}{
		{"get", "GET " + secret + "  ", func() ([]byte, error) { return c.Get(ctx, secret) }},
		{"create", "POST /api/v1/x application/json {}", func() ([]byte, error) { return c.Create(ctx, "/api/v1/x", body) }},
		{"update", "PUT " + secret + "?fieldManager=me application/json {}", func() ([]byte, error) { return c.Update(ctx, secret, "me", body) }},
		{"apply", "PATCH " + secret + "?fieldManager=me&force=true application/apply-patch+yaml {}",
			func() ([]byte, error) { return c.Apply(ctx, secret, "me", true, body) }},
		{"dry apply", "PATCH " + secret + "?dryRun=All&fieldManager=me&force=false application/apply-patch+yaml {}",
			func() ([]byte, error) { return c.DryApply(ctx, secret, "me", false, body) }},
		{"delete", "", func() ([]byte, error) { return nil, c.Delete(ctx, secret) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, err := row.send(); err != nil || string(got) != row.want {
				t.Errorf("%s, %v; want %s", got, err, row.want)
			}
		})
	}
}

func TestErrorsAreTheAPIServers(t *testing.T) {
	c := started(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
			"message": "a field is owned by another", "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".data"}]}}`)
	})
	_, err := c.Apply(context.Background(), secret, "me", false, nil)
	if !apierrors.IsConflict(err) || err.Error() != "a field is owned by another" || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		t.Errorf("%v is no conflict, or does not say which", err)
	}
}

func TestAnAPIServerThatIsAway(t *testing.T) {
	c, err := New(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Get(context.Background(), secret)
	if _, answered := errors.AsType[*apierrors.StatusError](err); err == nil || answered {
		t.Errorf("%v", err)
	}
}

func TestNowIsTheAPIServersTime(t *testing.T) {
	there := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	c := started(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Date", there.Format(http.TimeFormat)) })
	if ahead := time.Until(c.Now()); ahead.Abs() > time.Hour {
		t.Errorf("before the first answer it is %s ahead of this machine", ahead)
	}
	if _, err := c.Get(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	if past := c.Now().Sub(there); past < 0 || past > time.Hour {
		t.Errorf("it is %s there, %s after the answer's date", c.Now(), past)
	}
}

func TestLoadConfigWithoutAny(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := LoadConfig("", "")
	if err == nil || !strings.Contains(err.Error(), "neither a kubeconfig file") {
		t.Errorf("LoadConfig without a kubeconfig file: %v", err)
	}
}
