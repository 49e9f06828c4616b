// Command usherctl helps people around usher: review, test, doctor, explain, learn and more. See README.md.
package main

import (
	"context"
	"os"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/command"
	"usher.dev/usher/usherctl/tool"
)

// version is set by the linker.
var version = "dev"

func main() {
	env := tool.Env{Suites: routes.Suites(), Version: version, Streams: cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}}
	os.Exit(command.Run(context.Background(), env, os.Args[1:]))
}
