package validators

import (
	"strings"
	"testing"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

func TestDeniedNames(t *testing.T) {
	policy := &Names{Denied: []string{"offensive", "rude"}}
	cases := []struct {
		metadata string
		policy   *Names
		want     []string // what each problem says
	}{
		{`{"name":"offensive-pod"}`, policy, []string{`metadata.name: Forbidden: "offensive-pod" contains "offensive"`}},
		{`{"name":"inoffensively-rude"}`, policy, []string{`contains "offensive"`, `contains "rude"`}},
		{`{"name":"polite"}`, policy, nil},
		{`{"generateName":"rude-"}`, policy, []string{`metadata.generateName: Forbidden: "rude-"`}},
		{`{"name":"polite-x7k2p","generateName":"rude-"}`, policy, nil}, // the name is what counts once there is one
		{`{"name":""}`, policy, nil},
		{`{"name":"` + strings.Repeat("rude", 100) + `"}`, policy, []string{`metadata.name: Too long: may not be more than 253 bytes`}},
		{`{}`, policy, nil},
		{`null`, policy, nil},
		{`{"name":"offensive"}`, &Names{}, nil},
		{`{"name":"offensive"}`, nil, nil},
	}
	for _, c := range cases {
		d, err := document.Parse([]byte(`{"metadata":` + c.metadata + `}`))
		if err != nil {
			t.Fatal(err)
		}
		problems, err := deniedNames(c.policy).Run(t.Context(), &admit.Request{Object: d}, admit.AsPod(d))
		if err != nil || len(problems) != len(c.want) {
			t.Errorf("%s: %v, %v", c.metadata, problems, err)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(problems[i].Error(), want) {
				t.Errorf("%s: %v, want %s", c.metadata, problems[i], want)
			}
		}
	}
}
