package review

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/tool"
)

// aPod is a pod as kubectl get -o json shows it, of a Deployment, with a name to fill in.
const aPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-5d4f%[1]d-%05[2]d","generateName":"web-5d4f%[1]d-","namespace":"team-%[1]d",
"uid":"00000000-0000-0000-0000-%012[2]d","resourceVersion":"%[2]d","generation":1,"creationTimestamp":"2026-11-01T00:00:00Z","labels":{"app":"web","pod-template-hash":"5d4f%[1]d"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f%[1]d","uid":"u","controller":true,"blockOwnerDeletion":true}]},
"spec":{"volumes":[{"name":"kube-api-access-x","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}}],
"containers":[{"name":"web","image":"registry.example.com/web:%[3]s","resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m","memory":"256Mi"}},
"volumeMounts":[{"name":"kube-api-access-x","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","serviceAccount":"web","nodeName":"node-1","securityContext":{},"schedulerName":"default-scheduler",
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
"priorityClassName":"web","priority":1000,"preemptionPolicy":"PreemptLowerPriority","runtimeClassName":"sandbox","overhead":{"cpu":"10m"},"enableServiceLinks":true,"ephemeralContainers":[{"name":"debug","image":"busybox"}]},
"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"podIP":"10.1.0.1","containerStatuses":[{"name":"web","ready":true,"restartCount":0,"image":"web","imageID":"web@sha256:0"}],"qosClass":"Burstable"}}`

// quota counts the pods that exist, and has no room for others.
const quota = `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"full","namespace":"team-0","uid":"u"},"spec":{"hard":{"pods":"1"}},"status":{"hard":{"pods":"1"},"used":{"pods":"1"}}}`

// dump writes pods of Deployments of 100 each, as kubectl get pods -A -o json does; the second Deployment has another image.
func dump(to io.Writer, pods int) error {
	w := bufio.NewWriter(to)
	_, _ = w.WriteString(`{"apiVersion":"v1","items":[`)
	for i := range pods {
		tag := "1"
		if i/100 == 1 {
			tag = "latest"
		}
		_, _ = fmt.Fprintf(w, aPod+",", i/100, i, tag)
	}
	_, _ = w.WriteString(quota + `],"kind":"List"}`)
	return w.Flush()
}

// policy refuses the image of the second Deployment.
const policy = "rules:\n- name: no-latest\n  match: {apiGroups: [\"\"], resources: [pods], operations: [CREATE]}\n" +
	"  validations: [{expression: \"object.spec.containers.all(c, !c.image.endsWith(':latest'))\", message: no tag latest}]\n"

// reviewDump runs usherctl review with the policy and a dump.
func reviewDump(t *testing.T, pods int, arguments ...string) (out string, err error) {
	t.Helper()
	dir := t.TempDir()
	rules, name := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "dump.json")
	file, err := os.Create(name)
	if err == nil {
		err = errors.Join(dump(file, pods), file.Close(), os.WriteFile(rules, []byte(policy), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	var to bytes.Buffer
	c := Command(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &to, Err: &to}}, nil)
	c.SetArgs(append(arguments, "--config", rules, name))
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(t.Context())
	return strings.ReplaceAll(to.String(), name, "dump.json"), err
}

// pods is the number of pods of a dump; USHER_DUMP_PODS sets another.
func pods(t *testing.T) int {
	t.Helper()
	n := 250
	if text := os.Getenv("USHER_DUMP_PODS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestDump: of the pods that a cluster has, those are refused that a new policy refuses, each Deployment is named once, and nothing
// that API servers, controllers or kubelets have filled in is a reason.
func TestDump(t *testing.T) {
	n := pods(t)
	text, err := reviewDump(t, n, "-q")
	for _, want := range []string{
		"denied  Deployment team-1/web: 100 pods: rules: object: Invalid value: no tag latest (rule no-latest)",
		fmt.Sprintf("%d objects: %d allowed", n+1, n-100), "100 denied",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %v:\n%s", want, err, text)
		}
	}
	if most := peak(t); n >= 20_000 && most > 400<<10 {
		t.Errorf("%d pods took %d MiB", n, most>>10)
	} else {
		t.Logf("%d pods took %d MiB", n, most>>10)
	}
}

// peak returns the most memory that this process has had, in KiB; 0 if the system does not tell.
func peak(t *testing.T) (kib int) {
	t.Helper()
	status, _ := os.ReadFile("/proc/self/status")
	if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
		_, _ = fmt.Sscan(after, &kib)
	}
	return kib
}

// TestDumpInJSON: in JSON each pod is there, with its owner.
func TestDumpInJSON(t *testing.T) {
	text, err := reviewDump(t, 2, "-o", "json")
	if n := strings.Count(text, `"owner": "Deployment team-0/web"`); err != nil || n != 2 {
		t.Errorf("%d pods have an owner, %v: %s", n, err, text)
	}
}
