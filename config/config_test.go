package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher.dev/usher/poll"
)

var steps = Schema{Steps: []string{"denied-names", "environment", "lifespan", "overcommit"}}

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

// Every problem of a file is reported at once, with its path.
func TestProblems(t *testing.T) {
	cases := map[string][]string{
		``:                     {"the policy is empty"},
		`{`:                    {"not YAML"},
		`{env: 5}`:             {"cannot unmarshal number"},
		"names: {}\nnames: {}": {`key "names" already set`},
		"names: {denied: ['', Upper, 'a b', ok]}\nsurprise: 1\nlifespan: {label: 'a b', max: 101, tiant: x}": {
			`unknown field "surprise"`, `unknown field "lifespan.tiant"`, `names.denied[0]`, `names.denied[1]`, `names.denied[2]`,
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
		`overcommit: {pools: [{name: x, ratios: {cpu: 2}}]}`: {"number"},
		`modes: {denied-name: enforce, lifespan: strict}`:    {`modes: Unsupported value: "denied-name"`, `modes[lifespan]: Unsupported value: "strict"`},
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
			{func() { write(strings.Repeat(" ", maxFile+1)) }, "error"},
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
	f.Fuzz(func(t *testing.T, raw []byte) {
		policy, problems := Parse(raw, steps)
		if (policy == nil) != (len(problems) > 0) {
			t.Fatalf("%q: policy %v with problems %v", raw, policy, problems)
		}
	})
}
