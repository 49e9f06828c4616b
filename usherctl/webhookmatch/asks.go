package webhookmatch

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/internal/selector"
)

// Asks says what a part of a selector asks for, such as "asks for the label app".
func Asks(r metav1.LabelSelectorRequirement) string {
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		if len(r.Values) == 1 {
			return fmt.Sprintf("asks for the label %s: %s", r.Key, r.Values[0])
		}
		return fmt.Sprintf("asks for the label %s with one of the values %s", r.Key, strings.Join(r.Values, ", "))
	case metav1.LabelSelectorOpNotIn:
		return fmt.Sprintf("leaves out %s: %s", r.Key, strings.Join(r.Values, ", "))
	case metav1.LabelSelectorOpExists:
		return "asks for the label " + r.Key
	}
	return "leaves out what has the label " + r.Key
}

// AsksForLabel reports whether a valid selector matches no object without labels.
func AsksForLabel(s *metav1.LabelSelector) bool { return len(selector.Of(s).Terms()) > 0 }
