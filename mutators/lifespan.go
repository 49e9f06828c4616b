package mutators

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// Lifespan is the policy on the remaining lifetime of the nodes that a pod may run on.
type Lifespan struct {
	Label string `json:"label" doc:"key of the label by which a pod asks for a number of days" schema:"required,is=label-key"`
	Taint string `json:"taint" doc:"key of the taint by which a node says how many days it has left" schema:"required,is=label-key"`
	Max   int    `json:"max" doc:"the maximum number of days; a pod gets a toleration for each" schema:"required,min=1,max=100"`
}

// check returns all problems of the section.
func (l *Lifespan) check(at *field.Path) (problems field.ErrorList) {
	problems = check.Key(l.Label, at.Child("label"))
	if l.Max < 1 || l.Max > 100 {
		problems = append(problems, field.Invalid(at.Child("max"), l.Max, "must be from 1 to 100: a pod gets a toleration for each day"))
	}
	return append(problems, check.Key(l.Taint, at.Child("taint"))...)
}

// lifespan lets a pod request, by a label, nodes with a minimum remaining lifetime. Nodes have a taint with the number
// of days they have left; a pod that requests N days tolerates every value from the policy's max down to N. Without the
// label, or with an empty one, a pod tolerates the taint with any value. Tolerations that the pod already has are not
// repeated.
func lifespan(policy *Lifespan) admit.Mutator[admit.Pod] {
	tolerations := tolerationsOfDays(policy)
	return admit.Mutator[admit.Pod]{
		Name: "lifespan",
		Doc:  "turns the lifespan label into tolerations for nodes that live at least that many days; no label: any node",
		Section: config.Section[*Lifespan]{Name: "lifespan", Check: (*Lifespan).check, Tag: `doc:"how pods ask for nodes that live long enough"`,
			Default: "lifespan:   {label: acme.com/lifespan-requested, taint: acme.com/lifespan-remaining, max: 14}\n"},
		Run: func(_ context.Context, req *admit.Request, pod *admit.Pod) error {
			if policy == nil {
				req.Explain("the policy has no section lifespan")
				return nil
			}
			wanted, err := tolerations.wanted(policy, pod.Label(policy.Label))
			if err != nil {
				return err
			}
			present := pod.Tolerations()
			for _, t := range wanted {
				if !slices.ContainsFunc(present, func(p corev1.Toleration) bool { return sameToleration(p, t) }) {
					pod.AppendToleration(t)
				}
			}
			return nil
		},
	}
}

// sameToleration compares tolerations without their seconds. No operator means Equal (core/v1 Toleration).
func sameToleration(a, b corev1.Toleration) bool {
	a.Operator, b.Operator = cmp.Or(a.Operator, corev1.TolerationOpEqual), cmp.Or(b.Operator, corev1.TolerationOpEqual)
	return a.MatchToleration(&b)
}

// lifespanTolerations are the tolerations that labels may ask for.
type lifespanTolerations struct {
	any  []corev1.Toleration // of a node with any number of days left
	days []corev1.Toleration // of nodes with max days left, one less, and so on down to 0
}

func tolerationsOfDays(policy *Lifespan) (of lifespanTolerations) {
	if policy == nil {
		return of
	}
	of.any = []corev1.Toleration{{Key: policy.Taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	for left := policy.Max; left >= 0; left-- {
		of.days = append(of.days, corev1.Toleration{
			Key: policy.Taint, Operator: corev1.TolerationOpEqual, Value: strconv.Itoa(left), Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return of
}

// wanted returns the tolerations for a label's value.
func (of lifespanTolerations) wanted(policy *Lifespan, label string) ([]corev1.Toleration, error) {
	if label == "" {
		return of.any, nil
	}
	days, err := strconv.Atoi(label)
	if err != nil || days < 0 || days > policy.Max {
		return nil, field.Invalid(admit.LabelPath(policy.Label), label,
			fmt.Sprintf("must be a whole number of days from 0 to %d; remove the label to run on any node", policy.Max))
	}
	return slices.Clip(of.days[:policy.Max-days+1]), nil
}
