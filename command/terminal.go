package command

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sirupsen/logrus"
	"golang.org/x/term"

	"usher.dev/usher/handlers"
)

// newLogger returns a logger that writes to a writer, which passes the lines on to end: perhaps a terminal.
func newLogger(format string, end, to io.Writer) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(to)
	if format == "json" || format == "auto" && !isTerminal(end) {
		log.SetFormatter(handlers.JSONLines{Formatter: legible{&logrus.JSONFormatter{TimestampFormat: handlers.TimeFormat}}, To: to})
	} else {
		log.SetFormatter(legible{&logrus.TextFormatter{ForceColors: isTerminal(end)}})
	}
	return log
}

// isTerminal reports whether w is a terminal; other devices, such as /dev/null, are none.
func isTerminal(w any) bool {
	if out, is := w.(*output); is {
		w = out.Writer
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// endWithTerminal calls end when the terminal of the log is closed, until ctx ends: a service without a terminal would keep
// its port unnoticed.
func endWithTerminal(ctx context.Context, log any, end func()) {
	if !isTerminal(log) {
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
				if !isTerminal(log) {
					end()
				}
			}
		}
	}()
}
