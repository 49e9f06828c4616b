// Command usherctl helps people around usher: review, test, doctor, explain, learn and more. See README.md.
package main

import (
	"context"
	"os"

	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/command"
)

// version is set by the linker.
var version = "dev"

func main() {
	program := command.Program{Suites: routes.Suites(), Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(program.Run(context.Background(), os.Args[1:]))
}
