package quota

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"usher.dev/usher/usherctl/quota/usage"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

const template = `template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}}`

// TestPlan: each object is as many pods as it has at a time, with the requests that follow from limits.
func TestPlan(t *testing.T) {
	for _, c := range []struct{ kind, version, spec, want string }{
		{"Deployment", "apps/v1", `{replicas: 3, ` + template + `}`, "3 2"},
		{"Deployment", "apps/v1", `{` + template + `}`, "1 2"},
		{"Deployment", "apps/v1", `{replicas: 0, ` + template + `}`, ""},
		{"StatefulSet", "apps/v1", `{replicas: 2, ` + template + `}`, "2 2"},
		{"Deployment", "apps/v1", `{replicas: many, ` + template + `}`, `spec.replicas is the text "many", not a number of pods`},
		{"Deployment", "apps/v1", `{replicas: "3", ` + template + `}`, `spec.replicas is the text "3", not a number of pods`},
		{"Deployment", "apps/v1", `{replicas: -3, ` + template + `}`, "spec.replicas is -3, not a number of pods"},
		{"DaemonSet", "apps/v1", `{` + template + `}`, "DaemonSet x has a pod on each node that it selects"},
		{"Job", "batch/v1", `{parallelism: 5, completions: 4, ` + template + `}`, "4 2"},
		{"Job", "batch/v1", `{completions: 4, ` + template + `}`, "1 2"},
		{"CronJob", "batch/v1", `{schedule: "* * * * *", jobTemplate: {spec: {parallelism: 2, ` + template + `}}}`, "2 2"},
		{"Pod", "v1", `{containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}`, "1 1"},
		{"Deployment", "apps/v1beta1", `{` + template + `}`, "Deployment x is not counted: apiVersion apps/v1beta1: Deployment has no such version; did you mean apps/v1?"},
		{"Deployment", "extensions/v1beta1", `{` + template + `}`, "Deployment x is not counted: apiVersion extensions/v1beta1: has no kind Deployment; did you mean apiVersion apps/v1, kind Deployment?"},
		{"CronJob", "batch/v1beta1", `{schedule: "* * * * *", jobTemplate: {spec: {` + template + `}}}`, "CronJob x is not counted: apiVersion batch/v1beta1: CronJob has no such version; did you mean batch/v1?"},
		{"Deploymnt", "apps/v1", `{` + template + `}`, "Deploymnt x is not counted: kind Deploymnt: apiVersion apps/v1 has no such kind; did you mean Deployment?"},
		{"Service", "v1", `{}`, ""},
		{"PodDisruptionBudget", "policy/v1beta1", `{}`, ""},
		{"Ingress", "extensions/v1beta1", `{}`, ""},
		{"Service", "serving.knative.dev/v1", `{}`, "whether Service x has pods is not known"},
		{"PodDisruptionBudget", "policy/v1", `{}`, ""},
		{"Role", "rbac.authorization.k8s.io/v1", `{}`, ""},
		{"PodGroup", "scheduling.sigs.k8s.io/v1alpha1", `{}`, ""},
		{"JobSet", "jobset.x-k8s.io/v1alpha2", `{}`, "whether JobSet x has pods is not known"},
		{"Gang", "scheduling.volcano.k8s.io/v1", `{` + template + `}`, "whether Gang x has pods is not known"},
		{"Fleet", "apps.example.k8s.io/v1", `{` + template + `}`, "whether Fleet x has pods is not known"},
		{"ElasticQuota", "scheduling.sigs.k8s.io/v1alpha1", `{}`, ""},
		{"Rollout", "argoproj.io/v1alpha1", `{replicas: 3, ` + template + `}`, "whether Rollout x has pods is not known"},
	} {
		text := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x}, spec: %s}", c.version, c.kind, c.spec)
		all, err := planOf(requests.Read("test", strings.NewReader(text)), "shop", none)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range all {
			got = p.Unknown
			if p.Unknown == "" {
				got = fmt.Sprintf("%d %s", p.Count, p.Pod.Spec.Containers[0].Resources.Requests.Cpu())
				if p.Of != c.kind+" x" {
					t.Errorf("%s: %s", text, p.Of)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", text, got, c.want)
		}
	}
	if _, err := planOf(requests.Read("test", strings.NewReader("a: [")), "shop", none); err == nil {
		t.Error("a manifest that cannot be read")
	}
}

func none(string) ([]*corev1.LimitRange, error) { return nil, nil }

// TestPlanWithLimitRanges: LimitRanges of the namespace set requests, or it is not known what a pod without requests takes.
func TestPlanWithLimitRanges(t *testing.T) {
	half := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}}}
	forbidden := errors.New("forbidden")
	for text, want := range map[string][2]string{
		`{}`:                                {"500m", "Pod x lacks requests, which LimitRanges may set: forbidden"},
		`{requests: {cpu: 1, memory: 1Gi}}`: {"1", ""},
	} {
		read := func() []requests.Document {
			return requests.Read("test", strings.NewReader(`{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, resources: `+text+`}]}}`))
		}
		all, err := planOf(read(), "shop", func(namespace string) ([]*corev1.LimitRange, error) {
			if namespace != "shop" {
				t.Error(namespace)
			}
			return []*corev1.LimitRange{half}, nil
		})
		if err != nil || all[0].Unknown != "" || all[0].Pod.Spec.Containers[0].Resources.Requests.Cpu().String() != want[0] {
			t.Errorf("%s: %v, %v", text, all, err)
		}
		if all, err = planOf(read(), "shop", func(string) ([]*corev1.LimitRange, error) { return nil, forbidden }); err != nil || all[0].Unknown != want[1] {
			t.Errorf("%s: %v, %v", text, all, err)
		}
	}
}

func says(s string) *string { return &s }

// TestText: what is not known is said, names are harmless, and only a terminal gets colors.
func TestText(t *testing.T) {
	u := usage.Usage{
		Quotas: []usage.QuotaUsage{{Name: "team\x1b[31m", Resources: []usage.ResourceUsage{
			{Name: "cpu", Used: says("6"), Reserved: says("1"), Limit: says("8"), Left: says("1"), LeftMost: true, By: "org"}, {Name: "memory", By: "org"}, {Name: "disk", Left: says("0"), LeftMost: true}, {Name: "gpu", Unlimited: true, Used: says("1")}}}},
		Takes: []usage.QuotaTake{{Of: []string{"Deployment web"}, Pods: 2, Quota: "team", Fits: usage.FitsNo, Resources: []usage.ResourceTake{{Name: "cpu", Takes: "4", Fits: usage.FitsNo, By: "team (spec.max)"}}},
			{Of: []string{"Pod trainer"}, Pods: 1, Quota: "team", Fits: usage.FitsUnknown, Why: "they claim devices", Resources: []usage.ResourceTake{{Name: "cpu", Takes: "1", Fits: usage.FitsYes, By: "team (spec.max)"}}}},
		Unknown: []string{"something"},
	}
	var plain, colored bytes.Buffer
	text(&plain, u, false)
	text(&colored, u, true)
	want := `QUOTA      RESOURCE  USED       RESERVED   LIMIT  LEFT       BY
team�[31m  cpu       6          1          8      at most 1  org
team�[31m  memory    not known  not known  none   not known  org
team�[31m  disk      not known  not known  none   at most 0
team�[31m  gpu       1          not known  none   no limit

PODS  OF              QUOTA  RESOURCE  TAKES  FITS       BY
2     Deployment web  team   cpu       4      no         team (spec.max)
1     Pod trainer     team   -         -      not known  they claim devices
1     Pod trainer     team   cpu       1      yes        team (spec.max)
not known: something
counted as new pods, with the requests that limits and LimitRanges give them; RuntimeClasses and webhooks may change these
`
	if plain.String() != want {
		t.Errorf("%s", plain.String())
	}
	if !strings.Contains(colored.String(), "\x1b[31m2     Deployment web") || !strings.Contains(colored.String(), "\x1b[1mQUOTA") ||
		!strings.Contains(colored.String(), "\x1b[31mteam�[31m  disk") {
		t.Errorf("%q", colored.String())
	}
}

// TestExit: what is not known counts.
func TestExit(t *testing.T) {
	quota := func(r usage.ResourceUsage) usage.Usage {
		return usage.Usage{Quotas: []usage.QuotaUsage{{Resources: []usage.ResourceUsage{r}}}}
	}
	takes := func(fits ...string) (u usage.Usage) {
		for _, f := range fits {
			u.Takes = append(u.Takes, usage.QuotaTake{Fits: f})
		}
		return u
	}
	for i, c := range []struct {
		usage usage.Usage
		want  report.Exit
	}{
		{usage.Usage{}, report.Fine}, {usage.Usage{Unknown: []string{"x"}}, report.Unjudged},
		{usage.Usage{Unknown: []string{"x"}, Quotas: quota(usage.ResourceUsage{Left: says("1")}).Quotas}, report.Unjudged},
		{quota(usage.ResourceUsage{Left: says("1")}), report.Fine}, {quota(usage.ResourceUsage{Left: says("1"), LeftMost: true}), report.Unjudged},
		{quota(usage.ResourceUsage{}), report.Unjudged}, {quota(usage.ResourceUsage{Unlimited: true}), report.Fine},
		{usage.Usage{Quotas: []usage.QuotaUsage{{}}}, report.Unjudged},
		{takes(usage.FitsYes), report.Fine}, {takes(usage.FitsUnknown, usage.FitsYes), report.Unjudged}, {takes(usage.FitsUnknown, usage.FitsNo), report.Refused},
	} {
		if got := exitOf(c.usage); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
}
