package admit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

// TestImagesFindsAllOfTheType: every field of a pod's spec that names an image is found, also in a list that a later
// version of Kubernetes adds. A rule about images would otherwise not see it.
func TestImagesFindsAllOfTheType(t *testing.T) {
	var spec corev1.PodSpec
	planted := plantImages(reflect.ValueOf(&spec).Elem(), nil)
	raw, err := json.Marshal(corev1.Pod{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for image := range AsPod(d).Images() {
		found = append(found, image.Reference())
	}
	slices.Sort(found)
	if len(planted) < 4 || !slices.Equal(found, planted) {
		t.Errorf("found %v, planted %v in %s", found, planted, raw)
	}
}

// plantImages sets every text that names an image to another value, with one element in every list, and returns the
// values. What names an image is a field image, or the reference of an image volume.
func plantImages(v reflect.Value, planted []string) []string {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return plantImages(v.Elem(), planted)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return planted
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return plantImages(v.Index(0), planted)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			names := field.Name == "Image" || v.Type() == reflect.TypeFor[corev1.ImageVolumeSource]() && field.Name == "Reference"
			switch {
			case names && field.Type.Kind() == reflect.String:
				planted = append(planted, fmt.Sprintf("image-%d", len(planted)))
				v.Field(i).SetString(planted[len(planted)-1])
			case field.IsExported() && field.Type.PkgPath() != "time":
				planted = plantImages(v.Field(i), planted)
			}
		}
	}
	return planted
}
