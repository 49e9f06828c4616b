package live

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/suite"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/validators"
)

// pods is a suite with one route.
var pods = suite.List{{Name: "pods",
	Collections: func(suite.Options) []cluster.Declared {
		return []cluster.Declared{cluster.Namespaces, cluster.LimitRanges}
	},
	Routes: func(e suite.Env) []admit.Route {
		return []admit.Route{{Path: "/validate-pods", Suite: "pods", For: admit.Pods(admissionv1.Create), Chain: suite.Validate(e, admit.AsPod, validators.Pods)}}
	}}}

// serve runs usher with a policy, and returns where its metrics are.
func serve(t *testing.T, policy string) *url.URL {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	serving, ended := make(chan server.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(t.Context(), server.Options{Suites: pods, Version: "1.2.3", Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Config: file,
			Certificates: server.Certificates{StateDir: t.TempDir()}, Serving: func(at server.Addresses) { serving <- at }})
	}()
	select {
	case err := <-ended:
		t.Fatal(err)
	case at := <-serving:
		t.Cleanup(func() { t.Log(<-ended) })
		return &url.URL{Scheme: "http", Host: at.Operations}
	}
	return nil
}

// TestReadRunning: what the pods of usher say of their steps is read through the API server, and compared with the steps here.
func TestReadRunning(t *testing.T) {
	const ready = `{"addresses":["10.0.0.1"],"conditions":{"ready":%t},"targetRef":{"kind":"Pod","name":"usher-%d"}}`
	usher := httputil.NewSingleHostReverseProxy(serve(t, "modes: {denied-names: warn}"))
	proxied := http.StripPrefix("/api/v1/namespaces/door/pods/usher-0:9999/proxy", usher)
	same, one := []string{"modes: {denied-names: warn}"}, fmt.Sprintf(ready, true, 0)
	for _, c := range []struct {
		name, endpoints, says, unread string
		here                          []string // policies of which each has a route
		ignoreModes                   bool
	}{
		{"the same", one + "," + fmt.Sprintf(ready, false, 1), "", "", same, false},
		{"another mode", one, "usher-0 runs denied-names of /validate-pods in mode warn instead of enforce", "", []string{"{}"}, false},
		{"another mode, which is not compared", one, "", "", []string{"{}"}, true},
		{"no route here", one, "usher-0 also has denied-names of /validate-pods, image-rules of /validate-pods, ", "", nil, false},
		{"another route here", one, "usher-0 lacks denied-names of /1, ", "", append(same, "{}"), false},
		{"no pod is ready", fmt.Sprintf(ready, false, 1), "", "", nil, false},
		{"one that is not permitted", one + "," + fmt.Sprintf(ready, true, 1), "", "pods/proxy in namespace door may not be read: ", same, false},
		{"an older one", one + "," + fmt.Sprintf(ready, true, 2), "", "usher's pod usher-2, version 1.2.2, does not tell its steps", same, false},
		{"no pods", `{"addresses":["10.0.0.1"]}`, "", "the endpoints of usher are no pods", same, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := serving(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/endpointslices"):
					_, _ = fmt.Fprintf(w, `{"items":[{"metadata":{"labels":{"kubernetes.io/service-name":"other"}},"endpoints":[{}]},
						{"metadata":{"labels":{"kubernetes.io/service-name":"usher"}},"endpoints":[%s]}]}`, c.endpoints)
				case strings.Contains(r.URL.Path, "usher-0:9999"):
					proxied.ServeHTTP(w, r)
				case strings.Contains(r.URL.Path, "usher-2:9999"):
					_, _ = fmt.Fprintln(w, `usher_build_info{version="1.2.2"} 1`)
				default:
					w.WriteHeader(http.StatusForbidden)
				}
			})
			deployed := installed.Usher{Arguments: []string{"serve", "--ops-listen=:9999"}}
			running, err := ReadRunning(t.Context(), source, webhooks.Address{Namespace: "door", Service: "usher"}, deployed, routesOf(t, c.here), !c.ignoreModes)
			if text := fmt.Sprint(err); (err == nil) != (c.unread == "") || !strings.Contains(text, c.unread) {
				t.Errorf("unread: %s, want %q", text, c.unread)
			}
			if text := strings.Join(running.Differ, "; "); (text == "") != (c.says == "") || !strings.HasPrefix(text, c.says) {
				t.Errorf("it differs by %q, want %q", text, c.says)
			}
			if strings.Contains(c.endpoints, `true},"targetRef":{"kind":"Pod","name":"usher-0`) != slices.Contains(running.Versions, "1.2.3") {
				t.Errorf("versions: %q", running.Versions)
			}
		})
	}
}

// routesOf returns the routes of instances with policies; from the second on their paths are numbers.
func routesOf(t *testing.T, policies []string) (all []admit.Route) {
	t.Helper()
	for i, text := range policies {
		policy, problems := config.Parse([]byte(text+"\n"), pods.Schema())
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for _, r := range (suite.Instance{Suites: pods, Policy: policy}).Routes() {
			if i > 0 {
				r.Path = fmt.Sprintf("/%d", i)
			}
			all = append(all, r)
		}
	}
	return all
}

// serving returns a source that asks an API server of the test.
func serving(t *testing.T, answer http.HandlerFunc) reader.Source {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	client, err := apiserver.New(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return reader.API(client)
}
