// Command usher is an admission webhook service for Kubernetes. See README.md.
//
// From here to the answer to a review, with `usher serve`:
//
//	command.Program.Run    reads the flags into server.Options
//	server.Run             loads the policy and opens the state of the cluster, and for each policy:
//	suite.Instance.Routes  makes the routes of the suites: a path, the requests that it is for, the chain of its steps
//	handlers.Server.Serve  makes of the routes the http.ServeMux that answers
//	handlers.Decide        reads a review that is posted, runs the chain of its route, and makes the answer
//	admit.Chain.Run        runs the steps over the object under review, which record edits
//	Document.PatchJSON     makes the patch of the edits
//
// docs/architecture.md lists the files on this way.
package main

import (
	"context"
	"log/slog"
	"os"

	"k8s.io/klog/v2"

	"usher.dev/usher/command"
	"usher.dev/usher/routes"
	"usher.dev/usher/server"
)

// version is set by the linker.
var version = "dev"

func main() {
	klog.SetSlogLogger(slog.Default()) // client-go's log goes where that of other libraries does
	usher := command.Program{
		Suites:  routes.Suites(), // the core suite, and colocation
		Version: version,
		In:      os.Stdin,
		Out:     os.Stdout,
		Err:     os.Stderr,
		Serve:   server.Run, // the other commands register usher, make its certificates, and show its answers
	}
	os.Exit(usher.Run(context.Background(), os.Args[1:]))
}
