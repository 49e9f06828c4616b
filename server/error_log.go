package server

import (
	"bytes"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
)

// errorLog writes what the HTTP servers report to usher's log. Any client that reaches the port can fail a TLS handshake
// as often as it likes, so these errors are logged sparingly: the first ones, and later one a minute, with the number of
// those before it that were not logged.
type errorLog struct {
	to        *logrus.Logger
	sparingly rate.Sometimes
	silent    atomic.Int64 // handshake errors since the last logged one, inclusive
}

func newErrorLog(to *logrus.Logger) *errorLog {
	return &errorLog{to: to, sparingly: rate.Sometimes{First: 20, Interval: time.Minute}}
}

// Write implements io.Writer for a log.Logger without a prefix.
func (l *errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if !bytes.Contains(line, []byte("TLS handshake error")) {
		l.to.Warn(text)
		return len(line), nil
	}
	l.silent.Add(1)
	l.sparingly.Do(func() {
		entry := logrus.NewEntry(l.to)
		if others := l.silent.Swap(0) - 1; others > 0 {
			entry = entry.WithField("notLogged", others)
		}
		entry.Warn(text)
	})
	return len(line), nil
}
