package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"usher.dev/usher/internal/poll"
)

// pollEvery is how often the policy file, the certificate and the cluster directory are compared with what is in force: small reads,
// and no file watcher that a volume's symlinks could fool.
const pollEvery = 2 * time.Second

// hangups gives a channel that has something after a SIGHUP, until ctx ends. Each reader wants one of its own.
func hangups(ctx context.Context) <-chan os.Signal {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	context.AfterFunc(ctx, func() { signal.Stop(heard) })
	return heard
}

// times say when files are read again: every so often, and after a SIGHUP.
func (s *service) times(ctx context.Context) poll.Times {
	return poll.Times{Every: pollEvery, Now: hangups(ctx)}
}

// tellHangups logs each SIGHUP until ctx ends. It calls end when the terminal of the log was closed: a service without a terminal would keep
// its port unnoticed.
func (s *service) tellHangups(ctx context.Context, heard <-chan os.Signal, end func()) {
	terminal := isTerminal(s.log.Out)
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			if terminal && !isTerminal(s.log.Out) {
				end()
				return
			}
			s.log.Info("SIGHUP: reading the policy file, the certificate and the cluster directory again")
		}
	}
}
