package profile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit/document/strategic"
	"usher.dev/usher/colocation/api"
)

// Check returns what keeps a profile from being evaluated, and what pods would be refused for: invalid labels and
// annotations, and an unknown QoS class.
func Check(profile *api.ClusterColocationProfile) (problems field.ErrorList) {
	compiled := compile(profile)
	for _, p := range compiled.problems {
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
	problems = append(problems, checkPatch(s)...)
	problems = append(problems, checkContradictions(compiled.Patch)...)
	if classes := api.QoSClasses(); s.QoSClass != "" && !slices.Contains(classes, s.QoSClass) {
		problems = append(problems, field.NotSupported(specPath.Child("qosClass"), s.QoSClass, classes))
	}
	return problems
}

// ownedFields are the fields of a pod's spec that plug-ins of the API server own: Priority and RuntimeClass refuse a pod that
// has other values than they compute. No patch may set them. Of a stored one they are left out, unless it also sets the
// field that they follow from.
var ownedFields = []struct{ name, follows, instead string }{
	{"overhead", "", "leave it out: the RuntimeClass in spec.runtimeClassName determines it"},
	{"priority", "priorityClassName", "name a class in spec.priorityClassName of the profile, which sets it too"},
	{"priorityClassName", "priorityClassName", "use spec.priorityClassName of the profile, which sets the priority too"},
	{"preemptionPolicy", "priorityClassName", "use spec.priorityClassName of the profile, which sets it too"},
}

// identity lists the fields of a pod's metadata that no patch may set.
var identity = []string{"name", "generateName", "namespace", "uid"}

// checkPatch returns the parts of a patch for which the API server would refuse every pod that gets it.
func checkPatch(s *api.ClusterColocationProfileSpec) (problems field.ErrorList) {
	var patch struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
		Spec     map[string]json.RawMessage `json:"spec"`
	}
	if !s.HasPatch() || json.Unmarshal(s.Patch, &patch) != nil {
		return nil // reported before
	}
	at := specPath.Child("patch")
	for _, name := range identity {
		if _, there := patch.Metadata[name]; there {
			problems = append(problems, field.Forbidden(at.Child("metadata", name), "leave it out: the API server has settled it"))
		}
	}
	for _, f := range ownedFields {
		if _, there := patch.Spec[f.name]; there {
			problems = append(problems, field.Forbidden(at.Child("spec", f.name), f.instead))
		}
	}
	var labels map[string]*string
	_ = json.Unmarshal(patch.Metadata["labels"], &labels)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if value := labels[key]; value != nil && !strings.HasPrefix(key, "$") {
			problems = append(problems, checkLabel(at.Child("metadata", "labels").Key(key), Pair{Key: key, Value: *value})...)
		}
	}
	return problems
}

// checkContradictions refuses members that a patch both adds and deletes: in Koordinator the result is random. With an
// already stored patch they are deleted.
func checkContradictions(patch *strategic.Patch) (problems field.ErrorList) {
	if patch == nil {
		return nil
	}
	for _, c := range patch.Contradictions() {
		problems = append(problems, field.Invalid(specPath.Child("patch", c.Path.String()), c.Values,
			"is added in "+c.List+" beside it too; leave it out of one of them"))
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

// checkAnnotation checks the key of an annotation, whose prefix may have capitals, unlike a label's.
func checkAnnotation(path *field.Path, key string) (problems field.ErrorList) {
	for _, rule := range validation.IsQualifiedName(strings.ToLower(key)) {
		problems = append(problems, field.Invalid(path, key, rule))
	}
	return problems
}

// checkSuffix checks that a text is valid at the end of a label's value.
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
