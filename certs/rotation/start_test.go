package rotation

import (
	"testing"
	"time"
)

// TestStartBesideOldCopies: both Secrets are old copies, from before their CA was replaced and distrusted, and a replica starts. It
// writes the old CA into the caBundles too, but is not ready with its leaf until every API server has heard of that.
func TestStartBesideOldCopies(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		ready(w)
		w.mu.Lock()
		ca, leaf := w.object(caPath)["data"], w.object(tlsPath)["data"]
		w.mu.Unlock()
		w.request(caPath, activeCert)
		w.edit(caPath, func(o map[string]any) {
			all := o["metadata"].(map[string]any)["annotations"].(map[string]any)
			all[distrustAnnotation] = all[replaceAnnotation]
		})
		w.run(5 * time.Minute)
		w.settled()
		w.put(caPath, ca)
		w.put(tlsPath, leaf)
		w.restart(0)
		w.run(3 * time.Minute)
		w.settled()
	})
}

// TestStartBesideAnOldCopyThatCannotBeReplaced: a CA of another name signs, the Secret with the CAs is an old copy which nobody can
// write for two minutes, and a replica starts. What the others serve stays trusted.
func TestStartBesideAnOldCopyThatCannotBeReplaced(t *testing.T) {
	inBubble(t, 3, func(w *world) {
		ready(w)
		w.mu.Lock()
		before := w.next
		w.mu.Unlock()
		w.putStranger()
		w.run(3 * time.Minute)
		w.replicas[0].stop()
		w.restoreFrom(before, caPath, tlsPath)
		w.edit(caPath, func(o map[string]any) { o["immutable"] = true })
		w.start(0)
		w.run(2 * time.Minute)
		w.edit(caPath, func(o map[string]any) { delete(o, "immutable") })
		w.run(3 * time.Minute)
		w.settled()
	})
}

// TestReadyAtOnce: a start takes no longer than it has to. On a first installation no CA was in use before, and later the caBundles
// have been as they are for long.
func TestReadyAtOnce(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.register(mutating, "a", "b")
		soon := func(i int) {
			t.Helper()
			for range 10 {
				if time.Sleep(time.Second); w.replicas[i].keeper.Ready() == nil {
					return
				}
			}
			t.Errorf("replica %d is not ready after 10 s: %v", i, w.replicas[i].keeper.Ready())
		}
		w.start(0)
		soon(0)
		w.start(1)
		soon(1)
		w.request(caPath, activeCert)
		time.Sleep(5 * time.Minute)
		if n := len(parseAll(w.data(tlsPath)["ca.crt"])); n != 2 {
			t.Fatalf("%d CAs are trusted", n)
		}
		w.restart(0)
		soon(0)
	})
}

// TestNotReadyPastTheEnd: a replica whose leaf ends is not ready for any moment longer, although it knows the API server's clock to
// the second only.
func TestNotReadyPastTheEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		ready(w)
		w.mu.Lock()
		w.away = true
		w.mu.Unlock()
		leaf := w.replicas[0].keeper.current.Load().serving.Leaf
		for w.replicas[0].keeper.Ready() == nil && !w.now().After(leaf.NotAfter) {
			time.Sleep(100 * time.Millisecond)
		}
		if w.now().After(leaf.NotAfter) {
			t.Errorf("still ready %s after the end", w.now().Sub(leaf.NotAfter))
		}
	})
}
