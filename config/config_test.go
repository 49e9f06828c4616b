package config

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

	"usher.dev/usher/admit"
	"usher.dev/usher/internal/poll"
)

var steps = Schema{Steps: []string{"denied-names", "environment", "lifespan", "overcommit"}, Unspaced: []string{"overcommit"}}

func TestDefaultPolicy(t *testing.T) {
	policy, problems := Parse(steps.DefaultYAML(), steps)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	pool := policy.Overcommit.Pools[0]
	if policy.Names.Denied[0] != "offensive" || policy.Lifespan.Max != 14 || policy.Env[0] != (Variable{"KUBE", "true"}) ||
		pool.Ratios["cpu"] != "2" || pool.MaxRatio != "4" || pool.Capacity != Raise || policy.Modes["denied-names"] != "enforce" {
		t.Errorf("the default policy reads as %+v", policy)
	}
}

// TestWarnings: a pool after one that selects every node is never used.
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
			policy, problems := Parse([]byte("overcommit: {pools: ["+c.pools+"]}"), steps)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if got := strings.Join(policy.Warnings(), "\n"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			off := policy.LeftOut(steps)
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
		policy, problems := Parse([]byte(text), steps)
		if len(problems) > 0 || policy.Modes["denied-names"] != admit.Off {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

// Every problem of a file is reported at once, with its path.
func TestProblems(t *testing.T) {
	cases := map[string][]string{
		``:                     {"the policy is empty"},
		`{`:                    {"not YAML"},
		`{env: 5}`:             {`env: Invalid value: 5: must be a list, and is a number`},
		"names: {}\nnames: {}": {`key "names" already set`},
		"names: {denied: ['', Upper, 'a b', ok]}\nsurprise: 1\nlifespan: {label: 'a b', max: 101, tiant: x}": {
			`surprise: Forbidden: unknown field; known are `, `lifespan.tiant: Forbidden: unknown field; did you mean taint?`, `names.denied[0]`, `names.denied[1]`, `names.denied[2]`,
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
		`overcommit: {pools: [{name: x, ratios: {cpu: 2}}]}`: {`overcommit.pools[0].ratios[cpu]: Invalid value: 2: must be text, and is a number; quote it: "2"`},
		`{env: [{name: A, value: true}, {name: 3, value: {}}], names: [a], lifespan: {label: a, taint: b, max: "7"}, modes: {lifespan: true}}`: {
			`env[0].value: Invalid value: true: must be text, and is true or false; quote it: "true"`, `env[1].name: Invalid value: 3`, `env[1].value: Invalid value: "{...}"`,
			`names: Invalid value: "[...]": must be a mapping of denied, and is a list`, `lifespan.max: Invalid value: "7": must be a whole number, without quotes`,
			`modes[lifespan]: Invalid value: true: must be one of [enforce warn dryrun off]`},
		`[]`: {"must be a mapping of sections"},
		`modes: {denied-name: enforce, lifespan: strict}`: {`modes: Invalid value: "denied-name": is not a step; did you mean denied-names?`, `modes[lifespan]: Invalid value: "strict": must be one of [enforce warn dryrun off]`},
	}
	for text, wants := range cases {
		policy, problems := Parse([]byte(text), steps)
		if policy != nil || len(problems) < len(wants) {
			t.Errorf("%s: %d problems, want %d: %v", text, len(problems), len(wants), problems)
		}
		for _, want := range wants {
			if !mentioned(problems, want) {
				t.Errorf("%s: no problem says %q: %v", text, want, problems)
			}
		}
	}
}

func mentioned(problems []error, want string) bool {
	for _, p := range problems {
		if strings.Contains(p.Error(), want) {
			return true
		}
	}
	return false
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
		_, inForce, err := Open(file, steps)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex // guards events
		var events []string
		go Watch(ctx, file, poll.Times{Every: time.Second}, inForce, steps, func(p *Policy, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				events = append(events, "error")
				return
			}
			events = append(events, p.Env[0].Value)
		})
		for _, c := range []struct {
			does func()
			want string
		}{
			{func() {}, ""},
			{func() { write(value("2")) }, "2"},
			{func() { write("{env: 1}") }, "error"},
			{func() { write(value("2")) }, "2"},
			{func() { write(value("half")); time.Sleep(time.Second); write(value("3")) }, "3"},
			{func() { _ = os.Remove(file) }, "error"},
			{func() { _ = os.Mkdir(file, 0o700) }, "error"},
			{func() { write(value("3")) }, "3"},
			{func() { write(strings.Repeat(" ", MaxFile+1)) }, "error"},
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
	f.Add(steps.DefaultYAML())
	f.Add([]byte(`overcommit: {pools: [{name: a, ratios: {memory: "1.5"}}]}`))
	f.Add([]byte("&a [*a]"))
	f.Add([]byte(`overrides: [{name: a, steps: [lifespan], selector: {matchExpressions: [{key: a, operator: In, values: [b]}]}, users: [u], enforcePercent: 5, until: 2027-01-31, reason: x}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		policy, problems := Parse(raw, steps)
		if (policy == nil) != (len(problems) > 0) {
			t.Fatalf("%q: policy %v with problems %v", raw, policy, problems)
		}
		if policy != nil {
			_, _ = policy.Warnings(), policy.Overrides.Ending(time.Now())
		}
	})
}
