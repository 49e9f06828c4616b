package admit

import (
	"k8s.io/apimachinery/pkg/labels"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asSelector compiles conditions on labels.
func asSelector(conditions []metav1.LabelSelectorRequirement) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: conditions})
	if err != nil {
		panic(err)
	}
	return selector
}
