package slo

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// selector is a label selector as a list of constraints, sorted by key. nil selects nothing; it stands for a broken or
// empty selector.
type selector []constraint

// constraint is what a selector allows for one key.
type constraint struct {
	key    string
	absent bool     // the key may be missing
	except bool     // any value but these is allowed
	values []string // otherwise the allowed values, sorted
}

// compileSelector compiles the value of nodeSelector; null and an empty selector are refused, because an entry is for a
// subset of the nodes.
func compileSelector(value any, at *field.Path, found *finding) selector {
	tree, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil // of the wrong type, which is reported elsewhere
	}
	from, whole := labelSelector(tree)
	if !whole {
		return nil
	}
	if len(from.MatchLabels)+len(from.MatchExpressions) == 0 {
		found.add(field.Required(at,
			"must select nodes by matchLabels or matchExpressions; what is for all nodes belongs to the cluster's strategy"))
		return nil
	}
	before := found.count()
	checkSelector(from, at, found)
	if found.count() > before {
		return nil
	}
	s := constraintsOf(from)
	if key, never := s.selectsNothing(); never {
		found.warnf("%s: selects no node: what it asks of label %s contradicts itself", at, key)
	}
	return s
}

// labelSelector extracts the typed form from a tree; false if a part of it has the wrong type, which is reported
// elsewhere.
func labelSelector(tree map[string]any) (s metav1.LabelSelector, whole bool) {
	whole = true
	labels := members(tree["matchLabels"], &whole)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[key] = textOf(labels[key], &whole)
	}
	for _, value := range elements(tree["matchExpressions"], &whole) {
		expression := members(value, &whole)
		e := metav1.LabelSelectorRequirement{
			Key: textOf(expression["key"], &whole), Operator: metav1.LabelSelectorOperator(textOf(expression["operator"], &whole)),
		}
		for _, value := range elements(expression["values"], &whole) {
			e.Values = append(e.Values, textOf(value, &whole))
		}
		s.MatchExpressions = append(s.MatchExpressions, e)
	}
	return s, whole
}

// These extract a part of a tree, with null as the zero value, and clear ok if it has the wrong type.
func textOf(value any, ok *bool) string          { return as[string](value, ok) }
func elements(value any, ok *bool) []any         { return as[[]any](value, ok) }
func members(value any, ok *bool) map[string]any { return as[map[string]any](value, ok) }
func as[T any](value any, ok *bool) (part T) {
	part, fits := value.(T)
	if !fits && value != nil {
		*ok = false
	}
	return part
}

// checkSelector reports what is invalid in a label selector.
func checkSelector(from metav1.LabelSelector, at *field.Path, found *finding) {
	for _, key := range slices.Sorted(maps.Keys(from.MatchLabels)) {
		path := at.Child("matchLabels").Key(shorten(key))
		for _, err := range metavalidation.ValidateLabelName(key, path) {
			found.add(err)
		}
		for _, rule := range validation.IsValidLabelValue(from.MatchLabels[key]) {
			found.invalid(path, from.MatchLabels[key], "%s", rule)
		}
	}
	expressions := metav1.LabelSelector{MatchExpressions: from.MatchExpressions}
	for _, err := range metavalidation.ValidateLabelSelector(&expressions, metavalidation.LabelSelectorValidationOptions{}, at) {
		if strings.HasSuffix(err.Field, ".operator") {
			err.Detail = "must be In, NotIn, Exists or DoesNotExist"
		}
		found.add(err)
	}
}

// constraintsOf returns the constraints of a selector with valid expressions.
func constraintsOf(from metav1.LabelSelector) selector {
	byKey := map[string]constraint{}
	narrow := func(key string, by constraint) {
		c, known := byKey[key]
		if !known {
			c = constraint{key: key, absent: true, except: true}
		}
		byKey[key] = c.and(by)
	}
	for key, value := range from.MatchLabels {
		narrow(key, constraint{values: []string{value}})
	}
	for _, e := range from.MatchExpressions {
		narrow(e.Key, constraintOf(e))
	}
	s := make(selector, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		s = append(s, byKey[key])
	}
	return s
}

func constraintOf(e metav1.LabelSelectorRequirement) constraint {
	switch values := slices.Compact(slices.Sorted(slices.Values(e.Values))); e.Operator {
	case metav1.LabelSelectorOpIn:
		return constraint{values: values}
	case metav1.LabelSelectorOpNotIn:
		return constraint{absent: true, except: true, values: values}
	case metav1.LabelSelectorOpExists:
		return constraint{except: true}
	default: // DoesNotExist
		return constraint{absent: true}
	}
}

// and returns what both constraints allow.
func (c constraint) and(d constraint) constraint {
	both := constraint{key: c.key, absent: c.absent && d.absent}
	switch {
	case c.except && d.except:
		both.except = true
		both.values = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.values, d.values))))
	case c.except:
		both.values = without(d.values, c)
	default:
		both.values = without(c.values, d)
	}
	return both
}

// without returns the values that a constraint allows.
func without(values []string, c constraint) (left []string) {
	for _, value := range values {
		if c.allows(value) {
			left = append(left, value)
		}
	}
	return left
}

// allows reports whether the key may have a value.
func (c *constraint) allows(value string) bool {
	_, listed := slices.BinarySearch(c.values, value)
	return listed != c.except
}

// never reports whether nothing is allowed.
func (c *constraint) never() bool { return !c.absent && !c.except && len(c.values) == 0 }

func (s selector) selectsNothing() (key string, never bool) {
	for i := range s {
		if s[i].never() {
			return s[i].key, true
		}
	}
	return "", false
}

// matches reports whether labels are selected.
func (s selector) matches(labels map[string]string) bool {
	for i := range s {
		if value, ok := labels[s[i].key]; ok && !s[i].allows(value) || !ok && !s[i].absent {
			return false
		}
	}
	return s != nil
}

// equal reports whether two selectors have the same constraints.
func (s selector) equal(t selector) bool {
	return slices.EqualFunc(s, t, func(a, b constraint) bool {
		return a.key == b.key && a.absent == b.absent && a.except == b.except && slices.Equal(a.values, b.values)
	})
}
