package collections

import (
	"context"
	"testing"
	"time"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/test/clustertest"
)

// TestClaimTemplate: a template that the watch has not brought yet is waited for, until the time is over. Only its requests are kept.
func TestClaimTemplate(t *testing.T) {
	f := clustertest.New(t)
	s, c := watching(t, f, keeping("resourceclaimtemplates"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	over, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, known, err := s.ClaimTemplate(over, true, "team", "gpus"); known || err != nil {
		t.Errorf("one that is not there: %v %v", known, err)
	}
	time.AfterFunc(20*time.Millisecond, func() {
		f.Apply(kind(ClaimTemplates), "team/gpus", `{"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu","count":2}}],"constraints":[{"requests":["r"]}]}}}}`)
	})
	spec, known, err := s.ClaimTemplate(t.Context(), true, "team", "gpus")
	if !known || err != nil || len(spec.Devices.Requests) != 1 || spec.Devices.Requests[0].Exactly.Count != 2 || spec.Devices.Constraints != nil {
		t.Errorf("%+v %v %v", spec, known, err)
	}
}

// TestClaimTemplatesNotServed: an API server without the version of the kind has no templates, and usher is ready.
func TestClaimTemplatesNotServed(t *testing.T) {
	f := clustertest.New(t)
	f.Set(func() { f.Missing["resourceclaimtemplates"] = true })
	s, c := watching(t, f, keeping("resourceclaimtemplates"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	over, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, known, err := s.ClaimTemplate(over, true, "team", "gpus"); known || err != nil {
		t.Errorf("%v %v", known, err)
	}
}

// TestFillPriority: a new pod gets the priority of its class, or of the default class, as from the Priority plug-in.
func TestFillPriority(t *testing.T) {
	f := clustertest.New(t)
	f.Apply(kind(PriorityClasses), "batch", `{"value":5000,"preemptionPolicy":"Never"}`)
	f.Apply(kind(PriorityClasses), "usual", `{"value":9000,"globalDefault":true}`)
	f.Apply(kind(PriorityClasses), "lower", `{"value":8000,"globalDefault":true}`)
	s, c := watching(t, f, keeping("priorityclasses"))
	clustertest.Eventually(t, "ready", func() bool { return c.Ready() == nil })
	for spec, want := range map[string]int32{`{"priorityClassName":"batch"}`: 5000, `{}`: 8000, `{"priorityClassName":"typo"}`: -1, `{"priority":7}`: 7} {
		pod, err := document.Parse([]byte(`{"spec":` + spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.FillPriority(admit.AsPod(pod)); err != nil {
			t.Fatal(err)
		}
		got := int32(-1)
		if is := admit.AsPod(pod).Priority(); is != nil {
			got = *is
		}
		if got != want {
			t.Errorf("%s: %d, want %d", spec, got, want)
		}
	}
}
