package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/internal/apiserver"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/tool"
)

// checkCanary checks the flags that --canary does not go with.
func (o *options) checkCanary(set *pflag.FlagSet) error {
	switch {
	case o.yes && !o.canary:
		return errors.New("--yes goes with --canary")
	case !o.canary:
		return nil
	case o.clusterSource.Source != "api" || o.list:
		return errors.New("--canary sends a request to an API server: it goes with --cluster=api, and not with --list")
	case o.Operation != admissionv1.Create || o.SubResource != "":
		return errors.New("--canary sends a creation: it goes with no other --operation, and with no --subresource")
	case set.Changed("as") || set.Changed("as-group"):
		return errors.New("--canary is sent as the user of the kubeconfig: it does not go with --as and --as-group")
	}
	return nil
}

// sendCanaries sends the objects of the files, or else a pod, as dry runs, and says which webhooks of usher have answered.
func sendCanaries(ctx context.Context, env tool.Env, o options) (reports []report.Report, err error) {
	source, err := o.clusterSource.OpenSource()
	if err != nil {
		return nil, err
	}
	documents := []requests.Document{CanaryPod()}
	what := "the creation of a pod in namespace " + o.Namespace
	if len(o.Files) > 0 {
		if documents, err = withPods(requests.ReadFiles(env.Streams, o.Files, o.Recursive), o); err != nil {
			return nil, err
		}
		what = fmt.Sprintf("the creation of what is in %s", report.List(o.Files))
	}
	config, err := apiserver.LoadConfig(o.clusterSource.Kubeconfig, "")
	if err != nil {
		return nil, err
	}
	if err := env.Confirm(o.yes, "Send "+what+" to "+config.Host+" as a dry run? Nothing is stored; webhooks of others are called, too."); err != nil {
		return nil, err
	}
	usher, err := usherIn(ctx, env, source, o)
	if err != nil {
		return nil, err
	}
	examiner, err := ExaminerOf(ctx, env.Suites, source)
	if err != nil {
		return nil, err
	}
	examiner.Learn(ctx, documents, o.Options)
	usher = examiner.Settle(usher)
	var needed []webhooks.Hook
	if usher.Unknown == nil {
		needed = usher.Needed(examiner.Ushers())
	}
	for _, d := range documents {
		result := examiner.Canary(ctx, d, o.Options, needed)
		if usher.Unknown != nil && result.Hint == "" {
			result.Hint = fmt.Sprintf("not looked at: which webhooks should be registered, but are not: %v", usher.Unknown)
		}
		reports = append(reports, result)
	}
	return reports, nil
}
