// Command build builds the Kubernetes programs that the end-to-end tests and the demo need, if they are missing:
// `go run ./build`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"usher.dev/usher/e2e/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := binaries.Build(ctx, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
