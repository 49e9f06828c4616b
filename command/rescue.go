package command

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"usher.dev/usher/server/webhooks"
)

// rescue is the command to run when usher blocks a cluster and cannot be restored.
const rescue = "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration -l app.kubernetes.io/name=" + webhooks.Name

// warnOfLockOut logs, after a failing start in a cluster, what to do if the API server still calls usher.
func (p Program) warnOfLockOut(to io.Writer, args []string, err error) {
	if inCluster(args) {
		log := newLogger("auto", p.Err, to)
		log.WithField(logrus.ErrorKey, err.Error()).Error("usher does not start; while it is registered, requests that it checks are refused. " +
			"To stop that: " + rescue)
	}
}

// inCluster reports whether the arguments, or the environment, suggest a cluster, not a laptop.
func inCluster(args []string) bool {
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" || slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--cert-dir") || strings.HasPrefix(arg, "--certs") || strings.HasPrefix(arg, "--cluster=api")
	})
}
