package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"

	"usher.dev/usher/usherctl/report"
)

// Exchange is a request that was sent, and what came back.
type Exchange struct {
	Method string
	Header map[string]string
	Body   []byte
	before string // the command that makes what was sent before the body
	shown  string // the command that shows it, if it is none of curl
	Code   int
	Answer []byte
	Err    error
	Took   time.Duration
}

// maxAnswer bounds an answer that is read: the API server reads 3 MiB.
const maxAnswer = 3 << 20

// errSpent is the error of a request that the bound forbids.
var errSpent = errors.New("the bound of requests is reached")

// unsent reports whether the bound kept a request from being sent.
func (x *Exchange) unsent() bool { return errors.Is(x.Err, errSpent) }

type client struct {
	http *http.Client
	hook *Hook
	left atomic.Int64
	// crashed is the first exchange since it was last emptied whose answer says that the handler has failed.
	crashed atomic.Pointer[Exchange]
}

// newClient returns a client that sends whatever the certificate says: the test certificate is about that.
func newClient(h *Hook, b Bound) *client {
	c := &client{hook: h, http: &http.Client{
		Timeout: max(h.Timeout, 10*time.Second),
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: h.ServerName}, //nolint:gosec // see above
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.left.Store(int64(b.Requests))
	return c
}

func (c *client) spent() bool { return c.left.Load() < 0 }

// send sends a body as the API server does, unless the exchange says otherwise.
func (c *client) send(ctx context.Context, x *Exchange) *Exchange {
	return c.stream(ctx, x, bytes.NewReader(x.Body))
}

func (c *client) stream(ctx context.Context, x *Exchange, body io.Reader) *Exchange {
	if c.left.Add(-1) < 0 {
		x.Err = errSpent
		return x
	}
	if x.Method == "" {
		x.Method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, x.Method, c.hook.URL, body)
	if err != nil {
		x.Err = err
		return x
	}
	if c.hook.Timeout > 0 { // as the API server tells it
		query := request.URL.Query()
		query.Set("timeout", c.hook.Timeout.String())
		request.URL.RawQuery = query.Encode()
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	for key, value := range x.Header {
		request.Header.Set(key, value)
	}
	started := time.Now()
	response, err := c.http.Do(request)
	x.Took = time.Since(started)
	if err != nil {
		x.Err = plainly(err)
		return x
	}
	defer func() { _ = response.Body.Close() }()
	x.Code = response.StatusCode
	x.Answer, x.Err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	x.Took = time.Since(started)
	if a := x.read(); a != nil && a.crash() {
		c.crashed.CompareAndSwap(nil, x)
	}
	return x
}

// plainly returns an error without the URL, which the report names.
func plainly(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		if of.Timeout() {
			return fmt.Errorf("no answer in time")
		}
		err = of.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "INTERNAL_ERROR") { // the last of HTTP/2
		return errors.New("the connection was closed without an answer, as by a handler that panics")
	}
	return err
}

// review sends a review under a uid of its own, as the API server does. The answer is nil if none could be read from the exchange.
func (c *client) review(ctx context.Context, of Review) (*Answer, *Exchange) {
	x := c.send(ctx, &Exchange{Body: of.with(func(q map[string]any) { q["uid"] = string(uuid.NewUUID()) }).JSON()})
	return x.read(), x
}

// read returns the answer, or nil if there is none.
func (x *Exchange) read() *Answer {
	a := &Answer{Exchange: x}
	if x.Err != nil || x.Code != http.StatusOK || utiljson.Unmarshal(x.Answer, &a.Review) != nil || a.Review.Response == nil {
		return nil
	}
	return a
}

// Ask sends one body.
func (h *Hook) Ask(ctx context.Context, body []byte) *Exchange {
	c := newClient(h, Bound{Requests: 1})
	defer c.http.CloseIdleConnections()
	return c.send(ctx, &Exchange{Body: body})
}

// Outcome describes what came back.
func (x *Exchange) Outcome() string {
	switch {
	case x.Err != nil && x.Code == 0:
		return x.Err.Error()
	case x.Err != nil:
		return fmt.Sprintf("HTTP %d, and then %v", x.Code, x.Err)
	case x.read() != nil:
		return x.read().verdict()
	}
	text := fmt.Sprintf("HTTP %d", x.Code)
	if body := strings.TrimSpace(string(x.Answer)); body != "" {
		text += fmt.Sprintf(", %q", short(body))
	}
	return text
}

// maxShown is the length of a body that is shown in a command.
const maxShown = 400

// Curl returns the request as a command for a shell, with the body in a file if one is named, or "" if it cannot be said in one.
func (x *Exchange) Curl(at, file string) string {
	command := "curl -sSk"
	if x.shown != "" {
		return x.shown
	}
	if x.Method != http.MethodPost {
		return command + " -X " + x.Method + " " + report.Word(at)
	}
	header := map[string]string{"Content-Type": "application/json"}
	for key, value := range x.Header {
		header[key] = value
	}
	for _, key := range []string{"Content-Type", "Content-Encoding"} {
		if header[key] != "" {
			command += " -H " + report.Word(key+": "+header[key])
		}
	}
	command += " --data-binary "
	switch {
	case x.before != "" && file != "":
		return "{ " + x.before + "; cat " + report.Word(file) + "; } | " + command + "@- " + report.Word(at)
	case file != "":
		return command + report.Word("@"+file) + " " + report.Word(at)
	case x.before != "" || len(x.Body) > maxShown || !printableText(x.Body):
		return ""
	}
	return command + report.Word(string(x.Body)) + " " + report.Word(at)
}

func printableText(body []byte) bool {
	return !bytes.ContainsFunc(body, func(r rune) bool { return r < ' ' && r != '\n' || r == '\uFFFD' || r == 0x7f })
}

// saved writes the body into a file of a directory, and returns its name.
func (x *Exchange) saved(dir string, res Result) (string, error) {
	file := filepath.Join(dir, res.Test.Name+"-"+strings.Trim(notInNames.ReplaceAllString(res.Hook.Name, "-"), "-")+".json")
	return file, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, x.Body, 0o600))
}

var notInNames = regexp.MustCompile("[^A-Za-z0-9.]+")
