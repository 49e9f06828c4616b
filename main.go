// Command usher is an admission webhook service for Kubernetes. See README.md.
package main

import (
	"context"
	"os"
)

// version is set by the linker.
var version = "dev"

func main() {
	program := Program{Suites: suites(), Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(program.Run(context.Background(), os.Args[1:]))
}
