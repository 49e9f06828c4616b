package callers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })

// TestLoopbackOnly: only the two addresses of this machine, whatever the headers say.
func TestLoopbackOnly(t *testing.T) {
	for from, served := range map[string]bool{
		"127.0.0.1:1234": true, "[::1]:1234": true, "[::ffff:127.0.0.1]:1234": true,
		"192.0.2.1:1234": false, "[2001:db8::1]:1234": false, "": false, "127.0.0.1": false,
		"127.0.0.6:1234": false, // the address from which a service mesh's proxy forwards requests
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/quotas?pods=true", nil)
		r.RemoteAddr, r.Host = from, "127.0.0.1"
		for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded"} { // any client may set these
			r.Header.Set(header, "127.0.0.1")
		}
		w := httptest.NewRecorder()
		LoopbackOnly(page).ServeHTTP(w, r)
		text := w.Body.String()
		if served != (w.Code == 200) || !served && (w.Code != 403 || !strings.Contains(text, "kubectl -n usher port-forward deploy/usher 8081, then curl 127.0.0.1:8081/debug/quotas;")) {
			t.Errorf("from %q: %d %s", from, w.Code, text)
		}
	}
}

// TestLoopbackOnlyByAddress: the name in the URL is a name of this machine. A page of another origin, whose name an
// attacker resolves to 127.0.0.1, would otherwise be read by the browser of a user who runs kubectl port-forward.
func TestLoopbackOnlyByAddress(t *testing.T) {
	for host, served := range map[string]bool{
		"127.0.0.1:8081": true, "localhost:8081": true, "LOCALHOST": true, "[::1]:8081": true, "[::1]": true, "127.0.0.1": true, "127.0.0.1:9": true,
		"rebinds.example.com:8081": false, "rebinds.example.com": false, "127.0.0.1.example.com:8081": false, "localhost.example.com": false,
		"192.0.2.1:8081": false, "": false, "usher-ops:8081": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/quotas", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1234", host
		w := httptest.NewRecorder()
		LoopbackOnly(page).ServeHTTP(w, r)
		if served != (w.Code == 200) || !served && (w.Code != 403 || !strings.Contains(w.Body.String(), "127.0.0.1:8081/debug/quotas")) {
			t.Errorf("host %q: %d %s", host, w.Code, w.Body)
		}
	}
}

// apiServer answers reviews: a token is the name of its user, and admin may get what is not below /debug/pprof/.
type apiServer struct {
	asked int
	err   error
}

func (a *apiServer) create(_ context.Context, path string, object []byte) ([]byte, error) {
	a.asked++
	var review struct {
		Spec struct {
			Token, User           string
			Groups                []string
			Extra                 map[string][]string
			NonResourceAttributes struct{ Path, Verb string }
		}
	}
	if err := json.Unmarshal(object, &review); err != nil || a.err != nil {
		return nil, errors.Join(a.err, err)
	}
	s := review.Spec
	if strings.HasSuffix(path, "/tokenreviews") {
		return fmt.Appendf(nil, `{"status": {"authenticated": %v, "user": {"username": %q, "groups": ["g"], "extra": {"k": ["v"]}}}}`, s.Token != "nobody", s.Token), nil
	}
	may := s.User == "admin" && s.Groups[0] == "g" && s.Extra["k"][0] == "v" && s.NonResourceAttributes.Verb == "get" &&
		!strings.HasPrefix(s.NonResourceAttributes.Path, "/debug/pprof/")
	return fmt.Appendf(nil, `{"status": {"allowed": %v}}`, may), nil
}

// TestProtect: who gets a page, by the word of the API server.
func TestProtect(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", nil)
	for _, test := range []struct {
		name, method, path, token string
		err                       error
		code                      int
		text                      string
	}{
		{"allowed", "GET", "/debug/quotas", "Bearer admin", nil, 200, "page"},
		{"another path", "GET", "/debug/pprof/heap", "Bearer admin", nil, 403, `user "admin" may not get /debug/pprof/heap: a ClusterRole with nonResourceURLs ["/debug/pprof/heap"] and verbs [get]`},
		{"another verb", "POST", "/debug/quotas", "Bearer admin", nil, 403, "may not post /debug/quotas"},
		{"another user", "GET", "/debug/quotas", "Bearer ann", nil, 403, `user "ann" may not get /debug/quotas`},
		{"no token", "GET", "/debug/quotas", "", nil, 401, "kubectl create token"},
		{"a password", "GET", "/debug/quotas", "Basic admin", nil, 401, "kubectl create token"},
		{"an unknown token", "GET", "/debug/quotas", "Bearer nobody", nil, 401, "does not know the bearer token"},
		{"no API server", "GET", "/debug/quotas", "Bearer admin", errors.New("connection refused"), 503, "usher's log says why"},
		{"no right to ask", "GET", "/debug/quotas", "Bearer admin", forbidden, 503, "system:auth-delegator"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			log := logrus.New()
			log.SetOutput(&out)
			r := httptest.NewRequest(test.method, test.path+"?pods=true", nil)
			r.Header.Set("Authorization", test.token)
			w := httptest.NewRecorder()
			NewReviews((&apiServer{err: test.err}).create, log).Protect(page).ServeHTTP(w, r)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.text) || test.err != nil != (out.Len() > 0) {
				t.Errorf("%d %s\n%s", w.Code, w.Body, out.String())
			}
		})
	}
}

// ann and mallory are the addresses of two clients.
var ann, mallory = netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")

// TestVerdictsAreKept for a while, and not too many; a failure is not.
func TestVerdictsAreKept(t *testing.T) {
	server, now := &apiServer{}, time.Unix(0, 0)
	v := NewReviews(server.create, silent())
	v.Now = func() time.Time { return now }
	ask := func(token, path string, code, asked int) {
		t.Helper()
		server.asked = 0
		if got := v.ask(t.Context(), ann, token, path, "get"); got.code != code || server.asked != asked {
			t.Errorf("%s %s: %d, asked %d times; want %d, %d", token, path, got.code, server.asked, code, asked)
		}
	}
	ask("admin", "/debug/quotas", 200, 2)
	ask("admin", "/debug/quotas", 200, 0)
	ask("admin", "/debug/pprof/", 403, 2)
	ask("ann", "/debug/quotas", 403, 2)
	ask("nobody", "/debug/quotas", 401, 1)
	ask("nobody", "/debug/quotas", 401, 0)
	now = now.Add(keepVerdict)
	ask("admin", "/debug/quotas", 200, 2)
	server.err = errors.New("away")
	ask("admin", "/debug/quotas", 200, 0)
	ask("admin", "/debug/other", 503, 1)
	ask("admin", "/debug/other", 503, 1)
	server.err = nil
	for i := range 2 * maxVerdicts {
		now = now.Add(time.Second / asksPerSecond)
		v.ask(t.Context(), ann, fmt.Sprint("user", i), "/debug/quotas", "get")
	}
	if len(v.known) > maxVerdicts {
		t.Errorf("%d are kept", len(v.known))
	}
}

// TestRandomTokens: a client cannot make usher ask the API server as often as it likes, what is known stays known, and
// others are still asked about, unless clients at many addresses do so.
func TestRandomTokens(t *testing.T) {
	server, now := &apiServer{}, time.Unix(0, 0)
	v := NewReviews(server.create, silent())
	v.Now = func() time.Time { return now }
	v.ask(t.Context(), mallory, "admin", "/debug/quotas", "get")
	for second := range 10 {
		server.asked = 0
		for i := range 1000 {
			v.ask(t.Context(), mallory, fmt.Sprint("nobody-", second, "-", i), "/debug/quotas", "get")
		}
		if server.asked > asksOfSource*2 { // of a token, and of the user that has it
			t.Errorf("the API server was asked %d times at once", server.asked)
		}
		if got := v.ask(t.Context(), ann, fmt.Sprint("ann", second), "/debug/quotas", "get"); got.code != 403 {
			t.Errorf("a user at another address: %d %s", got.code, got.text)
		}
		now = now.Add(time.Second)
	}
	for i := range 1000 {
		v.ask(t.Context(), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32), fmt.Sprint("nobody", i), "/debug/quotas", "get")
	}
	v.known[sha256.Sum256([]byte("get\x00/debug/quotas\x00admin"))] = verdict{code: 200, until: now.Add(time.Second)}
	if got := v.ask(t.Context(), mallory, "admin", "/debug/quotas", "get"); got.code != 200 {
		t.Errorf("a user who is known: %d", got.code)
	}
	if got := v.ask(t.Context(), ann, "bob", "/debug/quotas", "get"); got.code != 503 || !strings.Contains(got.text, "try again") {
		t.Errorf("beyond the limit: %d %s", got.code, got.text)
	}
	now = now.Add(time.Second)
	if got := v.ask(t.Context(), ann, "bob", "/debug/quotas", "get"); got.code != 403 {
		t.Errorf("a second later: %d", got.code)
	}
}

// TestSource: headers that a client may set do not count, and a machine with a network of IPv6 is one source.
func TestSource(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:1": "192.0.2.1/32",
		"[2001:db8:0:1::5]:1": "2001:db8:0:1::/64", "[2001:db8:0:1:ffff::]:1": "2001:db8:0:1::/64", "@": "invalid Prefix"} {
		r := httptest.NewRequest(http.MethodGet, "/debug/quotas", nil)
		r.RemoteAddr = address
		r.Header.Set("X-Forwarded-For", "192.0.2.9")
		if got := source(r).String(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
