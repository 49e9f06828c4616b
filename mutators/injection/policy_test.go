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
		{"names", `{name: A_b, containers: [{name: "", image: i}, {name: x, image: i}], initContainers: [{name: x, image: i}], optOutAnnotation: a b}`,
			[]string{`sidecars[0].name: Invalid value: "A_b"`, `sidecars[0].containers[0].name`,
				`sidecars[0].initContainers[0].name: Duplicate value: "x"`, `sidecars[0].optOutAnnotation: Invalid value: "a b"`}},
		{"a native sidecar among the containers", `{name: a, containers: [{name: x, image: i, restartPolicy: Always}]}`,
			[]string{`sidecars[0].containers[0].restartPolicy: Invalid value: "Always": a native sidecar is an init container: move it to initContainers`}},
		{"positions", `{name: a, containers: [{name: x, image: i}], position: middle, initPosition: {before: b, after: c}}`,
			[]string{`sidecars[0].position: Invalid value: must be first, last, {before: NAME} or {after: NAME}`, `sidecars[0].initPosition: Invalid value`}},
		{"names of positions", `{name: a, containers: [{name: x, image: i}], position: {before: A b}, initPosition: {next: c}}`,
			[]string{`sidecars[0].initPosition: Invalid value: must be first`, `sidecars[0].position: Invalid value: "A b"`}},
		{"placeholders", `{name: a, containers: [{name: x, image: "i:$(usher.name)", args: [$(usher.nam), "$(X)"], env: [{name: A, value: $(usher.x)}]}],
			env: [{name: B, value: $(usher.owner.name)}], volumes: [{name: v, hostPath: {path: /$(usher.namespace)}}]}`,
			[]string{`sidecars[0].containers[0].args[0]: Invalid value: "$(usher.nam)"`, `sidecars[0].containers[0].env[0].value: Invalid value: "$(usher.x)"`,
				`sidecars[0].containers[0]: Forbidden: placeholders are read only in command, args and the values of env`,
				`sidecars[0].env[0].value: Invalid value`, `sidecars[0].volumes[0]: Forbidden: placeholders are read only`}},
		{"parts", `{name: a, volumes: [{name: v}, {name: v}], imagePullSecrets: [{name: s}, {name: s}, {}], volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}],
			env: [{name: A}, {name: A}]}`,
			[]string{`sidecars[0].volumes[1].name: Duplicate`, `sidecars[0].imagePullSecrets[1].name: Duplicate`, `sidecars[0].imagePullSecrets[2].name: Invalid`,
				`sidecars[0].volumeMounts[1].mountPath: Duplicate`, `sidecars[0].env[1].name: Duplicate`}},
		{"fields of a container that do not exist", `{name: a, containers: [{name: x, image: i, imagePolicy: Always, resources: {limit: {}}, ports: [{containerPort: "80"}]}]}`,
			[]string{`sidecars[0].containers[0].imagePolicy: Forbidden: unknown field`, `sidecars[0].containers[0].resources.limit: Forbidden: unknown field; did you mean limits?`,
				`sidecars[0].containers[0].ports[0].containerPort: Invalid value: "80": must be a whole number`}},
		{"what only an API server knows", `{name: a, containers: [{name: x, imagePullPolicy: always, ports: [{containerPort: 99999}]}], volumes: [{name: v, hostPath: {path: /a/../b}}]}`, nil},
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
