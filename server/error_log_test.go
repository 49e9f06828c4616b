package server

import (
	"bytes"
	stdlog "log"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
)

// TestErrorLog: clients that fail TLS handshakes cannot fill the log, and no other error is left out.
func TestErrorLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := logrus.New()
		log.SetOutput(&out)
		log.SetFormatter(&logrus.JSONFormatter{})
		errors := stdlog.New(newErrorLog(log), "", 0)
		fail := func(n int) {
			for range n {
				errors.Printf("http: TLS handshake error from 10.0.0.9:4711: EOF")
			}
		}
		fail(1000)
		for range 50 {
			errors.Printf("http: panic serving 10.0.0.9:4711: a bug")
		}
		if n, panics := strings.Count(out.String(), "handshake"), strings.Count(out.String(), "a bug"); n != 20 || panics != 50 {
			t.Errorf("%d of 1000 handshake errors and %d of 50 panics are logged", n, panics)
		}
		out.Reset()
		time.Sleep(time.Minute)
		fail(1000)
		if n := strings.Count(out.String(), "handshake"); n != 1 || !strings.Contains(out.String(), `"notLogged":980`) {
			t.Errorf("after a minute %d are logged: %s", n, out.String())
		}
	})
}
