package profile

import (
	"slices"
	"strings"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/api"
)

// Check finds what keeps a profile from being evaluated, and what pods would be refused for: labels and annotations that
// are none, a QoS class that is none.
func Check(profile *api.ClusterColocationProfile) (problems field.ErrorList) {
	for _, p := range compile(profile).problems {
		problems = append(problems, p.Err)
	}
	s := &profile.Spec
	for _, label := range Sorted(s.Labels) {
		problems = append(problems, checkLabel(specPath.Child("labels").Key(label.Key), label)...)
	}
	for _, annotation := range Sorted(s.Annotations) {
		problems = append(problems, checkAnnotation(specPath.Child("annotations").Key(annotation.Key), annotation.Key)...)
	}
	problems = append(problems, checkMapping("labelKeysMapping", s.LabelKeysMapping, checkLabelKey)...)
	problems = append(problems, checkMapping("annotationKeysMapping", s.AnnotationKeysMapping, checkAnnotation)...)
	for _, suffix := range Sorted(s.LabelSuffixes) {
		problems = append(problems, checkSuffix(specPath.Child("labelSuffixes").Key(suffix.Key), suffix)...)
	}
	if classes := api.QoSClasses(); s.QoSClass != "" && !slices.Contains(classes, s.QoSClass) {
		problems = append(problems, field.NotSupported(specPath.Child("qosClass"), s.QoSClass, classes))
	}
	return problems
}

type keyCheck func(path *field.Path, key string) field.ErrorList

func checkMapping(name string, mapping map[string]string, check keyCheck) (problems field.ErrorList) {
	for _, keys := range Sorted(mapping) {
		path := specPath.Child(name).Key(keys.Key)
		problems = append(problems, check(path, keys.Key)...)
		problems = append(problems, check(path, keys.Value)...)
	}
	return problems
}

func checkLabelKey(path *field.Path, key string) field.ErrorList {
	return metavalidation.ValidateLabelName(key, path)
}

// checkAnnotation checks the key of an annotation, which, other than a label's, may have capitals in its prefix.
func checkAnnotation(path *field.Path, key string) (problems field.ErrorList) {
	for _, rule := range validation.IsQualifiedName(strings.ToLower(key)) {
		problems = append(problems, field.Invalid(path, key, rule))
	}
	return problems
}

// checkSuffix checks what can stand at the end of a label's value.
func checkSuffix(path *field.Path, suffix Pair) field.ErrorList {
	problems := checkLabelKey(path, suffix.Key)
	if suffix.Value == "" {
		return append(problems, field.Required(path, "a suffix that appends nothing; leave it out"))
	}
	for _, rule := range validation.IsValidLabelValue("x" + suffix.Value) {
		problems = append(problems, field.Invalid(path, suffix.Value, "cannot end a label: "+rule))
	}
	return problems
}
