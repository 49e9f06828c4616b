package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"usher.dev/usher/server/recording/mask"
	"usher.dev/usher/usherctl/report"
)

// condition is a condition of an object.
type condition struct {
	Type, Status, Reason, Message string
	LastTransitionTime            *time.Time
}

// failure returns what a condition of an object says.
func (c condition) failure(of Owner) Failure {
	f := Failure{Object: of.String(), From: "condition", Reason: c.Reason, Message: c.Message}
	if c.LastTransitionTime != nil {
		f.At = *c.LastTransitionTime
	}
	return f
}

// podStatus holds the fields of a pod that say why it does not run.
type podStatus struct {
	Metadata struct{ DeletionTimestamp *time.Time }
	Status   struct {
		Phase, Reason, Message                   string
		Conditions                               []condition
		InitContainerStatuses, ContainerStatuses []containerStatus
	}
}

type containerStatus struct {
	Name  string
	State struct {
		Waiting, Terminated *struct {
			Reason, Message string
			ExitCode        int
		}
	}
}

// is returns the condition of a type if it has a status.
func (p podStatus) is(kind, status string) (condition, bool) {
	i := slices.IndexFunc(p.Status.Conditions, func(c condition) bool { return c.Type == kind && c.Status == status })
	if i < 0 {
		return condition{}, false
	}
	return p.Status.Conditions[i], true
}

// runs reports whether a pod is ready, or has ended as it should.
func (p podStatus) runs() bool {
	_, ready := p.is("Ready", "True")
	return p.Status.Phase == "Succeeded" || p.Status.Phase == "Running" && ready && p.Metadata.DeletionTimestamp == nil
}

// own returns why a pod does not run by what its kubelet has written; "" if that says nothing.
func (p podStatus) own() string {
	switch {
	case p.Metadata.DeletionTimestamp != nil:
		return "it is being deleted"
	case p.Status.Phase == "Failed":
		return join(cmp.Or(p.Status.Reason, "Failed"), p.Status.Message)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w, t := c.State.Waiting, c.State.Terminated
		if w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" { // which do not say why
			return "container " + c.Name + ": " + join(w.Reason, w.Message)
		}
		if t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("container %s: %s, exit code %d", c.Name, cmp.Or(t.Reason, "ended"), t.ExitCode)
		}
	}
	return ""
}

// whyNot returns why a pod does not run: by the scheduler, else by its kubelet, else by the newest of its warnings. The message
// is empty if nothing says why.
func (p podStatus) whyNot(of Owner, warnings []Failure) Failure {
	_, scheduled := p.is("PodScheduled", "True")
	if c, is := p.is("PodScheduled", "False"); is && c.Reason+c.Message != "" {
		f := c.failure(of)
		f.Message = cmp.Or(f.Message, f.Reason)
		return f
	}
	if own := p.own(); own != "" {
		return Failure{Object: of.String(), From: fromStatus, Message: own}
	}
	for _, w := range warnings {
		if w.Reason != "FailedScheduling" || !scheduled {
			return w
		}
	}
	if c, is := p.is("Ready", "False"); is && p.Status.Phase == "Running" {
		return Failure{Object: of.String(), From: fromStatus, Message: join(c.Reason, c.Message)}
	}
	return Failure{Object: of.String()}
}

// fromStatus is where a failure is from that has a text of a program: such a text is never taken for a refusal.
const fromStatus = "status"

// join returns a reason and a message as one text.
func join(reason, message string) string {
	return strings.Trim(reason+": "+message, ": ")
}

// podState is a pod that does not run, and why.
type podState struct {
	pod object
	why Failure
}

// refused reports whether admission keeps the pod from running.
func (s podState) refused() bool {
	_, is := ParseRefusal(s.why.Message)
	return is && s.why.From != fromStatus && s.why.Reason != "Unhealthy" // a probe's answer is a text of a program, too
}

// text says why the pod does not run.
func (s podState) text() string {
	if s.why.From == fromStatus || s.why.Reason == s.why.Message {
		return s.why.Message
	}
	return join(s.why.Reason, s.why.Message)
}

// idle returns the pods that do not run.
func idle(pods []object, events []json.RawMessage) (all []podState) {
	for _, pod := range pods {
		var status podStatus
		if json.Unmarshal(pod.raw, &status) == nil && status.runs() {
			continue
		}
		all = append(all, podState{pod, status.whyNot(pod.owner(), warnings(events, pod.owner()))})
	}
	return all
}

// refusals returns what keeps pods from running that is a refusal.
func refusals(idle []podState) (all []Failure) {
	for _, s := range idle {
		if s.refused() {
			all = append(all, s.why)
		}
	}
	return all
}

// describe returns findings on the pods that do not run: why, and those of which nothing says why.
func describe(idle []podState, o Options) (found []report.Finding) {
	mask := mask.Mask{Show: o.ShowValues}
	for _, s := range idle {
		f := finding("pod-not-running", report.Info, s.pod.String(), "it does not run, and no admission refused it: "+maskText(&mask, s.text()))
		f.Look = s.pod.look()
		if s.why.Message == "" {
			f.Severity = report.Unknown
			f.Message = "it does not run, and neither its status nor an event says why: its scheduler or its kubelet has not tried yet, has no right, or " +
				"is refused pods/status"
		}
		found = append(found, f)
	}
	return found
}

// pods returns the pods that objects have created.
func (f finder) pods(ctx context.Context, creators []object) (all []object, err error) {
	items, err := f.List(ctx, podKind, f.namespace)
	for _, raw := range items {
		pod, err := newObject(podKind, raw)
		if err != nil {
			return nil, err
		}
		for _, owner := range pod.Metadata.OwnerReferences {
			if slices.ContainsFunc(creators, func(c object) bool { return c.Metadata.UID == owner.UID }) {
				all = append(all, pod)
			}
		}
	}
	return all, err
}

// look returns the command that describes an object.
func (o object) look() string {
	return fmt.Sprintf("kubectl describe %s %s -n %s", strings.ToLower(o.kind.Kind), report.Word(o.Metadata.Name), report.Word(o.Metadata.Namespace))
}
