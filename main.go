// Command usher is an admission webhook service for Kubernetes. See README.md.
package main

import (
	"context"
	"log/slog"
	"os"

	"k8s.io/klog/v2"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
)

// version is set by the linker.
var version = "dev"

func main() {
	klog.SetSlogLogger(slog.Default()) // client-go's log goes where that of other libraries does
	program := command.Program{Suites: routes.Suites(), Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(program.Run(context.Background(), os.Args[1:]))
}
