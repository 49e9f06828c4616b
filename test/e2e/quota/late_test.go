package quota

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"usher.dev/usher/e2e/kubetest"
)

// lateUsher starts another usher with one replica, whose watches can be stalled. through selects the usher for all
// reviews.
func lateUsher(ctx context.Context, t *testing.T, name string, expiry time.Duration) (late *kubetest.Usher, line *slowLine, through func(*kubetest.Usher)) {
	t.Helper()
	line, err := newSlowLine(name)
	stored(t, err)
	t.Cleanup(line.server.Close)
	late, err = cluster.StartUsher(ctx, kubetest.UsherOptions{Name: name, Replicas: 1, Flags: []string{
		"--cluster=api", "--kubeconfig=" + line.kubeconfig, "--feature-gates=" + gates, "--quota-reservation-expiry=" + expiry.String()}})
	stored(t, err)
	t.Cleanup(late.Stop)
	t.Cleanup(line.release)
	through = func(u *kubetest.Usher) { stored(t, front.lead(u)) }
	t.Cleanup(func() { through(usher) })
	return late, line, through
}

// undecided fails the test unless usher lacked the state to decide.
func undecided(t *testing.T, err error) {
	t.Helper()
	if outcome(err) != outOfReach {
		t.Errorf("who is behind must not decide: %v", err)
	}
}

// TestLateWatch: a replica with a stalled pod watch still knows the pods that it admitted, but it does not decide when
// other replicas have seen more.
func TestLateWatch(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	a, b := departments(ctx, t, "late", "4", "2", "3")
	late, line, through := lateUsher(ctx, t, "usher-late", expiry)
	through(late)
	stored(t, createPod(ctx, "late", "first", b, "1")) // its watch works
	line.hold(podWatch)
	stored(t, createPod(ctx, "late", "second", a, "2"))
	kubetest.RefusedWith(t, createPod(ctx, "late", "third", a, "1"), "reserved 2, limit 2")
	through(usher) // the others see the pod, and remove its reservation
	settled(ctx, t, a, "2")
	stored(t, createPod(ctx, "late", "fourth", b, "1"))
	through(late)
	undecided(t, createPod(ctx, "late", "fifth", a, "1"))
	line.release()
	eventually(ctx, t, func(ctx context.Context) error {
		if err := createPod(ctx, "late", "sixth", a, "1"); outcome(err) != fullUp {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
}

// TestSoakLateResize: the same for a pod whose resize another replica admitted, after its reservation has expired.
func TestSoakLateResize(t *testing.T) {
	soakTime(t)
	ctx := cluster.Within(t, 3*time.Minute)
	a, _ := departments(ctx, t, "resized", "4", "4", "4")
	stored(t, createPod(ctx, "resized", "small", a, "1"))
	late, line, through := lateUsher(ctx, t, "usher-resized", time.Hour) // another replica removes the reservation
	through(late)
	stored(t, createPod(ctx, "resized", "first", a, "1")) // its watch works
	through(usher)
	settled(ctx, t, a, "2")
	empty(ctx, t, "resized", "resized-all") // so that nothing else delays it
	line.hold(podWatch)
	_, err := cluster.Admin().Patch(ctx, podPath("resized", "small")+"/resize", kubetest.StrategicPatch,
		`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}`)
	stored(t, err)
	empty(ctx, t, "resized", "resized-all")
	through(late)
	undecided(t, createPod(ctx, "resized", "second", a, "2"))
}

// empty waits until a record contains no reservations.
func empty(ctx context.Context, t *testing.T, namespace, top string) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		var holds struct{ Pods []any }
		text, _ := record(ctx, t, namespace, top)
		if _ = json.Unmarshal([]byte(text), &holds); len(holds.Pods) > 0 {
			return fmt.Errorf("the record still holds %s", text)
		}
		return nil
	})
}

// TestAllLate: no replica sees a pod for longer than the expiry; the pod is stored nevertheless, so its room is not
// free.
func TestAllLate(t *testing.T) {
	ctx := cluster.Within(t, 3*time.Minute)
	a, b := departments(ctx, t, "deaf", "4", "2", "3")
	deaf, line, through := lateUsher(ctx, t, "usher-deaf", expiry)
	for _, r := range usher.Replicas {
		r.Kill()
		t.Cleanup(func() { stored(t, r.Start(context.Background())) })
	}
	through(deaf)
	stored(t, createPod(ctx, "deaf", "first", b, "1"))
	line.hold(podWatch)
	stored(t, createPod(ctx, "deaf", "second", a, "2"))
	pause(ctx, expiry+time.Second)
	if err := createPod(ctx, "deaf", "third", a, "2"); err == nil {
		t.Error("quota deaf-a holds 4 of 2 cpu")
	}
}

// The paths of the watches that a slowLine can delay.
const (
	podWatch   = "/api/v1/pods"
	quotaWatch = "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
)

// slowLine is a proxy between an usher and the API server that can delay the events of watches.
type slowLine struct {
	server     *httptest.Server
	kubeconfig string
	pauses     func() (before, long time.Duration) // of each watch by itself, again and again; may be nil

	mu   sync.Mutex
	held string        // the path of the watch that is delayed
	open chan struct{} // closed while nothing is delayed
}

func newSlowLine(name string) (*slowLine, error) {
	target, err := url.Parse(cluster.URL)
	if err != nil {
		return nil, err
	}
	l := &slowLine{open: make(chan struct{})}
	close(l.open)
	proxy := &httputil.ReverseProxy{Transport: cluster.Transport(usherUser), FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if strings.Contains(r.Request.URL.RawQuery, "watch") {
				r.Body = &slowBody{ReadCloser: r.Body, line: l, path: r.Request.URL.Path}
			}
			return nil
		}}
	l.server = httptest.NewUnstartedServer(proxy)
	l.server.EnableHTTP2 = true
	l.server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	l.kubeconfig, err = cluster.KubeconfigVia(name+"-line", l.server.URL, ca)
	return l, err
}

// hold delays the events of a watch until release.
func (l *slowLine) hold(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.open = path, make(chan struct{})
}

func (l *slowLine) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.open:
	default:
		close(l.open)
	}
}

func (l *slowLine) wait(path string) {
	l.mu.Lock()
	open, held := l.open, l.held
	l.mu.Unlock()
	if path == held {
		<-open
	}
}

// slowBody returns no data while the line holds its path, or pauses.
type slowBody struct {
	io.ReadCloser
	line *slowLine
	path string
	next time.Time // of the next pause
}

func (b *slowBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.line.wait(b.path)
	if b.line.pauses != nil && time.Now().After(b.next) {
		before, long := b.line.pauses()
		time.Sleep(long)
		b.next = time.Now().Add(before)
	}
	return n, err
}
