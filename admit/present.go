package admit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"usher.dev/usher/admit/document"
)

// Differs returns the names of the fields of want that the container does not have with the same value. What the
// container has in addition is no difference, also in its lists: defaults, and what others have added. Resources are not
// compared, because other steps and webhooks adjust them.
func (c *Container) Differs(want corev1.Container) []string { return differs(c.root, want) }

// VolumeMountDiffers is like Differs for the volume mount at the same path, in whatever way the two write it.
func (c *Container) VolumeMountDiffers(want corev1.VolumeMount) bool {
	own := c.volumeMount(want.MountPath)
	if own != nil {
		want.MountPath = own.Get("mountPath").Text()
	}
	return own != nil && len(differs(own, want)) > 0
}

// VolumeDiffers is like Differs for the volume of the same name.
func (p *Pod) VolumeDiffers(want corev1.Volume) bool {
	for v := range p.root.At("spec", "volumes").Elements() {
		if v.CanBe(document.Object) && v.Get("name").Text() == want.Name {
			return len(differs(v, want)) > 0
		}
	}
	return false
}

// resources is the field of a container that Differs does not compare. No other part of a pod that is compared has it.
const resources = "resources"

// differs returns the names of the fields of want that the object at v does not have with the same value, sorted.
func differs(v *document.Value, want any) (names []string) {
	fields := treeOf(want)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != resources && !contains(v.Get(name).Tree(), fields[name]) {
			names = append(names, name)
		}
	}
	return names
}

// treeOf returns a Go value as the members of its JSON object.
func treeOf(value any) map[string]any {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("admit: a value that has no JSON: %v", err))
	}
	d, err := document.Parse(raw)
	if err != nil {
		panic(fmt.Sprintf("admit: JSON that does not parse: %v", err))
	}
	defer d.Release()
	tree, _ := d.Root().Tree().(map[string]any)
	return tree
}

// contains reports whether all of want is in have: the members of objects, and the objects of lists in any order. Other
// lists, such as arguments, must be equal.
func contains(have, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		have, ok := have.(map[string]any)
		for name, value := range want {
			ok = ok && contains(have[name], value)
		}
		return ok
	case []any:
		have, ok := have.([]any)
		return ok && containsList(have, want)
	}
	return have == want
}

func containsList(have, want []any) bool {
	for i, value := range want {
		if _, object := value.(map[string]any); !object {
			if len(have) != len(want) || !contains(have[i], value) {
				return false
			}
		} else if !slices.ContainsFunc(have, func(h any) bool { return contains(h, value) }) {
			return false
		}
	}
	return true
}
