package explain

import (
	"errors"
	"fmt"
	"strings"

	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/tool"
)

// explainObject explains an object from the audit log.
func explainObject(env tool.Env, o options, args []string) ([]report.Report, error) {
	if len(o.logs) == 0 {
		return nil, errors.New("to explain an object, pass --audit-log FILE with the audit events of the API server, or --cluster=api for a workload " +
			"without pods")
	}
	filter := Filter{Namespace: o.namespace, UID: o.uid, Refusal: o.refusal, Kind: o.kind}
	switch {
	case len(args) == 2:
		filter.Kind, filter.Name = args[0], args[1]
	case len(args) == 1:
		filter.Name = args[0]
		if namespace, name, found := strings.Cut(args[0], "/"); found {
			filter.Namespace, filter.Name = namespace, name
		}
	}
	return requestsOf(env, o)(filter)
}

// requestsOf returns the search of the audit logs; nil if there are none.
func requestsOf(env tool.Env, o options) Requests {
	if len(o.logs) == 0 {
		return nil
	}
	return func(filter Filter) ([]report.Report, error) {
		log := NewLog(filter)
		for _, name := range o.logs {
			if err := ReadLog(env, log, name); err != nil {
				return nil, err
			}
		}
		return log.Reports(o.Options), nil
	}
}

// ReadLog reads an audit log from a file; from standard input for "-".
func ReadLog(env tool.Env, log *Log, name string) error {
	in, err := env.OpenFile(name)
	if err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	defer func() { _ = in.Close() }()
	if name == "-" {
		name = "standard input"
	}
	if err := log.Read(name, in); err != nil {
		return fmt.Errorf("--audit-log: %w", err)
	}
	return nil
}
