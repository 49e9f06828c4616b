package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/config"
	"usher.dev/usher/routes"
	"usher.dev/usher/test/harness"
)

// TestProcessLargestPolicies: the largest policies that load do so in the memory of deploy/base, each in place of the one before it, and in
// that of the registration Job; and a pod passes all steps within its timeout. With USHER_LONG=1, one policy for each list.
func TestProcessLargestPolicies(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	putFile(t, policy, []byte("{}"))
	l := launch{env: asDeployed.env, args: []string{"--config", policy, "--cluster-dir", "samples/cluster"}}
	var reason string
	if l.group, reason = memoryGroup(t); reason != "" {
		t.Log("not in a cgroup: ", reason)
	}
	p := launched(t, l)
	all := largest(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		putFile(t, policy, all[name])
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(name, err)
		}
		eventually(t, name+" is in force", func() bool {
			return p.gone() || p.logs(`"msg":"policy in force"`) == i+2 || p.logs("policy file is bad") > 0
		})
		if p.gone() || p.logs("policy file is bad") > 0 {
			t.Fatalf("%s: it is not in force\n%.1000s", name, p.log)
		}
		for _, path := range []string{"/mutate-pods", "/validate-pods"} {
			got, err := send(p.client, "https://"+p.reviews+path+"?timeout=10s", harness.ReadSample(t, podSample), nil)
			if err != nil || got.code != 200 {
				t.Fatalf("%s: %s: %v, %d %.300s\n%.1000s", name, path, err, got.code, got.body, p.log)
			}
		}
		inJob(t, name, policy)
	}
	p.wantStanding(t)
}

// inJob does what the registration Job does with a policy, in its memory.
func inJob(t *testing.T, name, policy string) {
	t.Helper()
	args := []string{os.Args[0], "webhooks", "--config", policy}
	if group, _ := memoryGroup(t); group != "" {
		args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, group}, args...)
	}
	job := exec.Command(args[0], args[1:]...)
	job.Env = append(os.Environ(), processMode+"="+asItIs)
	if out, err := job.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %.300s", name, err, out)
	}
}

// largest returns policies that are as large as may be: in memory, in numbers, and, with USHER_LONG=1, the sample policy with each of its
// lists and mappings as long as it may be.
func largest(t *testing.T) map[string][]byte {
	t.Helper()
	patterns := "labelRules:\n" + repeated(60, "$", `- {name: once-$, annotation: a, pattern: "[a-z]{1,400}"}`+"\n")
	selecting := func(n int) string {
		return repeated(n, "$", `- {name: of-$, label: app, maxLength: 63, podSelector: {matchLabels: {`+repeated(45, "#", "k#: a, ")+`}}}`+"\n")
	}
	all := map[string]string{
		"long patterns":     "labelRules:\n" + repeated(55, "$", `- {name: long-$, annotation: a, pattern: "[a-z0-9 ]{1,1000}"}`+"\n"),
		"one-pass patterns": patterns,
		"selectors":         "labelRules:\n" + selecting(900),
		"rules":             string(manyRules(mostRules, 1)),
		"all together":      string(manyRules(mostRules, 2)) + patterns + selecting(400),
		"names":             "names: {denied: [" + repeated(10_000, "$", "w$x,") + "]}",
		"images":            "imageRules:\n" + repeated(45, "$", `- {name: i$, repositories: [`+repeated(1000, "#", "r.io/a*#/*,")+"]}\n"),
	}
	if longForm() {
		growSample(t, func(list, policy string) { all[list] = policy })
	}
	texts := map[string][]byte{}
	for name, text := range all {
		texts[name] = []byte(text)
	}
	return texts
}

// repeated returns a text a number of times, with the number in the place of a sign.
func repeated(n int, sign, text string) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(strings.ReplaceAll(text, sign, strconv.Itoa(i)))
	}
	return all.String()
}

// growSample calls a function with each section of the sample policy, for each of its lists and mappings, as long as it may be.
func growSample(t *testing.T, do func(list, policy string)) {
	t.Helper()
	var sample map[string]any
	if err := yaml.Unmarshal([]byte(harness.ReadFile(t, "samples/policy.yaml")), &sample); err != nil {
		t.Fatal(err)
	}
	schema := routes.Suites().Schema()
	for name, section := range sample {
		file := map[string]any{name: section}
		short, _ := json.Marshal(file)
		grow(section, name, func(longer any) { file[name] = longer }, func(list string) bool {
			text, _ := json.Marshal(file)
			_, problems := config.Parse(text, schema)
			if len(problems) == 0 && len(text) > len(short) {
				do(list, string(text))
			}
			return len(problems) == 0
		})
	}
}

// grow makes each list and each mapping in a value longer, one after the other, until fits reports that it is not too long.
func grow(value any, at string, set func(any), fits func(at string) bool) {
	for _, n := range []int{10_000, 2000, 1000, 500, 250, 100, 16} {
		longer := lengthened(value, n)
		if set(longer); longer == nil || fits(at) {
			break
		}
	}
	set(value)
	switch v := value.(type) {
	case []any:
		for i := range v {
			grow(v[i], fmt.Sprintf("%s[%d]", at, i), func(element any) { v[i] = element }, fits)
		}
	case map[string]any:
		for key := range v {
			grow(v[key], at+"."+key, func(member any) { v[key] = member }, fits)
		}
	}
}

// lengthened returns a list or a mapping with n elements, copies of the first one under other names; nil if it has none.
func lengthened(value any, n int) any {
	switch v := value.(type) {
	case []any:
		longer := slices.Clone(v)
		for i := len(v); i < n && i > 0; i++ {
			longer = append(longer, renamed(v[0], i))
		}
		return longer
	case map[string]any:
		longer := maps.Clone(v)
		for key := range v {
			for i := len(v); i < n; i++ {
				longer[key+strconv.Itoa(i)] = v[key]
			}
			break
		}
		return longer
	}
	return nil
}

// renamed returns a copy of an element with other names.
func renamed(value any, i int) any {
	switch v := value.(type) {
	case string:
		return v + strconv.Itoa(i)
	case map[string]any:
		copied := maps.Clone(v)
		for _, key := range []string{"name", "key", "mountPath"} {
			if text, isText := v[key].(string); isText {
				copied[key] = text + strconv.Itoa(i)
			}
		}
		return copied
	}
	return value
}
