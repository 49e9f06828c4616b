package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"usher.dev/usher/cluster/reader"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// healthProblems returns what keeps usher itself from running, as its Deployment says, and from doing anything.
func (u Usher) healthProblems(ctx context.Context, f *snapshot) (found []report.Finding) {
	if !slices.ContainsFunc(f.webhooks, u.serves) {
		return nil
	}
	if u.Unknown == nil && u.Idle != nil && u.Idle(namesOfUshers(f.webhooks)) {
		found = append(found, problem("usher-idle", u.about(), "the policy and the feature gates switch every step of usher off: nothing is checked or "+
			"changed."))
	}
	found = append(found, u.stepProblems(ctx, f.source)...)
	raw, err := f.source.Get(ctx, reader.NewKind("apps", "v1", "Deployment", "deployments"), u.At.Namespace, u.At.Service)
	deployment, err := reader.One[appsv1.Deployment](raw, err)
	switch {
	case errors.Is(err, reader.ErrNotFound):
		return append(found, u.notDeployed(ctx, f)...)
	case err != nil:
		return found // which is reported for the policy
	}
	replicas := int(ptr.Deref(deployment.Spec.Replicas, 1))
	found = append(found, u.replicaProblems(f, replicas)...)
	found = append(found, u.budgetProblems(ctx, f.source, deployment, replicas)...)
	return append(found, u.podProblems(ctx, f.source, raw, replicas)...)
}

// stepProblems returns the finding for steps of the running usher that are not those of its policy and gates in this program.
func (u Usher) stepProblems(ctx context.Context, source reader.Source) []report.Finding {
	if u.Unknown != nil || u.Running == nil || !source.Live() {
		return nil
	}
	running, err := u.Running(ctx)
	if err != nil {
		return []report.Finding{unreadFinding(err, "whether the running usher has the steps of this usherctl")}
	}
	if len(running.Differ) == 0 {
		return nil
	}
	return []report.Finding{problem("usher-steps-differ", u.about(), "usher, version %s, does not run the steps that this usherctl has for its policy "+
		"and feature gates: %s. It may decide otherwise than review, test and doctor -f say.", report.List(running.Versions),
		strings.Join(running.Differ, "; "))}
}

// serves reports whether a webhook of usher calls its Service.
func (u Usher) serves(w entry) bool {
	s := w.ClientConfig.Service
	return w.ushers() && s != nil && s.Namespace == u.At.Namespace && s.Name == u.At.Service
}

// notDeployed returns the finding for a Service of usher without a Deployment.
func (u Usher) notDeployed(ctx context.Context, f *snapshot) []report.Finding {
	service, err := reader.One[corev1.Service](f.source.Get(ctx, reader.NewKind("", "v1", "Service", "services"), u.At.Namespace, u.At.Service))
	if err != nil || len(service.Spec.Selector) == 0 {
		return nil // the Service is looked at by itself; one without a selector leads elsewhere
	}
	return []report.Finding{problem("usher-not-deployed", u.about(), "there is no Deployment %s, and the Service of that name selects pods (%s). "+
		"Unless something else runs usher, no pod that ends is replaced.", u.service(), labels.FormatLabels(service.Spec.Selector))}
}

// replicaProblems returns the finding for a Deployment of usher with too few replicas.
func (u Usher) replicaProblems(f *snapshot, replicas int) []report.Finding {
	refuses := slices.ContainsFunc(f.webhooks, func(w entry) bool { return u.serves(w) && w.fails() })
	answers := slices.ContainsFunc(f.webhooks, func(w entry) bool { return u.serves(w) && f.reach.HasEndpoints(w.called()) })
	then, severity := "requests pass unchecked", report.Info
	if refuses {
		then, severity = "requests are refused", report.Warning
	}
	switch {
	case replicas == 0 && answers:
		return nil // others are behind the Service
	case replicas == 0:
		return []report.Finding{problem("usher-replicas", u.about(), "the Deployment %s has no replicas: %s.", u.service(), then)}
	case replicas == 1:
		return []report.Finding{milder(problem("usher-replicas", u.about(), "the Deployment %s has one replica: while its pod is replaced, or its node "+
			"is drained, %s.", u.service(), then), severity)}
	}
	return nil
}

// budgetProblems returns the finding for PodDisruptionBudgets that never let a pod of usher be evicted.
func (u Usher) budgetProblems(ctx context.Context, source reader.Source, d appsv1.Deployment, replicas int) (found []report.Finding) {
	kind := reader.NewKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
	budgets, err := reader.All[policyv1.PodDisruptionBudget](source.List(ctx, kind, u.At.Namespace))
	if err != nil {
		return []report.Finding{unreadFinding(err, "whether nodes with pods of usher can be drained")}
	}
	for _, b := range budgets {
		selects, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selects.Matches(labels.Set(d.Spec.Template.Labels)) || spare(b, replicas) > 0 || replicas == 0 {
			continue
		}
		found = append(found, problem("usher-disruption-budget", u.about(), "the PodDisruptionBudget %s/%s lets none of the %d replicas be evicted: no "+
			"node with one can be drained.", b.Namespace, b.Name, replicas))
	}
	return found
}

// spare returns how many of some replicas a PodDisruptionBudget lets be evicted while all run.
func spare(b policyv1.PodDisruptionBudget, replicas int) int {
	if b.Spec.MaxUnavailable != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, replicas, true)
		if err != nil {
			return 1 // no API server would have stored it
		}
		return n
	}
	if b.Spec.MinAvailable == nil {
		return replicas
	}
	least, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, replicas, true)
	if err != nil {
		return 1
	}
	return replicas - least
}

// podKinds are the kinds whose objects in the Namespace of a pod, or in none, decide about it, and which the command may lack the right to read.
var podKinds = []string{"limitranges", "resourcequotas", "serviceaccounts", "priorityclasses", "runtimeclasses"}

// podProblems has the API server's code judge the last of usher's pods, as the controller of its Deployment creates it beside the others.
func (u Usher) podProblems(ctx context.Context, source reader.Source, deployment json.RawMessage, replicas int) []report.Finding {
	e, err := NewExaminer(ctx, source, requests.NewCatalogue(nil))
	if err != nil {
		return nil // which is reported for the webhooks
	}
	o := requests.Options{Namespace: u.At.Namespace}
	all := requests.WithPods([]requests.Document{{JSON: deployment}}, nil, o, func(*unstructured.Unstructured) bool { return false })
	e.Learn(ctx, all, o)
	e.completeFiles(ctx)
	pod := all[len(all)-1]
	e.beside = func(s *state) { s.replicate(pod.JSON, replicas) }
	request, err := e.request(ctx, pod, o)
	if err != nil {
		return []report.Finding{u.podsUnjudged(err.Error())}
	}
	j := e.judgeRequest(ctx, pod, request, nobody)
	switch {
	case j.doubt != "":
		return []report.Finding{u.podsUnjudged(j.doubt)}
	case j.Refusal != nil:
		return []report.Finding{problem("usher-pods-refused", u.about(), "the API server refuses the pods of the Deployment %s: %s. Those that run stay, "+
			"and none is replaced.", u.service(), j.Refusal.Message)}
	}
	if class := e.pods[len(e.pods)-1].Spec.PriorityClassName; !source.Live() && class != "" && !strings.HasPrefix(class, "system-") {
		return []report.Finding{u.podsUnjudged("no file has the PriorityClass " + class)} // it was taken to exist
	}
	return e.unreadOfPods(ctx, j.state)
}

// podsUnjudged returns the finding for pods of usher that may be refused.
func (u Usher) podsUnjudged(why string) report.Finding {
	return milder(problem("usher-pods-refused", u.about(), "not judged: whether the API server accepts the pods of the Deployment %s: %s.",
		u.service(), why),
		report.Unknown)
}

// completeFiles takes files that have some ServiceAccounts of a pod's Namespace, or some PriorityClasses, to have all: what the pod names is
// assumed only where there is none.
func (e *Examiner) completeFiles(ctx context.Context) {
	for i, pod := range e.pods {
		if list, _ := e.source.List(ctx, reader.NewKind("", "v1", "ServiceAccount", "serviceaccounts"), pod.Namespace); len(list) > 0 {
			e.pods[i].Spec.ServiceAccountName = ""
		}
		if list, _ := e.source.List(ctx, reader.NewKind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses"), ""); len(list) > 0 {
			e.pods[i].Spec.PriorityClassName = ""
		}
	}
}

// replicate adds the other replicas of a pod, and has ResourceQuotas count them alone: that of a cluster may count the pod already.
func (s *state) replicate(pod json.RawMessage, replicas int) {
	for _, o := range s.objects {
		if o.GetKind() == "ResourceQuota" {
			unstructured.RemoveNestedField(o.Object, "status")
		}
	}
	for i := range replicas - 1 {
		s.add(reader.NewKind("", "v1", "Pod", "pods"), pod)
		s.objects[len(s.objects)-1].SetName(fmt.Sprintf("replica-%d", i))
	}
}

// unreadOfPods returns the finding for what may decide about a pod and could not be read.
func (e *Examiner) unreadOfPods(ctx context.Context, s *state) (found []report.Finding) {
	for _, kind := range decisive {
		if s.open[kind.Resource] && slices.Contains(podKinds, kind.Resource) {
			_, err := e.source.List(ctx, kind.Kind, "")
			found = append(found, unreadFinding(err, "whether the API server accepts the pods of usher"))
		}
	}
	return found
}

// list gets something in the namespace of usher.
func list(what string) func(subject) command {
	return func(s subject) command { return look("kubectl -n "+report.Word(s.home.At.Namespace)+" get "+what, "") }
}

func scale(s subject) command {
	return fix("kubectl -n " + report.Word(s.home.At.Namespace) + " scale deployment " + report.Word(s.home.At.Service) + " --replicas=2")
}
