package playground

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"usher.dev/usher/colocation"
	"usher.dev/usher/routes"
	"usher.dev/usher/server/suite"
)

const host = "127.0.0.1:8090"

func request(method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func ask(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestGuard: what only the page itself sends is answered, and nothing that a page of another origin can send.
func TestGuard(t *testing.T) {
	handler := New(Options{Suites: nil}, []string{host, "localhost:8090"})
	foreign := request("GET", "/start", "")
	foreign.Host = "evil.example:8090"
	for name, c := range map[string]struct {
		request *http.Request
		code    int
	}{
		"the page":                   {request("GET", "/", "", "Sec-Fetch-Site", "none"), 200},
		"its script":                 {request("GET", "/app.js", "", "Sec-Fetch-Site", "same-origin"), 200},
		"its question":               {request("POST", "/run", "{}", "Origin", "http://"+host, "Sec-Fetch-Site", "same-origin"), 200},
		"a name of another origin":   {foreign, 403},
		"an image of another page":   {request("GET", "/start", "", "Sec-Fetch-Site", "cross-site"), 403},
		"another port":               {request("POST", "/run", "{}", "Origin", "http://127.0.0.1:9000"), 403},
		"a page of a file":           {request("POST", "/run", "{}", "Origin", "null"), 403},
		"a form of another page":     {request("POST", "/run", "{}", "Content-Type", "text/plain"), 403},
		"not the JSON of the page":   {request("POST", "/run", `{"shell": "x"}`), 400},
		"more than it may send":      {request("POST", "/run", `{"object": "`+strings.Repeat("x", maxBody)+`"}`), 413},
		"a method that has no route": {request("DELETE", "/run", ""), 405},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(handler, c.request)
			if w.Code != c.code {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.code)
			}
			policy := w.Header().Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || w.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers: %v", w.Header())
			}
		})
	}
}

// TestPageIsSmall: the page has at most 300 KB, loads nothing from elsewhere, and has no script or style of its own
// between its tags, which the browser would not run.
func TestPageIsSmall(t *testing.T) {
	entries, err := page.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, e := range entries {
		text, err := page.ReadFile("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
		for _, banned := range []string{"http://", "//cdn", "<style", "style=", "onclick=", "innerHTML", "eval("} {
			if bytes.Contains(text, []byte(banned)) {
				t.Errorf("%s contains %q", e.Name(), banned)
			}
		}
		if strings.Count(string(text), "<script") != strings.Count(string(text), "<script type=\"module\" src=") {
			t.Errorf("%s has a script of its own between its tags", e.Name())
		}
	}
	if size > 300<<10 || size < 10<<10 {
		t.Errorf("the page has %d bytes", size)
	}
}

// TestDeepObject: an object that cannot be shown in time is refused, and quoted brackets do not count.
func TestDeepObject(t *testing.T) {
	handler := New(Options{Suites: nil}, []string{host})
	for object, want := range map[string]bool{
		`{"apiVersion":"v1","kind":"Pod","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`: true,
		`{"apiVersion":"v1","kind":"Pod","x":"\"` + strings.Repeat("[", 9000) + `"}`:                         false,
		`{"apiVersion":"v1","kind":"Pod","x":[` + strings.Repeat("[],", 9000) + `1]}`:                        false,
	} {
		body, err := json.Marshal(Input{Object: object, Policy: "{}"})
		if err != nil {
			t.Fatal(err)
		}
		if w := ask(handler, request("POST", "/run", string(body))); strings.Contains(w.Body.String(), "in one another") != want {
			t.Errorf("%.300s, want a problem: %v", w.Body, want)
		}
	}
}

// TestSlips: what is misspelt in the policy and the cluster is a problem at its line, and objects are counted together in one run alone.
func TestSlips(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n---\n"
	in := Input{Object: pod + strings.Replace(pod, "name: a", "name: b", 1),
		Cluster: "apiVersion: v1\nkind: Namespac\n---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limit: []\n---\n" +
			"{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: default}, spec: {hard: {pods: 1}}}\n",
		Policy: "rules:\n- name: a\n  match: {apiGroups: [\"\"], resources: [pod], operations: [CREATE]}\n  validations: [{expression: 'true'}]\n"}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	handler := New(Options{Suites: routes.Suites()}, []string{host})
	for range 2 {
		text := ask(handler, request("POST", "/run", string(body))).Body.String()
		for _, want := range []string{`"tab":"cluster","line":1,"text":"kind Namespac: apiVersion v1 has no such kind; did you mean Namespace?"`,
			`"tab":"cluster","line":8,"text":"spec.limit: unknown field; did you mean limits?"`, `"tab":"policy","line":3,"text":"rules[0].match.resources[0]`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %.2000s", want, text)
			}
		}
		if strings.Count(text, `"verdict":"invalid"`) != 1 {
			t.Errorf("not one is invalid: %.3000s", text)
		}
	}
}

// FuzzRun: whatever is typed, there is an answer.
func FuzzRun(f *testing.F) {
	f.Add(`{"object": "a: b", "policy": "names: [", "cluster": "kind: 1", "gates": "A=b"}`)
	handler := New(Options{Suites: nil}, []string{host})
	f.Fuzz(func(t *testing.T, body string) {
		if w := ask(handler, request("POST", "/run", body)); w.Code == 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestStoredBeside: a Namespace beside the object is known to the steps, whose answer differs without it.
func TestStoredBeside(t *testing.T) {
	handler := New(Options{Suites: suite.List{colocation.Suite()}}, []string{host})
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: apps}\nspec: {containers: [{name: app, image: nginx}]}\n"
	const profile = "apiVersion: config.koordinator.sh/v1alpha1\nkind: ClusterColocationProfile\nmetadata: {name: p}\nspec: {namespaceSelector: {matchLabels: {team: %s}}, labels: {set: by-the-profile}}\n"
	const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: apps, labels: {team: web}}\n"
	for _, c := range []struct{ name, object, team, verdict, contains string }{
		{"none", pod, "web", "not judged", "which stands neither beside the object nor under Cluster"},
		{"selected", pod + namespace, "web", "allowed", `by-the-profile`},
		{"not selected", pod + namespace, "db", "allowed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := json.Marshal(Input{Object: c.object, Policy: "{}", Cluster: fmt.Sprintf(profile, c.team)})
			if err != nil {
				t.Fatal(err)
			}
			var answer struct {
				Objects []struct {
					Report struct {
						Name, Verdict string
						After         json.RawMessage
						Unjudged      []string
					}
				}
			}
			w := ask(handler, request("POST", "/run", string(body)))
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Objects) == 0 {
				t.Fatalf("%v: %s", err, w.Body)
			}
			report := answer.Objects[0].Report
			all := string(report.After) + strings.Join(report.Unjudged, "")
			if report.Name != "web" || report.Verdict != c.verdict || !strings.Contains(all, c.contains) || strings.Contains(all, "by-the-profile") != (c.contains == "by-the-profile") {
				t.Errorf("%+v", report)
			}
		})
	}
}
