package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// program is the usherctl under test, playground the address of its page, and browser the context of the browser.
var (
	program    string
	playground string
	browser    context.Context
)

// root is the directory of the repository.
const root = "../.."

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return 0, fmt.Errorf("%w: `make browser` installs it where Debian's packages can be had", err)
	}
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stop, err := startPlayground(dir)
	if err != nil {
		return 0, err
	}
	defer stop()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox,
		chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	browser, cancel = chromedp.NewContext(allocator)
	defer cancel()
	if err := chromedp.Run(browser); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// startPlayground builds usherctl and starts the page at a free port.
func startPlayground(dir string) (stop func(), err error) {
	program = filepath.Join(dir, "usherctl")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join(root, "usherctl")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	recording, err := record(dir, "mutate-pods/environment", "validate-pods/denied-names")
	if err != nil {
		return nil, err
	}
	server := exec.Command(program, "playground", "--listen", "127.0.0.1:0", "--recording", recording)
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	playground = regexp.MustCompile(`http://\S+`).FindString(line)
	if playground == "" {
		return nil, fmt.Errorf("%w: no address in %q", err, line)
	}
	return func() { _ = server.Process.Kill(); _ = server.Wait() }, nil
}

// record writes a recording of samples, as a server does.
func record(dir string, samples ...string) (file string, err error) {
	var lines []byte
	for _, name := range samples {
		review, err := os.ReadFile(filepath.Join(root, "samples/reviews", name+".json"))
		if err != nil {
			return "", err
		}
		route, _, _ := strings.Cut(name, "/")
		line, err := json.Marshal(map[string]any{"time": time.Now(), "path": "/" + route, "verdict": "allowed", "review": json.RawMessage(review)})
		if err != nil {
			return "", err
		}
		lines = append(append(lines, line...), '\n')
	}
	file = filepath.Join(dir, "recording")
	return file, os.WriteFile(file, lines, 0o600)
}

// tab is a tab of the browser.
type tab struct {
	*testing.T
	ctx     context.Context
	mu      sync.Mutex
	foreign []string // requests to elsewhere
	refused []string // by the content security policy, and errors of scripts
}

// open opens the playground in a tab of its own, with a fragment.
func open(t *testing.T, fragment string, width, height int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx}
	chromedp.ListenTarget(ctx, p.watch)
	p.run(network.Enable(), chromedp.EmulateViewport(width, height), chromedp.Navigate(playground+"/"+fragment),
		chromedp.WaitVisible(`body[data-ready=true]`, chromedp.ByQuery))
	p.answered(0)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.foreign)+len(p.refused) > 0 {
			t.Errorf("requests to elsewhere: %q; refused or failed: %q", p.foreign, p.refused)
		}
	})
	return p
}

// watch keeps the requests that leave the page's own server, and what the browser complains of.
func (p *tab) watch(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if at, err := url.Parse(e.Request.URL); err != nil || at.Scheme != "data" && !strings.HasPrefix(playground, at.Scheme+"://"+at.Host) {
			p.foreign = append(p.foreign, e.Request.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			p.refused = append(p.refused, e.ErrorText)
		}
	}
}

func (p *tab) run(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// eval returns the value of an expression of JavaScript.
func eval[V any](p *tab, expression string) (value V) {
	p.Helper()
	if err := chromedp.Run(p.ctx, chromedp.Evaluate(expression, &value)); err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return value
}

// answers returns how often the page has shown an answer.
func (p *tab) answers() int { return eval[int](p, `Number(document.body.dataset.answered || 0)`) }

// answered waits until the page has shown more answers than before, and is waiting for none.
func (p *tab) answered(before int) {
	p.Helper()
	var done bool
	p.run(chromedp.Poll(fmt.Sprintf(`Number(document.body.dataset.answered || 0) > %d && document.body.dataset.busy !== "true"`, before), &done,
		chromedp.WithPollingInterval(10*time.Millisecond)))
}

// choose chooses an example, and waits for its answer.
func (p *tab) choose(example string) {
	p.Helper()
	p.change("example", example)
}

// change sets the value of a control as a user does, and waits for the answer.
func (p *tab) change(id, value string) {
	p.Helper()
	before := p.answers()
	eval[bool](p, fmt.Sprintf(`(() => { const e = document.getElementById(%q); e.value = %q;
		for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, {bubbles: true})); return true; })()`, id, value))
	p.answered(before)
}

func (p *tab) text(id string) string {
	return eval[string](p, fmt.Sprintf(`document.getElementById(%q).textContent`, id))
}
