package server

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/server/suite"
)

// TestEndOfSuites: a suite is ended before what it has started, after the last review, and is waited for no longer than maxEnd.
func TestEndOfSuites(t *testing.T) {
	var started context.Context
	ended, reviews := make(chan bool, 1), ""
	pods := podSuite()
	start := func(ctx context.Context) error { started = ctx; return nil }
	end := func(context.Context) {
		// The port may be another one's by now, even this client's own: only a TLS handshake tells.
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Second}, "tcp", reviews, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_ = conn.Close()
		}
		ended <- started.Err() == nil && err != nil
	}
	pods.Open = func(suite.Env, suite.Opening) suite.Running { return suite.Running{Start: start, End: end} }
	serving, done := make(chan Addresses, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		done <- Run(ctx, Options{Suites: suite.List{pods}, Version: "test", Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0",
			Certificates: Certificates{StateDir: t.TempDir()}, Serving: func(at Addresses) { serving <- at }})
	}()
	select {
	case err := <-done:
		t.Fatal(err)
	case at := <-serving:
		reviews = at.Reviews
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	select {
	case right := <-ended:
		if !right {
			t.Error("ended while reviews are accepted, or after what it has started")
		}
	default:
		t.Error("not ended")
	}
}

// TestEndTakesTooLong: a suite that does not end is left behind.
func TestEndTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		slow := suite.Running{End: func(ctx context.Context) { <-ctx.Done() }}
		(&service{instance: suite.Instance{Suites: suite.List{{Name: "quick"}, {Name: "slow"}}, Running: map[string]suite.Running{"slow": slow}}}).endSuites()
		if took := time.Since(began); took != maxEnd {
			t.Error(took)
		}
	})
}

// TestEndOfFailed: a suite is also ended when a server has failed.
func TestEndOfFailed(t *testing.T) {
	ended := 0
	s := &service{closed: func(context.Context) {}, Options: Options{ShutdownGrace: time.Second}}
	s.instance = suite.Instance{Suites: suite.List{{}}, Running: map[string]suite.Running{"": {End: func(context.Context) { ended++ }}}}
	if s.fail(); ended != 1 {
		t.Errorf("ended %d times", ended)
	}
}
