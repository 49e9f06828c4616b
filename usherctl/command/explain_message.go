package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// explainMessage explains the text of a refusal by the policy, and lists the requests with its id.
func explainMessage(ctx context.Context, env tool.Env, o explainOptions, text string) ([]report.Report, error) {
	if text == "-" {
		raw, err := io.ReadAll(io.LimitReader(env.In, 1<<20))
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	refusals := explain.ParseRefusals(text)
	if len(refusals) == 0 {
		return nil, errors.New(`the text is not that of a refusal: paste the whole line that kubectl, an event or usher prints, such as "admission webhook ... denied the request: ..."`)
	}
	if slices.Contains(o.logs, "-") && len(refusals) > 1 {
		return nil, errors.New("--audit-log=-: the log is read once for each of the refusals; save it to a file")
	}
	if err := o.checkMessage(refusals); err != nil {
		return nil, err
	}
	by, err := knownPolicy(ctx, env, o, refusals)
	if err != nil {
		return nil, err
	}
	return explain.Messages(refusals, by, o.Options, requestsOf(env, o),
		explain.Filter{Namespace: o.namespace, Kind: o.kind, UID: o.uid})
}

// checkMessage returns an error for flags of the audit log that have no effect with a message.
func (o *explainOptions) checkMessage(refusals []explain.Refusal) error {
	withID := slices.ContainsFunc(refusals, func(r explain.Refusal) bool { return r.ID != "" })
	switch {
	case o.refusal != "":
		return fmt.Errorf("--refusal %s: the message names a refusal, too: "+
			"leave out --refusal to have the message explained, or the message to list requests", o.refusal)
	case len(o.logs) > 0 && !withID:
		return errors.New("--audit-log: the message has no id of a refusal by usher, by which requests are found: " +
			"leave out --audit-log to have the message explained, or the message to list requests")
	case len(o.logs) == 0 && (o.namespace+o.uid+o.kind != "" || o.Blame || o.Documents):
		return errors.New("-n, --uid, --kind, --blame and --documents go with --audit-log: leave them out, or name the log")
	}
	return nil
}
