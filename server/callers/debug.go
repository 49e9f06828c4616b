package callers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/server/ratelimit"
)

// LoopbackOnly serves pages only to this machine, ignoring headers of proxies. Only the two addresses that kubectl
// port-forward and curl use count: the proxy of a service mesh forwards requests of others from addresses such as
// 127.0.0.6. The URL must name this machine too: a web page may resolve its own name to 127.0.0.1, and would then read
// these pages in the browser of a user who runs kubectl port-forward.
func LoopbackOnly(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		address := from.Addr().Unmap()
		if err != nil || !isThisMachine(address) || !namesThisMachine(r.Host) {
			http.Error(w, "this page is served on loopback only: kubectl -n usher port-forward deploy/usher 8081, then curl 127.0.0.1:8081"+
				r.URL.Path+"; or start usher with --debug-auth, and send a bearer token", http.StatusForbidden)
			return
		}
		page.ServeHTTP(w, r)
	})
}

func isThisMachine(address netip.Addr) bool {
	return address == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || address == netip.IPv6Loopback()
}

// namesThisMachine reports whether the host of a URL, with or without a port, is localhost or an address of loopback.
func namesThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && isThisMachine(address)
}

// Reviews asks an API server who may read a page: its TokenReview says who the sender of a bearer token is, and its
// SubjectAccessReview whether that user may get the path.
type Reviews struct {
	// Create posts an object of JSON to a path of the API, and returns the answer.
	Create func(ctx context.Context, path string, object []byte) ([]byte, error)
	Log    logrus.FieldLogger
	Now    func() time.Time

	lines rate.Sometimes
	seed  maphash.Seed

	mu    sync.Mutex
	asks  *rate.Limiter      // so that clients with random tokens cannot load the API server
	from  *ratelimit.Buckets // by address, so that one of them does not keep out all others
	known map[[sha256.Size]byte]verdict
}

// verdict is an answer that is given again until it expires.
type verdict struct {
	code  int
	text  string
	until time.Time
}

// An answer is kept for keepVerdict; maxVerdicts of them are kept at most.
const keepVerdict, maxVerdicts = 10 * time.Second, 1000

// asksPerSecond bounds the tokens that the API server is asked about in a second, and at once; asksOfSource those of one
// address.
const asksPerSecond, asksOfSource = 20, 10

// NewReviews returns Reviews that ask by create.
func NewReviews(create func(ctx context.Context, path string, object []byte) ([]byte, error), log logrus.FieldLogger) *Reviews {
	return &Reviews{Create: create, Log: log, Now: time.Now, lines: rate.Sometimes{Interval: linesEvery},
		seed: maphash.MakeSeed(), asks: rate.NewLimiter(asksPerSecond, asksPerSecond),
		from: ratelimit.NewBuckets(asksOfSource, asksOfSource), known: map[[sha256.Size]byte]verdict{}}
}

// Protect serves a page to users who may read it.
func (v *Reviews) Protect(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, sent := bearer(r)
		if !sent {
			refuse(w, verdict{code: http.StatusUnauthorized, text: "send a bearer token: curl -H \"Authorization: Bearer $(kubectl create token NAME)\""})
			return
		}
		if answer := v.ask(r.Context(), source(r), token, r.URL.Path, strings.ToLower(r.Method)); answer.code != http.StatusOK {
			refuse(w, answer)
			return
		}
		page.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, answer verdict) {
	switch answer.code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, answer.text, answer.code)
}

// source returns the network that a request comes from: of IPv6 one of 64 bits, in which one machine may have any address.
func source(r *http.Request) netip.Prefix {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := from.Addr().Unmap()
	network, _ := address.Prefix(min(address.BitLen(), 64))
	return network
}

// ask returns the verdict on a request, from memory if it was asked lately. A failure is not kept.
func (v *Reviews) ask(ctx context.Context, from netip.Prefix, token, path, verb string) verdict {
	key := sha256.Sum256([]byte(verb + "\x00" + path + "\x00" + token))
	if answer, found := v.remembered(key, from); found {
		return answer
	}
	answer, err := v.review(ctx, token, path, verb)
	if err != nil {
		v.lines.Do(func() {
			v.Log.WithError(err).Warn("--debug-auth: the API server was asked who may read a page under /debug")
		})
		if apierrors.IsForbidden(err) {
			return verdict{code: http.StatusServiceUnavailable, text: "usher may not ask the API server who you are: bind usher's service account " +
				"to the ClusterRole system:auth-delegator"}
		}
		return verdict{code: http.StatusServiceUnavailable, text: "the API server cannot be asked who you are; usher's log says why"}
	}
	answer.until = v.Now().Add(keepVerdict)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxVerdicts {
		clear(v.known)
	}
	v.known[key] = answer
	return answer
}

// remembered returns the verdict that is known, or that the API server is not asked, because it was asked too often.
func (v *Reviews) remembered(key [sha256.Size]byte, from netip.Prefix) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, source := v.Now(), maphash.Comparable(v.seed, from)
	if answer, found := v.known[key]; found && now.Before(answer.until) {
		return answer, true
	}
	if v.from.Wait(source, now) > 0 {
		return verdict{code: http.StatusServiceUnavailable, text: "too many unknown tokens from your address; try again"}, true
	}
	if !v.asks.AllowN(now, 1) {
		return verdict{code: http.StatusServiceUnavailable, text: "too many unknown tokens at once; try again"}, true
	}
	v.from.Take(source, now)
	return verdict{}, false
}

// review asks the API server.
func (v *Reviews) review(ctx context.Context, token, path, verb string) (verdict, error) {
	who := authenticationv1.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := v.post(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &who); err != nil {
		return verdict{}, err
	}
	if !who.Status.Authenticated {
		return verdict{code: http.StatusUnauthorized, text: "the API server does not know the bearer token"}, nil
	}
	user := who.Status.User
	may := authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extraOf(user),
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb}}}
	if err := v.post(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &may); err != nil {
		return verdict{}, err
	}
	if !may.Status.Allowed {
		return verdict{code: http.StatusForbidden, text: fmt.Sprintf(
			"user %q may not %s %s: a ClusterRole with nonResourceURLs [%q] and verbs [%s] permits it",
			user.Username, verb, path, path, verb)}, nil
	}
	return verdict{code: http.StatusOK}, nil
}

func extraOf(user authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return extra
}

// post posts a review, and reads its status from the answer.
func (v *Reviews) post(ctx context.Context, path string, review any) error {
	text, err := json.Marshal(review)
	if err != nil {
		return err
	}
	answer, err := v.Create(ctx, path, text)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, review); err != nil {
		return errors.New("the API server's answer to " + path + " cannot be read")
	}
	return nil
}
