package podvalidation

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// claimTemplate adds the problems of the claim that is made for a pod.
func (l *list) claimTemplate(t *corev1.PersistentVolumeClaimTemplate, at *field.Path) {
	if t == nil {
		l.add(field.Required(at, "the claim that is made for the pod"))
		return
	}
	l.add(metav1validation.ValidateLabels(t.Labels, at.Child("metadata", "labels"))...)
	m := t.ObjectMeta
	m.Labels, m.Annotations = nil, nil
	l.forbidden(!reflect.ValueOf(m).IsZero(), at.Child("metadata"), "may have labels and annotations, and nothing else")
	l.claim(&t.Spec, at.Child("spec"))
}

func (l *list) claim(c *corev1.PersistentVolumeClaimSpec, at *field.Path) {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod}
	l.missing(len(c.AccessModes) == 0, at.Child("accessModes"), "such as ReadWriteOnce")
	others := false
	for i, mode := range c.AccessModes {
		chosen(l, at.Child("accessModes").Index(i), mode, "such as ReadWriteOnce", modes...)
		others = others || mode != corev1.ReadWriteOncePod && slices.Contains(modes, mode)
	}
	l.forbidden(others && slices.Contains(c.AccessModes, corev1.ReadWriteOncePod), at.Child("accessModes"), "ReadWriteOncePod stands alone")
	storage, found := c.Resources.Requests[corev1.ResourceStorage]
	l.missing(!found, at.Child("resources", "requests").Key("storage"), "such as 10Gi")
	l.invalid(found && storage.Sign() <= 0, at.Child("resources", "requests").Key("storage"), storage.String(), "must be greater than 0")
	l.className(c.StorageClassName, at.Child("storageClassName"))
	l.className(c.VolumeAttributesClassName, at.Child("volumeAttributesClassName"))
	if c.VolumeMode != nil {
		chosen(l, at.Child("volumeMode"), *c.VolumeMode, "write Filesystem or Block", corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)
	}
	if c.Selector != nil {
		l.add(metav1validation.ValidateLabelSelector(c.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	}
	if s := c.DataSource; s != nil {
		l.dataSource(s.APIGroup, s.Kind, s.Name, at.Child("dataSource"))
	}
	if s := c.DataSourceRef; s != nil {
		l.dataSource(s.APIGroup, s.Kind, s.Name, at.Child("dataSourceRef"))
	}
}

func (l *list) className(name *string, at *field.Path) {
	if name != nil && *name != "" {
		l.valid(at, *name, validation.IsDNS1123Subdomain)
	}
}

func (l *list) dataSource(group *string, kind, name string, at *field.Path) {
	l.required(at.Child("name"), name, "")
	l.required(at.Child("kind"), kind, "")
	if group != nil && *group != "" {
		l.valid(at.Child("apiGroup"), *group, validation.IsDNS1123Subdomain)
	} else {
		l.invalid(kind != "PersistentVolumeClaim", at.Child("kind"), kind, "of the core group must be PersistentVolumeClaim")
	}
}
