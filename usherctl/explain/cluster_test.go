package explain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/config"
	"usher.dev/usher/usherctl/report"
)

// The objects of a Deployment web with one pod, in namespace apps. TOKENS in capitals are replaced by the cases.
const (
	aDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: apps, uid: d, generation: 1}
spec: {replicas: 1PAUSED}
status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1CONDITION}
---
`
	aReplicaSet = `
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-a, namespace: apps, uid: r, creationTimestamp: "2026-11-22T12:00:00Z", ownerReferences: [{kind: Deployment, name: web, uid: d}]}
spec: {replicas: 1}
status: {replicas: 1}
---
`
	aPod = `
apiVersion: v1
kind: Pod
metadata: {name: web-a-1, namespace: apps, uid: p, ownerReferences: [{kind: ReplicaSet, name: web-a, uid: r}]}
status: {STATUS}
---
`
	anEvent = `
apiVersion: v1
kind: Event
metadata: {name: one, namespace: apps}
type: Warning
reason: REASON
message: 'MESSAGE'
lastTimestamp: "2026-11-22T12:30:00Z"
involvedObject: {ABOUT}
---
`
	notBound = `running Bind plugin "DefaultBinder": Internal error occurred: failed calling webhook "b.example.com": failed to call webhook: the ` +
		`server could not find the requested resource`
	ready    = `phase: Running, conditions: [{type: PodScheduled, status: "True"}, {type: Ready, status: "True"}]`
	aboutPod = `kind: Pod, name: web-a-1, uid: p`
	aboutSet = `kind: ReplicaSet, name: web-a, uid: r`
	about    = `kind: Deployment, name: web, uid: d`
	noSet    = `Failed to create new replica set "web-a": Internal error occurred: failed calling webhook "r.example.com": failed to call webhook: ` +
		`the server could not find the requested resource`
)

func warns(reason, message, about string) string {
	return strings.NewReplacer("REASON", reason, "MESSAGE", message, "ABOUT", about).Replace(anEvent)
}

func podWith(status string) string { return strings.Replace(aPod, "STATUS", status, 1) }

// TestCluster: what keeps the pods of a workload from coming, or from running, and what is not known. Nothing unknown passes.
func TestCluster(t *testing.T) {
	whole := aDeployment + aReplicaSet
	none := strings.Replace(aDeployment, "replicas: 1, updatedReplicas: 1", "replicas: 0", 1) // a Deployment without a ReplicaSet
	lacking := none + strings.Replace(aReplicaSet, "status: {replicas: 1}", "status: {replicas: 0}", 1)
	progressing := `, conditions: [{type: Progressing, status: "False", reason: ReplicaSetCreateError, message: 'MESSAGE'}]`
	for _, c := range []struct {
		name    string
		objects string
		args    []string
		exit    report.Exit
		want    []string // in this order
		never   []string
	}{
		{"a pod that runs", whole + podWith(ready), nil, report.Fine, []string{"passed  Deployment apps/web", "no pod is missing, and all 1 run"}, nil},
		{"a binding that is refused, by the condition", whole +
			podWith(`phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulerError, message: '`+notBound+`'}]`), nil,
			report.Refused, []string{"failed  Deployment apps/web, its pods  (condition of Pod web-a-1", "webhook-not-called: b.example.com"},
			[]string{"passed", "no-pod-missing"}},
		{"the same, by the event, as the status may not be written", whole + podWith("phase: Pending") + warns("FailedScheduling", notBound, aboutPod), nil,
			report.Refused, []string{"(event of Pod web-a-1", "webhook-not-called: b.example.com"}, []string{"passed"}},
		{"the same of a pod", whole + podWith("phase: Pending") + warns("FailedScheduling", notBound, aboutPod), []string{"pod", "web-a-1"},
			report.Refused, []string{"failed  Pod apps/web-a-1  (event of Pod web-a-1", "webhook-not-called: b.example.com"}, []string{"passed"}},
		{"a token that is refused", whole + podWith(`phase: Pending, conditions: [{type: PodScheduled, status: "True"}], containerStatuses: [{name: a, `+
			`state: {waiting: {reason: ContainerCreating}}}]`) +
			warns("FailedMount", `MountVolume.SetUp failed: failed to fetch token: admission webhook "t.example.com" denied the request: no`, aboutPod), nil,
			report.Refused, []string{"denied", "not-usher: t.example.com"}, nil},
		{"a pod whose status nobody writes", whole + podWith("phase: Pending"), nil, report.Unjudged,
			[]string{"unknown: pod-not-running: Pod apps/web-a-1", "neither its status nor an event says why"}, []string{"passed"}},
		{"the same of a pod", whole + podWith("phase: Pending"), []string{"web-a-1"}, report.Unjudged,
			[]string{"unknown: pod-not-running", "info: pod-exists"}, []string{"passed"}},
		{"a pod that finds no node", whole + podWith(`phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, `+
			`message: 0/1 nodes are available}]`) +
			warns("FailedScheduling", notBound, aboutPod), nil, report.Fine,
			[]string{"info: pod-not-running", "Unschedulable: 0/1 nodes are available", "kubectl describe pod web-a-1 -n apps"}, []string{"denied"}},
		{"a program that says it was refused", whole + podWith(`phase: Running, containerStatuses: [{name: a, state: {waiting: {reason: `+
			`CrashLoopBackOff, message: pods is forbidden}}}]`), nil,
			report.Fine, []string{"info: pod-not-running", "container a: CrashLoopBackOff: pods is forbidden"}, []string{"denied"}},
		{"a ReplicaSet that is refused, by the event", none + warns(noReplicaSet, noSet, about), nil, report.Refused,
			[]string{"failed  Deployment apps/web, its pods  (event of Deployment web", "webhook-not-called: r.example.com"},
			[]string{"as of now", "no-failure-found"}},
		{"the same, by the condition", strings.Replace(none, "CONDITION", strings.Replace(progressing, "MESSAGE", noSet, 1), 1), nil, report.Refused,
			[]string{"(condition of Deployment web", "webhook-not-called: r.example.com"}, []string{"as of now"}},
		{"a ReplicaSet that was refused before", whole + podWith(ready) + strings.Replace(warns(noReplicaSet, noSet, about), "12:30", "11:30", 1), nil,
			report.Fine,
			[]string{"passed", "no-pod-missing", "info: failure-over: Deployment web", "r.example.com"}, []string{"denied"}},
		{"a rollout that has recovered", whole + podWith(ready) + warns("FailedCreate",
			`Error creating: admission webhook "x.example.com" denied the request: no`, aboutSet), nil, report.Fine,
			[]string{"passed", "no-pod-missing", "info: failure-over: ReplicaSet web-a", "x.example.com"}, []string{"denied  "}},
		{"one that has not", lacking + warns("FailedCreate", `Error creating: admission webhook "x.example.com" denied the request: no`, aboutSet), nil,
			report.Refused,
			[]string{"denied  Deployment apps/web", "not-usher: x.example.com", "allowed  Pod", "tries again by itself"},
			[]string{"failure-over"}},
		{"one whose webhook could not be called", lacking + warns("FailedCreate", `Error creating: Internal error occurred: failed calling webhook `+
			`"validate-pods.usher.dev": failed to call webhook: no`, aboutSet), nil, report.Unjudged,
			[]string{"webhook-not-called: validate-pods.usher.dev", "not judged  Pod", "cannot be seen there"}, []string{"tries again"}},
		{"one that plug-ins refused that the cluster does not show", lacking + warns("FailedCreate", `Error creating: pods "web-a-1" is forbidden: node `+
			`label selectors conflict`, aboutSet), nil, report.Unjudged, []string{"not-usher", "not judged  Pod", "cannot be seen there"}, nil},
		{"a paused Deployment", strings.Replace(none, "PAUSED", ", paused: true", 1), nil, report.Refused,
			[]string{"warning: workload-paused: Deployment apps/web", "spec.paused is true", "kubectl rollout resume deployment/web -n apps",
				"as of now the pod is allowed"}, []string{"tries again", "no-failure-found"}},
		{"a paused rollout", strings.Replace(strings.Replace(whole, "PAUSED", ", paused: true", 1), "updatedReplicas: 1", "updatedReplicas: 0", 1) +
			podWith(ready), nil, report.Refused,
			[]string{"workload-paused"}, []string{"passed"}},
		{"a paused Deployment whose pod is refused", strings.Replace(lacking, "PAUSED", ", paused: true", 1) + warns("FailedCreate",
			`Error creating: admission webhook "x.example.com" denied the request: no`, aboutSet), nil,
			report.Refused, []string{"denied  Deployment apps/web", "workload-paused: Deployment apps/web", "spec.paused is true",
				"Resuming it does not correct what else is wrong", "kubectl rollout resume deployment/web -n apps"}, nil},
		{"a paused Deployment whose ReplicaSet is refused", strings.Replace(none, "PAUSED", ", paused: true", 1) + warns(noReplicaSet, noSet, about), nil,
			report.Refused,
			[]string{"failed  Deployment apps/web", "workload-paused"}, []string{"tries again"}},
		{"a paused Deployment whose pod is not bound", strings.Replace(whole, "PAUSED", ", paused: true", 1) + podWith("phase: Pending") +
			warns("FailedScheduling", notBound, aboutPod), nil,
			report.Refused, []string{"webhook-not-called: b.example.com", "workload-paused"}, nil},
		{"a paused Deployment that lacks pods", strings.Replace(lacking, "PAUSED", ", paused: true", 1), nil, report.Unjudged,
			[]string{"no-failure-found", "workload-paused"}, nil},
		{"a paused Deployment with its pods", strings.Replace(whole, "PAUSED", ", paused: true", 1) + podWith(ready), nil, report.Fine,
			[]string{"no-pod-missing"}, []string{"workload-paused"}},
		{"pods that are missing", lacking, nil, report.Unjudged,
			[]string{"unknown: no-failure-found", "1 pods are missing", "as of now the pod is allowed"}, []string{"tries again", "passed"}},
		{"a rollout that stands", strings.Replace(whole, "updatedReplicas: 1", "updatedReplicas: 0", 1) + podWith(ready), nil, report.Unjudged,
			[]string{"unknown: no-failure-found", "1 pods of the current template"}, []string{"passed"}},
		{"ReplicaSets that are not scaled", strings.Replace(whole, "spec: {replicas: 1PAUSED}", "spec: {replicas: 3}", 1) +
			podWith("phase: Running, reason: Odd"), nil, report.Unjudged, []string{"2 pods are missing"}, nil},
		{"a status of an earlier spec", strings.Replace(whole, "generation: 1", "generation: 2", 1) + podWith(ready), nil, report.Unjudged,
			[]string{"the status is of an earlier spec"}, []string{"passed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			text := strings.NewReplacer("PAUSED", "", "CONDITION", "").Replace(c.objects)
			if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			source, err := reader.Files(dir)
			if err != nil {
				t.Fatal(err)
			}
			in := Cluster{Source: source, Namespace: "apps", Policy: func(context.Context) (Policy, error) { return Policy{Policy: &config.Policy{}}, nil },
				Review: func(context.Context, []byte, Policy) ([]report.Report, error) {
					return []report.Report{{Subject: report.Subject{Kind: "Pod"}, Verdict: report.Allowed}}, nil
				}}
			args := c.args
			if args == nil {
				args = []string{"deployment/web"}
			}
			reports, err := in.Explain(t.Context(), args)
			if err != nil {
				t.Fatal(err)
			}
			if got := report.ExitOf(reports); got != c.exit {
				t.Errorf("exit %d, want %d", got, c.exit)
			}
			checkText(t, textOf(reports), c.want, c.never)
		})
	}
}

// TestUnreadPolicy: a report does not pass if the policy could not be read.
func TestUnreadPolicy(t *testing.T) {
	r := adding(report.Examined(report.Subject{}), policyNotRead(errors.New("closed"))...)
	if r.Verdict == report.Passed || r.Exit() != report.Unjudged {
		t.Errorf("%+v", r)
	}
}

// TestAsOfNow: what could not be judged is never called allowed, and a suspended workload tries nothing again.
func TestAsOfNow(t *testing.T) {
	refused := Failure{Message: `admission webhook "validate-pods.usher.dev" denied the request: x (refusal 01234567)`}
	for verdict, want := range map[report.Verdict]string{report.Allowed: "allowed", report.Skipped: "allowed", report.NotJudged: "", report.Denied: "",
		report.Invalid: ""} {
		for _, again := range []bool{true, false} {
			in := Cluster{Review: func(context.Context, []byte, Policy) ([]report.Report, error) {
				return []report.Report{{Verdict: verdict}}, nil
			}}
			found, err := in.now(t.Context(), object{}, Policy{}, refused, again)
			if got := textOf(found); err != nil || strings.Contains(got, "as of now the pod is allowed") != (want != "") ||
				strings.Contains(got, "tries again") != (again && want != "") {
				t.Errorf("%s, again %t: %v\n%s", verdict, again, err, got)
			}
		}
	}
}
