package review

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/tool"
)

// BenchmarkReview measures the processor time of usherctl review for each pod, in milliseconds and as a multiple of the time to decode the pod
// and to encode it again as JSON, which is about the same on a busy machine and on an idle one.
func BenchmarkReview(b *testing.B) {
	const n = 100
	for _, kind := range []struct{ name, spec string }{{"minimal", `{"containers": [{"name": "a", "image": "b"}]}`}, {"realistic", realistic()}} {
		b.Run(kind.name, func(b *testing.B) {
			pod := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-%%d", "labels": {"app": "web"}}, "spec": %s}`, kind.spec)
			var file strings.Builder
			for i := range n {
				fmt.Fprintf(&file, pod+"\n---\n", i)
			}
			name := filepath.Join(b.TempDir(), "pods.yaml")
			if err := os.WriteFile(name, []byte(file.String()), 0o600); err != nil {
				b.Fatal(err)
			}
			review := func() {
				c := Command(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: io.Discard, Err: io.Discard}}, nil)
				c.SetArgs([]string{name})
				if err := c.ExecuteContext(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			review() // loads Kubernetes' code
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				review()
			}
			each := (processorTime(b) - began) / time.Duration(b.N*n)
			b.ReportMetric(float64(each.Microseconds())/1000, "CPU-ms/pod")
			b.ReportMetric(float64(each)/float64(recoding(b, fmt.Sprintf(pod, 0))), "×JSON")
			b.ReportMetric(float64(len(pod)), "bytes/pod")
		})
	}
}

// recoding returns the processor time to decode a text and to encode it again.
func recoding(b *testing.B, text string) time.Duration {
	const times = 2000
	began := processorTime(b)
	for range times {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(value); err != nil {
			b.Fatal(err)
		}
	}
	return (processorTime(b) - began) / times
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// realistic returns the specification of a pod as a cluster has them, with three containers.
func realistic() string {
	const container = `{"name": "c%d", "image": "registry.example.com/team/app:v1.2.3", "imagePullPolicy": "IfNotPresent",
"command": ["/bin/app", "--log-level=info", "--config=/etc/app/config.yaml"], "ports": [{"containerPort": 80%[1]d0, "name": "http%[1]d", "protocol": "TCP"}],
"env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}, {"name": "REGION", "value": "eu-central-1"},
{"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "app-db", "key": "url"}}}, {"name": "JAVA_OPTS", "value": "-Xmx512m -XX:+UseG1GC"}],
"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "512Mi"}},
"livenessProbe": {"httpGet": {"path": "/healthz", "port": "http%[1]d", "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3},
"readinessProbe": {"httpGet": {"path": "/readyz", "port": "http%[1]d", "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3},
"securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}},
"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
"volumeMounts": [{"mountPath": "/etc/app", "name": "config", "readOnly": true}, {"mountPath": "/tmp", "name": "tmp"}]}`
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprintf(container, i))
	}
	return `{"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
"securityContext": {"fsGroup": 1000, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [` + strings.Join(all, ", ") + `],
"volumes": [{"name": "config", "configMap": {"name": "app-config", "defaultMode": 420}}, {"name": "tmp", "emptyDir": {}}]}`
}
