package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/poll"
	"usher.dev/usher/mutators"
	"usher.dev/usher/mutators/amplify"
	"usher.dev/usher/test/configtest"
	"usher.dev/usher/validators"
	"usher.dev/usher/validators/expression"
)

// schema returns the sections of the core suite's steps.
func schema() config.Schema {
	none, ask := config.PolicyOf(), admit.Questions{}
	steps := slices.Concat(
		admit.Mutate(admit.AsPod, mutators.Pods(none, ask)).Steps(), admit.Mutate(admit.AsNode, mutators.Nodes(none)).Steps(),
		admit.Validate(admit.AsPod, validators.Pods(none, ask)).Steps(), admit.Validate(admit.AsMeta, validators.Requests(none, ask)).Steps(),
		admit.Validate(admit.AsMeta, expression.Objects(none, ask)).Steps())
	var names []string
	for _, step := range steps {
		names = append(names, step.Name)
	}
	return append(config.SchemaOf(steps...), config.Section[admit.Modes]{Name: "modes", Default: "modes: {denied-names: enforce}\n", Setting: true,
		Check: func(m admit.Modes, at *field.Path) field.ErrorList { return m.CheckSteps(names, at) }})
}

func TestDefaultPolicy(t *testing.T) {
	policy, problems := config.Parse(schema().DefaultYAML(), schema())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	pool, names, lifespan := config.SectionOf[*amplify.Overcommit](policy).Pools[0], config.SectionOf[*validators.Names](policy), config.SectionOf[*mutators.Lifespan](policy)
	if names.Denied[0] != "offensive" || lifespan.Max != 14 || config.SectionOf[mutators.Env](policy)[0] != (mutators.Variable{Name: "KUBE", Value: "true"}) ||
		pool.Ratios["cpu"] != "2" || pool.MaxRatio != "4" || pool.Capacity != amplify.Raise || config.SectionOf[admit.Modes](policy)["denied-names"] != "enforce" {
		t.Errorf("the default policy reads as %+v", policy)
	}
}

// TestWarnings: a pool after a pool that selects every node is never used.
func TestWarnings(t *testing.T) {
	pool := func(name, selector string) string {
		return "{name: " + name + ", selector: " + selector + `, ratios: {cpu: "2"}}`
	}
	for _, c := range []struct{ name, pools, want string }{
		{"one for all", pool("all", "{}"), ""},
		{"one for all at the end", pool("big", "{matchLabels: {size: big}}") + ", " + pool("all", "{}"), ""},
		{"one for all before another", pool("all", "{}") + ", " + pool("big", "{matchLabels: {size: big}}"),
			"overcommit.pools[1]: pool big is never used: pool all before it selects every node; move it up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy, problems := config.Parse([]byte("overcommit: {pools: ["+c.pools+"]}"), schema())
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := strings.Join(policy.Warnings(), "\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			off := policy.LeftOut(schema())
			for name, want := range map[string]bool{"env": true, "lifespan": true, "names": true, "overcommit": false} {
				if slices.Contains(off, name) != want {
					t.Errorf("left out: %v", off)
				}
			}
		})
	}
}

// Off is off, quoted or not: YAML 1.1 reads the bare word as false.
func TestModeOff(t *testing.T) {
	for _, text := range []string{`modes: {denied-names: off}`, `modes: {denied-names: "off"}`, `modes: {denied-names: Off}`, `modes: {denied-names: false}`} {
		policy, problems := config.Parse([]byte(text), schema())
		if len(problems) > 0 || config.SectionOf[admit.Modes](policy)["denied-names"] != admit.Off {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// Every problem of a file is reported at once, with its path.
func TestProblems(t *testing.T) {
	cases := map[string][]string{
		``:                     {"the policy is empty"},
		`{`:                    {"not YAML"},
		`{env: 5}`:             {`env: Invalid value: 5: must be a list, but is a number`},
		"names: {}\nnames: {}": {`key "names" already set`},
		"names: {denied: ['', Upper, 'a b', ok]}\nsurprise: 1\nlifespan: {label: 'a b', max: 101, tiant: x}": {
			`surprise: Forbidden: unknown field; the known fields are `, `lifespan.tiant: Forbidden: unknown field; did you mean taint?`, `names.denied[0]`, `names.denied[1]`, `names.denied[2]`,
			`lifespan.label: Invalid value: "a b"`, `lifespan.max: Invalid value: 101`, `lifespan.taint`},
		`env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: "1A=", value: ""}]`: {
			`env[1].name: Duplicate value: "A"`, `env[2].name: Invalid value: "1A="`},
		`overcommit: {pools: [{ratios: {cpu: "5", gpu: "2"}, maxRatio: "4", capacity: both, selector: {matchExpressions: [{key: a, operator: Is}]}}, {name: x}, {name: x, ratios: {cpu: "2"}}]}`: {
			`overcommit.pools[0].name: Required`, `operator`, `ratios[cpu]: Invalid value: "5": is above maxRatio 4`,
			`overcommit.pools[0].ratios: Unsupported value: "gpu"`, `capacity: Unsupported value: "both"`,
			`overcommit.pools[1].ratios: Required`, `overcommit.pools[2].name: Duplicate`},
		`overcommit: {pools: [{name: x, ratios: {cpu: "0.5", memory: }, maxRatio: many}]}`: {
			`ratios[cpu]: Invalid value: "0.5": 0.5 is below 1`, `ratios[memory]: Invalid value: ""`, `maxRatio: Invalid value: "many"`},
		"# only a comment":                {"the policy is empty"},
		"null":                            {"the policy is empty"},
		"{}\n---\nnames: {denied: [bad]}": {"one YAML document"},
		"env: []\n...\ngarbage":           {"one YAML document"},
		"lifespan: {label: a, taint: b}":  {"lifespan.max: Invalid value: 0"},
		`overcommit: {pools: [{name: x, ratios: {cpu: 2}}]}`: {`overcommit.pools[0].ratios[cpu]: Invalid value: 2: must be a string, but is a number; quote it: "2"`},
		`{env: [{name: A, value: true}, {name: 3, value: {}}], names: [a], lifespan: {label: a, taint: b, max: "7"}, modes: {lifespan: true}}`: {
			`env[0].value: Invalid value: true: must be a string, but is a boolean; quote it`, `env[1].name: Invalid value: 3`, `env[1].value: Invalid value: "{...}"`,
			`names: Invalid value: "[...]": must be a mapping of denied, but is a list`, `lifespan.max: Invalid value: "7": must be a whole number, without quotes`,
			`modes[lifespan]: Invalid value: true: must be one of [enforce warn dryrun off]`},
		`[]`: {"must be a mapping of sections"},
		`modes: {denied-name: enforce, lifespan: strict}`: {`modes: Invalid value: "denied-name": is not a step; did you mean denied-names?`, `modes[lifespan]: Invalid value: "strict": must be one of [enforce warn dryrun off]`},
	}
	for text, wants := range cases {
		policy, problems := config.Parse([]byte(text), schema())
		if policy != nil || len(problems) < len(wants) {
			t.Errorf("%s: %d problems, want %d: %v", text, len(problems), len(wants), problems)
		}
		for _, want := range wants {
			if !configtest.Mentioned(problems, want) {
				t.Errorf("%s: no problem says %q: %v", text, want, problems)
			}
		}
	}
}

// TestWatch: a good new file is used, a bad one is reported once, and a change back is noticed. A partly written file
// is neither. It runs on synctest's clock, with one poll per second.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		write := func(text string) {
			if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		value := func(v string) string { return fmt.Sprintf("{env: [{name: A, value: %q}]}", v) }
		write(value("1"))
		schema := append(schema(), config.Section[string]{Name: "bug", Check: func(string, *field.Path) field.ErrorList { panic("found") }})
		_, inForce, err := config.Open(file, schema)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex // guards events
		var events []string
		go config.Watch(ctx, file, poll.Times{Every: time.Second}, inForce, schema, func(p *config.Policy, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				events = append(events, "error")
				return
			}
			events = append(events, config.SectionOf[mutators.Env](p)[0].Value)
		})
		for _, c := range []struct {
			does func()
			want string
		}{
			{func() {}, ""},
			{func() { write(value("2")) }, "2"},
			{func() { write("{env: 1}") }, "error"},
			{func() { write("{bug: a}") }, "error"},
			{func() { write(value("2")) }, "2"},
			{func() { write(value("half")); time.Sleep(time.Second); write(value("3")) }, "3"},
			{func() { _ = os.Remove(file) }, "error"},
			{func() { _ = os.Mkdir(file, 0o700) }, "error"},
			{func() { write(value("3")) }, "3"},
			{func() { write(strings.Repeat(" ", config.MaxFile+1)) }, "error"},
			{func() { write(value("4")) }, "4"},
		} {
			c.does()
			time.Sleep(4 * time.Second)
			synctest.Wait()
			mu.Lock()
			if got := strings.Join(events, " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			events = nil
			mu.Unlock()
		}
		stop()
	})
}

// FuzzParse: no input causes a panic, and what is accepted once is accepted again.
func FuzzParse(f *testing.F) {
	f.Add(schema().DefaultYAML())
	f.Add([]byte(`overcommit: {pools: [{name: a, ratios: {memory: "1.5"}}]}`))
	f.Add([]byte("&a [*a]"))
	schema := schema()
	f.Fuzz(func(t *testing.T, raw []byte) {
		policy, problems := config.Parse(raw, schema)
		if (policy == nil) != (len(problems) > 0) {
			t.Fatalf("%q: policy %v with problems %v", raw, policy, problems)
		}
		if policy != nil {
			policy.Warnings()
		}
	})
}

// TestOneProblemForOneMistake: a value of a wrong type is the only problem of what it stands in, which would not be lacking anything
// with the right one.
func TestOneProblemForOneMistake(t *testing.T) {
	for text, want := range map[string]string{
		"labelRules: [{name: team, label: a/b, required: yes please}]": "labelRules[0].required: Invalid value",
		"imageRules: [{name: team, repositories: registry}]":           "imageRules[0].repositories: Invalid value",
		"imageRules: [{name: team}]":                                   "imageRules[0]: Required value",
	} {
		_, problems := config.Parse([]byte(text), schema())
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), want) {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
