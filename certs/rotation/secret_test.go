package rotation

import (
	"strings"
	"testing"
	"time"
)

// TestSecretsThatCannotBeWritten: what others forbid is named with the way out, and nothing is written again and again.
func TestSecretsThatCannotBeWritten(t *testing.T) {
	for _, c := range []struct {
		name, says string
		begin      func(*world)
	}{
		{"the CA is immutable", "secret usher/usher-ca is immutable: delete it", func(w *world) { w.immutable(caPath) }},
		{"the certificate is immutable", "secret usher/usher-tls is immutable: delete it", func(w *world) { w.immutable(tlsPath) }},
		{"a quota", "raise the quota", func(w *world) { w.quota = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.set(func(*server) { c.begin(w) })
				w.start(0)
				w.run(10 * time.Minute)
				err := w.replicas[0].keeper.Ready()
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "--rbac") {
					t.Errorf("ready: %v", err)
				}
				w.set(func(s *server) {
					if n := s.writes[caPath] + s.writes[tlsPath]; n > 2 {
						t.Errorf("%d writes", n)
					}
				})
			})
		})
	}
}

func (w *world) immutable(path string) {
	name := path[strings.LastIndex(path, "/")+1:]
	w.store(path, `{"metadata": {"name": "`+name+`", "namespace": "usher"}, "immutable": true, "type": "Opaque"}`)
}
