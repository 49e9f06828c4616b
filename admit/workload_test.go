package admit

import "testing"

func TestWorkloadTemplate(t *testing.T) {
	for kind, want := range map[string]string{
		"Deployment": "spec.template.metadata.labels[team]", "StatefulSet": "spec.template.metadata.labels[team]",
		"DaemonSet": "spec.template.metadata.labels[team]", "Job": "spec.template.metadata.labels[team]",
		"CronJob": "spec.jobTemplate.spec.template.metadata.labels[team]",
	} {
		template := `{"template":{"metadata":{"labels":{"team":"a"}}}}`
		if kind == "CronJob" {
			template = `{"jobTemplate":{"spec":` + template + `}}`
		}
		pod := AsWorkload(parse(t, `{"kind":"`+kind+`","spec":`+template+`}`)).Template()
		if got := pod.LabelPath("team").String(); got != want || pod.Label("team") != "a" {
			t.Errorf("%s: %s, want %s; team %q", kind, got, want, pod.Label("team"))
		}
	}
}

// TestCopy: a copy has what was sent, and its edits stay its own.
func TestCopy(t *testing.T) {
	for _, raw := range []string{
		`{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, `{"spec":{"template":{}}}`, `{"spec":{"template":null}}`, `{}`,
	} {
		d := parse(t, raw)
		template := AsWorkload(d).Template()
		pod := template.Copy()
		if pod.Label("a") != template.Label("a") {
			t.Errorf("%s: a is %q", raw, pod.Label("a"))
		}
		pod.SetLabel("c", "d")
		if d.Edits() > 0 || template.HasLabel("c") || pod.Label("c") != "d" {
			t.Errorf("%s: becomes %s, and the copy %s", raw, d.Bytes(), pod.Root().Bytes())
		}
		if again := AsWorkload(parse(t, raw)).Template(); !template.Same(again) || template.Same(pod) {
			t.Errorf("%s: same as another, and not as the edited copy", raw)
		}
	}
}
