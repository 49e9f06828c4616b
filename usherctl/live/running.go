package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"usher.dev/usher/admit"
	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/server/installed"
	"usher.dev/usher/server/webhooks"
	"usher.dev/usher/usherctl/parallel"
)

// Running is the usher that runs behind a Service.
type Running struct {
	Versions []string // of its pods
	Differ   []string // how its steps are not those of the instance that stands for it
}

// step is a step of a route.
type step struct{ route, name string }

func (s step) String() string { return s.name + " of " + s.route }

// ReadRunning reads, through the API server, which steps the ready pods behind a Service of usher run, and compares them with those of the
// routes, with modes also in theirs. Without such pods there is nothing to compare. The error says why some are not known.
func ReadRunning(ctx context.Context, source reader.Source, at webhooks.Address, of installed.Usher, routes []admit.Route,
	modes bool) (r Running, err error) {
	pods, err := readyPods(ctx, source, at)
	if err != nil {
		return r, err
	}
	texts, errs, calls := make([]string, len(pods)), make([]error, len(pods)), []func(){}
	for i, pod := range pods {
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s/proxy/metrics", at.Namespace, pod, operationsPort(of))
		calls = append(calls, func() {
			raw, err := source.Read(ctx, path)
			if unread, is := errors.AsType[*reader.UnreadableError](err); is {
				unread.What = "pods/proxy in namespace " + at.Namespace
			}
			texts[i], errs[i] = string(raw), err
		})
	}
	parallel.Run(calls...)
	for i, text := range texts {
		if errs[i] != nil {
			continue
		}
		version, steps := parse(text)
		if len(steps) == 0 {
			errs[i] = fmt.Errorf("usher's pod %s, version %s, does not tell its steps: its metrics lack usher_step_info", pods[i], version)
		} else if differ := differences(steps, routes, modes); differ != "" {
			r.Differ = append(r.Differ, pods[i]+" "+differ)
		}
		r.Versions = append(r.Versions, version)
	}
	slices.Sort(r.Versions)
	r.Versions = slices.Compact(r.Versions)
	return r, cmp.Or(errs...)
}

// readyPods returns the names of the ready pods behind a Service.
func readyPods(ctx context.Context, source reader.Source, at webhooks.Address) (pods []string, err error) {
	kind := reader.NewKind(discoveryv1.GroupName, "v1", "EndpointSlice", "endpointslices")
	all, err := reader.All[discoveryv1.EndpointSlice](source.List(ctx, kind, at.Namespace))
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		for _, e := range s.Endpoints {
			switch {
			case s.Labels[discoveryv1.LabelServiceName] != at.Service || e.Conditions.Ready != nil && !*e.Conditions.Ready:
			case e.TargetRef == nil || e.TargetRef.Kind != "Pod":
				return nil, errors.New("the endpoints of usher are no pods, and others are not asked for their steps")
			case !slices.Contains(pods, e.TargetRef.Name): // it has addresses of IPv4 and of IPv6
				pods = append(pods, e.TargetRef.Name)
			}
		}
	}
	slices.Sort(pods)
	return pods, nil
}

// operationsPort returns the port at which usher serves its metrics.
func operationsPort(of installed.Usher) string {
	_, port, _ := net.SplitHostPort(of.Flag("ops-listen"))
	return cmp.Or(port, "8081")
}

var (
	seriesOfVersion = regexp.MustCompile(`(?m)^usher_build_info\{version="([^"]*)"\}`)
	seriesOfStep    = regexp.MustCompile(`(?m)^usher_step_info\{(.*)\} 1$`)
	labelOfSeries   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// parse returns what the metrics of usher say of its version, and of its steps: their modes.
func parse(metrics string) (version string, steps map[step]string) {
	if found := seriesOfVersion.FindStringSubmatch(metrics); found != nil {
		version = found[1]
	}
	steps = map[step]string{}
	for _, series := range seriesOfStep.FindAllStringSubmatch(metrics, -1) {
		labels := map[string]string{}
		for _, label := range labelOfSeries.FindAllStringSubmatch(series[1], -1) {
			labels[label[1]] = label[2]
		}
		steps[step{labels["route"], labels["step"]}] = labels["mode"]
	}
	return version, steps
}

// differences says how steps are not those of routes, with modes also in theirs; "" if they are.
func differences(steps map[step]string, routes []admit.Route, modes bool) string {
	var lacks, has, otherwise []string
	expected := map[step]bool{}
	for _, r := range routes {
		for _, s := range r.Chain.Steps() {
			is := step{r.Path, s.Name}
			expected[is] = true
			if mode := steps[is]; mode == "" {
				lacks = append(lacks, is.String())
			} else if modes && mode != string(s.Mode) {
				otherwise = append(otherwise, fmt.Sprintf("%s in mode %s instead of %s", is, mode, s.Mode))
			}
		}
	}
	for is := range steps {
		if !expected[is] {
			has = append(has, is.String())
		}
	}
	slices.Sort(has)
	var parts []string
	for _, p := range []struct {
		verb  string
		steps []string
	}{{"lacks", lacks}, {"also has", has}, {"runs", otherwise}} {
		if len(p.steps) > 0 {
			parts = append(parts, p.verb+" "+strings.Join(p.steps, ", "))
		}
	}
	return strings.Join(parts, ", and ")
}
