package handlers

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/admit"
)

// Unchecked reports whether a review was allowed only because its route is unused.
func (d Decision) Unchecked(r admit.Route) bool { return r.Unused() != "" && d.Response != nil }

// unusedEvery is the minimum time between two logs of an unused route.
const unusedEvery = time.Minute

// LogUnused warns of routes that are unused but still registered, each at most once a minute.
func LogUnused(log *logrus.Logger, now func() time.Time) Observe {
	var mu sync.Mutex
	last := map[string]time.Time{}
	due := func(path string) bool {
		mu.Lock()
		defer mu.Unlock()
		if t, ok := last[path]; ok && now().Sub(t) < unusedEvery {
			return false
		}
		last[path] = now()
		return true
	}
	return func(r admit.Route, d Decision, _ time.Duration) {
		if d.Unchecked(r) && due(r.Path) {
			log.WithField("route", r.Path).Warnf("%s %s, but an API server still calls it: what it sends is allowed unchecked; "+
				"usher webhooks apply registers what is needed", r.Path, r.Unused())
		}
	}
}
