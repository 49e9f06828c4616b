package rotation

import (
	"testing"
	"time"
)

// TestTwoServicesInOneNamespace: replicas with another --service share the Secrets, while an upgrade changes the flag, or for
// good. No replica serves a certificate that lacks its own name, and they do not replace each other's for ever.
func TestTwoServicesInOneNamespace(t *testing.T) {
	names := [][]string{plan.Names, {"second.usher.svc"}}
	inBubble(t, 2, func(w *world) {
		for i := range w.replicas {
			w.startFor(i, names[i])
		}
		served := map[string]bool{}
		for end := time.Now().Add(2 * time.Hour); time.Now().Before(end); time.Sleep(time.Second) {
			for i, r := range w.replicas {
				leaf := parse(r.keeper.current.Load().leaf.Cert)
				if r.keeper.Ready() != nil {
					continue
				}
				served[leaf.SerialNumber.String()] = true
				if !covers(leaf, names[i]) {
					t.Fatalf("replica %d serves a certificate for %v", i, leaf.DNSNames)
				}
			}
		}
		if n := len(served); n < 8 || n > 40 {
			t.Errorf("%d certificates in six lifetimes", n)
		}
	})
}
