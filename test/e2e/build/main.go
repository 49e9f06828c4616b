// Command build builds the Kubernetes programs that the end-to-end tests need, if they are missing: `go run ./build`.
// With -demo it also builds those for a cluster with nodes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"usher.dev/usher/e2e/binaries"
)

func main() {
	demo := flag.Bool("demo", false, "also the scheduler, the controller manager and the hollow kubelet")
	flag.Parse()
	names := binaries.ForTests
	if *demo {
		names = binaries.ForDemo
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := binaries.Build(ctx, os.Stderr, names...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
