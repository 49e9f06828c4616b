package rotation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher.dev/usher/certs"
)

// rotate requests and follows, with a time limit, while the world is checked.
func (w *world) rotate(ca, distrust bool, limit time.Duration) (said []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := Rotation{Client: w.link("rotate").client(), Target: Target{Namespace: "usher", Service: "usher"}, CA: ca, Distrust: distrust}
	done := make(chan error, 1)
	go func() {
		err := r.Request(ctx)
		if err == nil {
			err = r.Follow(ctx, func(stage string) { said = append(said, stage) })
		}
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return said, err
		case <-time.After(time.Second):
			w.check()
		}
	}
}

// TestRotate: every stage is said once, in order, and the command ends when the new certificate is in use.
func TestRotate(t *testing.T) {
	for _, c := range []struct {
		ca, distrust bool
		stages       []string
	}{
		{false, false, []string{"new certificate "}},
		{true, false, []string{"new CA ", "trusted by 2 of 2 webhooks", "the new CA signs", "new certificate ", "stays trusted until"}},
		{true, true, []string{"new CA ", "trusted by 2 of 2 webhooks", "the new CA signs", "new certificate ", "stays trusted until", "is no longer trusted"}},
	} {
		t.Run(fmt.Sprint(c.ca, c.distrust), func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				ready(w)
				ca, leaf := Serial(w.data(caPath)[activeCert]), Serial(w.data(tlsPath)[certs.CertFile])
				said, err := w.rotate(c.ca, c.distrust, 10*time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				at := 0
				for _, line := range said {
					if at < len(c.stages) && strings.Contains(line, c.stages[at]) {
						at++
					}
				}
				if at < len(c.stages) {
					t.Errorf("the stage %q is missing in %q", c.stages[at], said)
				}
				if (Serial(w.data(caPath)[activeCert]) == ca) == c.ca || Serial(w.data(tlsPath)[certs.CertFile]) == leaf {
					t.Error("not replaced, or too much")
				}
				if trusted := strings.Contains(serialsOf(w.bundles(mutating)["a"]), ca); trusted == c.distrust {
					t.Errorf("the old CA is trusted: %v", trusted)
				}
				w.run(time.Minute)
				w.settled()
			})
		})
	}
}

// serialsOf returns the serial numbers of certificates.
func serialsOf(text []byte) (all string) {
	for _, cert := range parseAll(text) {
		all += cert.SerialNumber.Text(16) + " "
	}
	return all
}

// TestRotateWithout: what is missing is said, with the way out.
func TestRotateWithout(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*world)
		says    string
	}{
		"no Secrets":        {func(*world) {}, "there is no Secret usher-"},
		"empty Secrets":     {func(w *world) { w.store(caPath, `{"metadata":{}}`); w.store(tlsPath, `{"metadata":{}}`) }, "hold no certificate yet"},
		"no rights":         {func(w *world) { w.denied = "secrets" }, "read the Secret usher/usher-"},
		"no API server":     {func(w *world) { w.away = true }, "connection refused"},
		"nobody who acts":   {func(w *world) { ready(w); w.replicas[0].stop() }, "no replica has acted yet"},
		"no right to trust": {func(w *world) { ready(w); w.set(func(s *server) { s.denied = "configurations" }) }, "x is Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				c.prepare(w)
				if _, err := w.rotate(true, false, 2*time.Minute); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
