package injection

import (
	"strings"
	"testing"

	"usher.dev/usher/config"
	"usher.dev/usher/test/configtest"
)

// TestSidecarsProblems: every problem of the section is reported at once, each with its path.
func TestSidecarsProblems(t *testing.T) {
	cases := []struct {
		name, text string
		want       []string
	}{
		{"everything is well", `{name: a, namespaceSelector: {matchLabels: {team: a}}, podSelector: {}, optOutAnnotation: example.com/no-sidecar,
			initContainers: [{name: p, image: i, restartPolicy: Always, env: [{name: NS, value: $(usher.namespace)}]}], initPosition: last,
			containers: [{name: c, image: i, args: ["--app=$(usher.labels['app'])"]}], position: {after: app},
			volumes: [{name: v, emptyDir: {}}], imagePullSecrets: [{name: s}], env: [{name: A, value: "1"}], volumeMounts: [{name: v, mountPath: /v}]}`, nil},
		{"nothing", `{}`, []string{`sidecars[0].name: Invalid value: ""`, `sidecars[0]: Required value: injects nothing`}},
		{"an operating system", `{name: a, env: [{name: A}], os: Windows}`, []string{`sidecars[0].os: Unsupported value: "Windows": supported values: "linux", "windows", "any"`}},
		{"a container for Linux in pods for Windows", `{name: a, os: any, containers: [{name: x, image: i, securityContext: {runAsUser: 1}}, {name: z, image: i, securityContext: {runAsNonRoot: true}}]}`,
			[]string{`sidecars[0].containers[0].securityContext: Forbidden: in pods for Windows it may have only runAsNonRoot and windowsOptions`}},
		{"selectors", `{name: a, env: [{name: A}], namespaceSelector: {matchLabels: {"a b": c}}, podSelector: {matchExpressions: [{key: a, operator: Is}]}}`,
			[]string{`sidecars[0].namespaceSelector.matchLabels`, `sidecars[0].podSelector.matchExpressions[0].operator`}},
		{"names", `{name: A_b, containers: [{name: "", image: " "}, {name: x, image: i}], initContainers: [{name: x, image: i}], optOutAnnotation: a b}`,
			[]string{`sidecars[0].name: Invalid value: "A_b"`, `sidecars[0].containers[0].name`, `sidecars[0].containers[0].image: Required`,
				`sidecars[0].initContainers[0].name: Duplicate value: "x"`, `sidecars[0].optOutAnnotation: Invalid value: "a b"`}},
		{"a native sidecar among the containers", `{name: a, containers: [{name: x, image: i, restartPolicy: Always}]}`,
			[]string{`sidecars[0].containers[0].restartPolicy: Invalid value: "Always": a native sidecar is an init container: move it to initContainers`}},
		{"a host process with another port of the node", `{name: a, containers: [{name: x, image: i, ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 82}],
			securityContext: {windowsOptions: {hostProcess: true}}}]}`, []string{`sidecars[0].containers[0].ports[1].hostPort: Invalid value: 82: must be the containerPort`}},
		{"positions", `{name: a, containers: [{name: x, image: i}], position: middle, initPosition: {before: b, after: c}}`,
			[]string{`sidecars[0].position: Invalid value: must be first, last, {before: NAME} or {after: NAME}`, `sidecars[0].initPosition: Invalid value`}},
		{"names of positions", `{name: a, containers: [{name: x, image: i}], position: {before: A b}, initPosition: {next: c}}`,
			[]string{`sidecars[0].initPosition: Invalid value: must be first`, `sidecars[0].position: Invalid value: "A b"`}},
		{"placeholders", `{name: a, containers: [{name: x, image: "i:$(usher.name)", args: [$(usher.nam), "$(X)"], env: [{name: A, value: $(usher.x)}]}],
			env: [{name: B, value: $(usher.owner.name)}], volumes: [{name: v, hostPath: {path: /$(usher.namespace)}}]}`,
			[]string{`sidecars[0].containers[0].args[0]: Invalid value: "$(usher.nam)"`, `sidecars[0].containers[0].env[0].value: Invalid value: "$(usher.x)"`,
				`sidecars[0].containers[0]: Forbidden: placeholders are read only in command, args and the values of env`,
				`sidecars[0].env[0].value: Invalid value`, `sidecars[0].volumes[0]: Forbidden: placeholders are read only`}},
		{"parts", `{name: a, volumes: [{name: v}, {name: v}], imagePullSecrets: [{name: s}, {name: s}, {}], volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}, {name: v}],
			env: [{name: A}, {name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: 1=}]}`,
			[]string{`sidecars[0].volumes[1].name: Duplicate`, `sidecars[0].imagePullSecrets[1].name: Duplicate`, `sidecars[0].imagePullSecrets[2].name: Invalid`,
				`sidecars[0].volumeMounts[1].mountPath: Duplicate`, `sidecars[0].volumeMounts[2].mountPath: Required`, `sidecars[0].env[1].name: Duplicate`,
				`sidecars[0].env[1].valueFrom: Invalid`, `sidecars[0].env[2].name: Invalid`}},
		{"fields of a container that do not exist", `{name: a, containers: [{name: x, image: i, imagePolicy: Always, resources: {limit: {}}, ports: [{containerPort: "80"}]}]}`,
			[]string{`sidecars[0].containers[0].imagePolicy: Forbidden: unknown field`, `sidecars[0].containers[0].resources.limit: Forbidden: unknown field; did you mean limits?`,
				`sidecars[0].containers[0].ports[0].containerPort: Invalid value: "80": must be a whole number`}},
		{"a container that no API server stores", `{name: a, containers: [{name: x, image: i, imagePullPolicy: always, ports: [{containerPort: 99999}, {containerPort: 80, protocol: tcp}],
			resources: {requests: {cpu: 2}, limits: {cpu: 1}}, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.nam}}}], readinessProbe: {httpGet: {port: 0}}}],
			initContainers: [{name: w, image: i, restartPolicy: always, livenessProbe: {exec: {command: [a]}}}, {name: z, image: " i"}]}`,
			[]string{`sidecars[0].containers[0].imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"`,
				`sidecars[0].containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535`, `sidecars[0].containers[0].ports[1].protocol: Unsupported value: "tcp"`,
				`sidecars[0].containers[0].resources.requests[cpu]: Invalid value: "2": must be at most the limit, 1`,
				`sidecars[0].containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.nam"`, `sidecars[0].containers[0].readinessProbe.httpGet.port: Invalid value: 0`,
				`sidecars[0].initContainers[0].restartPolicy: Unsupported value: "always"`, `sidecars[0].initContainers[0].livenessProbe: Forbidden`, `sidecars[0].initContainers[1].image: Invalid value`}},
		{"parts that no API server stores", `{name: a, volumes: [{name: v, hostPath: {path: /a/../b}}, {name: w, secret: {defaultUser: -1}, configMap: {name: c}}, {name: x, emptyDir: {mode: 1024}}],
			containers: [{name: a, image: i, livenessProbe: {grpc: {port: 1, mode: plain}}, readinessProbe: {httpGet: {port: 1, protocol: HTTP2, host: h}}}], env: [{name: A, valueFrom: {}}],
			volumeMounts: [{name: v, mountPath: /v, subPath: ../v, mountPropagation: none, bindMountOptions: [nodev, suid, nodev]}]}`,
			[]string{`sidecars[0].volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'`, `sidecars[0].volumes[1]: Forbidden: has the sources secret and configMap; keep one`,
				`sidecars[0].volumes[1].secret.secretName: Required value`, `sidecars[0].volumes[1].secret.defaultUser: Invalid value: -1`, `sidecars[0].volumes[2].emptyDir.mode: Invalid value: 1024`,
				`sidecars[0].containers[0].livenessProbe.grpc.mode: Unsupported value: "plain"`, `sidecars[0].containers[0].readinessProbe.httpGet.protocol: Forbidden`, `sidecars[0].env[0].valueFrom: Invalid value`, `sidecars[0].volumeMounts[0].subPath: Invalid value: "../v"`,
				`sidecars[0].volumeMounts[0].mountPropagation: Unsupported value: "none"`,
				`sidecars[0].volumeMounts[0].bindMountOptions[1]: Unsupported value: "suid"`, `sidecars[0].volumeMounts[0].bindMountOptions[2]: Duplicate value: "nodev"`}},
		{"two injections of one name", `{name: a, env: [{name: A}]}, {name: a, env: [{name: A}]}`, []string{`sidecars[1].name: Duplicate value: "a"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			configtest.WantProblems(t, "sidecars: ["+c.text+"]", c.want, Section)
		})
	}
}

func TestPosition(t *testing.T) {
	for text, want := range map[string]Position{
		`first`: {First: true}, `last`: {Last: true}, `{before: app}`: {Before: "app"}, `{after: app}`: {After: "app"},
	} {
		policy := configtest.Parse(t, "sidecars: [{name: a, containers: [{name: x, image: i}], position: "+text+"}]", Section)
		if got := config.SectionOf[Sidecars](policy)[0].Position; got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestManyContainersAreRefused(t *testing.T) {
	one := "{name: aX, containers: [" + strings.TrimSuffix(strings.Repeat("{name: x, image: i},", 251), ",") + "]}"
	_, problems := config.Parse([]byte("sidecars: ["+one+", "+one+"]"), config.Schema{Section})
	if !configtest.Mentioned(problems, "sidecars: Too many: 502: a pod may have at most 500 containers") {
		t.Error(problems[len(problems)-1])
	}
	one = "{name: aX, env: [" + strings.Repeat("{name: x},", 600) + "]}"
	_, problems = config.Parse([]byte("sidecars: ["+one+", "+one+"]"), config.Schema{Section})
	if !configtest.Mentioned(problems, "sidecars: Too many: 1200: all injections together may have at most 1000 volumes, pull secrets, variables and mounts") {
		t.Error(problems)
	}
}
