package engine_test

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/usherctl/engine"
)

// BenchmarkNew measures a cluster: a case of usherctl test, or a keystroke in the playground, has one of its own.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		e, err := engine.New(b.Context(), engine.Cluster{})
		if err != nil {
			b.Fatal(err)
		}
		e.Close()
	}
}

// BenchmarkJudge measures a pod without webhooks.
func BenchmarkJudge(b *testing.B) {
	e, err := engine.New(b.Context(), engine.Cluster{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for _, record := range []bool{false, true} {
		b.Run(fmt.Sprintf("record=%t", record), func(b *testing.B) {
			r := engine.Request{Operation: admissionv1.Create, Record: record, Object: []byte(`{"apiVersion":"v1","kind":"Pod",
"metadata":{"name":"a","labels":{"app":"web"}},"spec":{"containers":[{"name":"a","image":"b","resources":{"requests":{"cpu":"100m"}}}]}}`)}
			for b.Loop() {
				if v := e.Judge(b.Context(), r); !v.Allowed() {
					b.Fatal(v.Refusal)
				}
			}
		})
	}
}
