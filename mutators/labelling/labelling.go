// Package labelling sets labels and annotations that pods and pod templates lack, as the section labelDefaults of the policy
// says. The steps label-defaults and label-rules share it.
package labelling

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/config"
	"usher.dev/usher/internal/check"
)

// Defaults are the labels and annotations that new pods get if they lack them. The entries are applied in order,
// so the first entry that sets a key wins.
type Defaults []Default

// Default holds the labels and annotations that the selected pods get.
type Default struct {
	_ struct{} `schema:"either=labels|annotations"`

	config.Selection
	Labels      []Value `json:"labels,omitempty" doc:"labels that the pods get if they lack them"`
	Annotations []Value `json:"annotations,omitempty" doc:"annotations that the pods get if they lack them"`
}

// Value is the default of one label or annotation. It comes from the pod's namespace if one of the From fields
// is set and the namespace has that key, else it is Value. Without either, nothing is set.
type Value struct {
	_ struct{} `schema:"either=value|fromNamespaceLabel|fromNamespaceAnnotation"`

	Key                     string  `json:"key" doc:"the key of the label or annotation" schema:"required,is=key"`
	Value                   *string `json:"value,omitempty" doc:"the value; with one of the fields below, the value if the namespace has no such key" default:"nothing is set"`
	FromNamespaceLabel      string  `json:"fromNamespaceLabel,omitempty" doc:"key of a label of the namespace that has the value" schema:"is=label-key"`
	FromNamespaceAnnotation string  `json:"fromNamespaceAnnotation,omitempty" doc:"key of an annotation of the namespace that has the value; only for annotations, because it may not be a valid label value" schema:"is=key"`
}

// Section is the section labelDefaults.
var Section = config.Section[Defaults]{Name: "labelDefaults", Check: Defaults.check,
	Tag: `doc:"labels and annotations that new pods get if they lack them; the first entry that sets a key wins"`, ReadsNamespace: func(name string, _ any) bool {
		return name == "fromNamespaceLabel" || name == "fromNamespaceAnnotation"
	}}

// check returns all problems of the section.
func (d Defaults) check(at *field.Path) (problems field.ErrorList) {
	for i, entry := range d {
		problems = append(problems, entry.check(at.Index(i))...)
		problems = append(problems, d.checkOrder(i, at)...)
	}
	return problems
}

// checkOrder refuses an entry that selects pods by a label which a later entry sets: it would select other pods when
// the API server sends the changed pod again.
func (d Defaults) checkOrder(i int, at *field.Path) field.ErrorList {
	for j := i + 1; j < len(d); j++ {
		for _, label := range d[j].Labels {
			if selectsBy(d[i].PodSelector, label.Key) {
				return field.ErrorList{field.Invalid(at.Index(i).Child("podSelector"), label.Key,
					fmt.Sprintf("is a label that %s sets; move this entry after that one", at.Index(j)))}
			}
		}
	}
	return nil
}

// selectsBy reports whether a selector depends on a label.
func selectsBy(s *metav1.LabelSelector, key string) bool {
	if s == nil {
		return false
	}
	for _, e := range s.MatchExpressions {
		if e.Key == key {
			return true
		}
	}
	_, found := s.MatchLabels[key]
	return found
}

func (d *Default) check(at *field.Path) field.ErrorList {
	problems := d.Selection.Check(at)
	if len(d.Labels)+len(d.Annotations) == 0 {
		problems = append(problems, field.Required(at, "write labels or annotations: the entry sets nothing"))
	}
	seen := map[string]bool{}
	for i, value := range d.Labels {
		problems = append(problems, value.checkLabel(at.Child("labels").Index(i))...)
		problems = append(problems, value.check(at.Child("labels").Index(i), seen)...)
	}
	seen = map[string]bool{}
	for i, value := range d.Annotations {
		problems = append(problems, check.Key(strings.ToLower(value.Key), at.Child("annotations").Index(i).Child("key"))...)
		problems = append(problems, value.check(at.Child("annotations").Index(i), seen)...)
	}
	return problems
}

// checkLabel returns the problems of a value that only labels have.
func (v *Value) checkLabel(at *field.Path) field.ErrorList {
	problems := check.Key(v.Key, at.Child("key"))
	if v.Value != nil {
		problems = append(problems, check.LabelValue(*v.Value, at.Child("value"))...)
	}
	if v.FromNamespaceAnnotation != "" {
		problems = append(problems, field.Forbidden(at.Child("fromNamespaceAnnotation"),
			"an annotation may contain what a label must not; use fromNamespaceLabel"))
	}
	return problems
}

// check returns the problems of a value that labels and annotations have; seen are the keys of the list so far.
func (v *Value) check(at *field.Path, seen map[string]bool) (problems field.ErrorList) {
	if seen[v.Key] {
		problems = append(problems, field.Duplicate(at.Child("key"), v.Key))
	}
	seen[v.Key] = true
	if v.Value == nil && v.FromNamespaceLabel == "" && v.FromNamespaceAnnotation == "" {
		problems = append(problems, field.Required(at.Child("value"), `write the value, or fromNamespaceLabel; an empty value is ""`))
	}
	if v.FromNamespaceLabel != "" {
		problems = append(problems, check.Key(v.FromNamespaceLabel, at.Child("fromNamespaceLabel"))...)
	}
	if v.FromNamespaceAnnotation != "" {
		problems = append(problems, check.Key(strings.ToLower(v.FromNamespaceAnnotation), at.Child("fromNamespaceAnnotation"))...)
		if v.FromNamespaceLabel != "" {
			problems = append(problems, field.Forbidden(at.Child("fromNamespaceAnnotation"), "fromNamespaceLabel is set, too; keep one of them"))
		}
	}
	return problems
}
