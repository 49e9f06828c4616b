package podvalidation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Env returns the problems of variables. volumes are those that are injected with them.
func Env(vars []corev1.EnvVar, volumes []corev1.Volume, at *field.Path) field.ErrorList {
	var l list
	l.env(vars, volumes, at)
	return field.ErrorList(l)
}

func (l *list) env(vars []corev1.EnvVar, volumes []corev1.Volume, at *field.Path) {
	for i, v := range vars {
		at := at.Index(i)
		l.valid(at.Child("name"), v.Name, validation.IsRelaxedEnvVarName)
		if v.ValueFrom != nil {
			at = at.Child("valueFrom")
			l.invalid(v.Value != "", at, field.OmitValueType{}, "there is a value, too; write one of them")
			l.valueFrom(v.ValueFrom, at)
			l.fileKeyVolume(v.ValueFrom.FileKeyRef, volumes, at)
		}
	}
}

func (l *list) valueFrom(from *corev1.EnvVarSource, at *field.Path) {
	sources := 0
	if from.FieldRef != nil {
		sources++
		l.fieldRef(from.FieldRef, envFields, at.Child("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		sources++
		l.resourceRef(from.ResourceFieldRef, at.Child("resourceFieldRef"))
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		l.keyRef(r.Name, r.Key, at.Child("configMapKeyRef"))
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		l.keyRef(r.Name, r.Key, at.Child("secretKeyRef"))
	}
	if r, at := from.FileKeyRef, at.Child("fileKeyRef"); r != nil {
		sources++
		l.valid(at.Child("key"), r.Key, validation.IsRelaxedEnvVarName)
		l.valid(at.Child("volumeName"), r.VolumeName, validation.IsDNS1123Label)
		l.required(at.Child("path"), r.Path, "the path of the file in the volume")
		l.noBacksteps(at.Child("path"), r.Path)
	}
	l.invalid(sources != 1, at, field.OmitValueType{}, fmt.Sprintf(
		"has %d of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef and fileKeyRef; write one", sources))
}

func (l *list) keyRef(name, key string, at *field.Path) {
	l.valid(at.Child("name"), name, validation.IsDNS1123Subdomain)
	l.valid(at.Child("key"), key, validation.IsConfigMapKey)
}

// fileKeyVolume adds the problem of a file in an injected volume of another kind than emptyDir.
func (l *list) fileKeyVolume(r *corev1.FileKeySelector, volumes []corev1.Volume, at *field.Path) {
	if r == nil {
		return
	}
	if v := named(volumes, r.VolumeName); v != nil && v.EmptyDir == nil && len(sources(v)) > 0 {
		l.add(field.Invalid(at.Child("fileKeyRef", "volumeName"), r.VolumeName, "must be an emptyDir volume"))
	}
}

// named returns the volume of a name, or nil.
func named(volumes []corev1.Volume, name string) *corev1.Volume {
	if i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == name }); i >= 0 {
		return &volumes[i]
	}
	return nil
}

// The fields of a pod that a variable, or a file of a volume, may have as its value; besides single labels and annotations.
var (
	envFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	fileFields = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
)

func (l *list) fieldRef(r *corev1.ObjectFieldSelector, supported []string, at *field.Path) {
	oneOf(l, at.Child("apiVersion"), r.APIVersion, "v1")
	at = at.Child("fieldPath")
	l.required(at, r.FieldPath, "such as metadata.name")
	if name, key, ok := subscripted(r.FieldPath); !ok {
		if r.FieldPath != "spec.host" || !slices.Contains(supported, "spec.nodeName") { // its old name
			oneOf(l, at, r.FieldPath, supported...)
		}
	} else if name == "metadata.annotations" {
		l.valid(at, strings.ToLower(key), validation.IsQualifiedName)
	} else if name == "metadata.labels" {
		l.valid(at, key, validation.IsQualifiedName)
	} else {
		l.add(field.Invalid(at, r.FieldPath, "only metadata.labels['KEY'] and metadata.annotations['KEY'] have a key"))
	}
}

// subscripted splits a path such as metadata.labels['KEY'].
func subscripted(text string) (name, key string, ok bool) {
	if text, ok = strings.CutSuffix(text, "']"); !ok {
		return "", "", false
	}
	name, key, ok = strings.Cut(text, "['")
	return name, key, ok && name != ""
}

// resourceRef adds the problems of a resource that is a value.
func (l *list) resourceRef(r *corev1.ResourceFieldSelector, at *field.Path) {
	supported := []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage"}
	l.required(at.Child("resource"), r.Resource, "such as limits.memory")
	hugepages := strings.HasPrefix(r.Resource, "limits."+corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(r.Resource, "requests."+corev1.ResourceHugePagesPrefix)
	if !hugepages {
		oneOf(l, at.Child("resource"), r.Resource, supported...)
		if !slices.Contains(supported, r.Resource) {
			return
		}
	}
	divisors := []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	if strings.HasSuffix(r.Resource, ".cpu") && !hugepages {
		divisors = []string{"1m", "1"}
	}
	if r.Divisor.Cmp(resource.Quantity{}) != 0 {
		oneOf(l, at.Child("divisor"), r.Divisor.String(), divisors...)
	}
}

func (l *list) envFrom(all []corev1.EnvFromSource, at *field.Path) {
	for i, from := range all {
		at := at.Index(i)
		if from.Prefix != "" {
			l.valid(at.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName)
		}
		if from.ConfigMapRef != nil {
			l.objectName(at.Child("configMapRef", "name"), from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			l.objectName(at.Child("secretRef", "name"), from.SecretRef.Name)
		}
		l.invalid((from.ConfigMapRef == nil) == (from.SecretRef == nil), at, field.OmitValueType{}, "write one of configMapRef and secretRef")
	}
}

// objectName adds the problems of the name of an object that a container names; it may end in a hyphen, as API servers
// have it here.
func (l *list) objectName(at *field.Path, name string) {
	l.required(at, name, "the name of the object")
	if len(name) > 1 && strings.HasSuffix(name, "-") {
		name = name[:len(name)-2] + "a"
	}
	if name != "" {
		l.valid(at, name, validation.IsDNS1123Subdomain)
	}
}
