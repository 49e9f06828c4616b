package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"usher.dev/usher/internal/cli"
)

// endWithTerminal calls end when the terminal of the log is closed, until ctx ends: a service without a terminal would keep
// its port unnoticed.
func endWithTerminal(ctx context.Context, log any, end func()) {
	if !cli.IsTerminal(log) {
		return
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	go func() {
		defer signal.Stop(heard)
		for {
			select {
			case <-ctx.Done():
				return
			case <-heard:
				if !cli.IsTerminal(log) {
					end()
				}
			}
		}
	}()
}

// untilSignal returns a context that is canceled by SIGINT or SIGTERM, and a function that cancels it. Before a signal cancels the
// context, the default effect of signals is restored, so that a second one ends the process. signal.NotifyContext would still
// catch a second one that follows at once.
func untilSignal(of context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(of)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer end()
		select {
		case <-heard:
		case <-ctx.Done():
		}
		signal.Stop(heard)
		sendAgain(heard)
	}()
	return ctx, end
}

// sendAgain sends this process a signal that came before the previous one was handled.
func sendAgain(heard <-chan os.Signal) {
	select {
	case again := <-heard:
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(again)
		}
	default:
	}
}
