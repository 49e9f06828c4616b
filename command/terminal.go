package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/handlers"
	"usher.dev/usher/internal/cli"
)

// newLogger returns a logger that writes to a writer, which passes the lines on to end: perhaps a terminal.
func newLogger(format string, end, to io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(to)
	if format == "json" || format == "auto" && !cli.IsTerminal(end) {
		log.SetFormatter(handlers.JSONLines{Formatter: legible{&logrus.JSONFormatter{TimestampFormat: handlers.TimeFormat}}, To: to})
	} else {
		log.SetFormatter(legible{&logrus.TextFormatter{ForceColors: cli.IsTerminal(end)}})
	}
	return log
}

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
