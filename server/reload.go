package server

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/internal/poll"
)

// pollEvery is the interval for reading the policy file, the certificate and the cluster directory again: small reads,
// and no file watcher that a volume's symlinks could fool.
const pollEvery = 2 * time.Second

// hangups returns a channel that has something after a SIGHUP, until ctx ends. Each reader needs its own.
func hangups(ctx context.Context) <-chan os.Signal {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { signal.Stop(heard) })
	return heard
}

// times returns when files are read again, until ctx ends: every so often, and after a SIGHUP.
func times(ctx context.Context) poll.Times { return poll.Times{Every: pollEvery, Now: hangups(ctx)} }

// logHangups logs each SIGHUP until ctx ends.
func logHangups(ctx context.Context, log logrus.FieldLogger, heard <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			log.Info("SIGHUP: reading the policy file, the certificate and the cluster directory again")
		}
	}
}
