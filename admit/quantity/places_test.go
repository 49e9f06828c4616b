package quantity

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestInPod(t *testing.T) {
	for _, c := range []struct {
		name, pod string
		want      []string // path=text
	}{
		{"resource lists", `{"spec":{"overhead":{"cpu":"1"},"containers":[{"resources":{"limits":{"a.b/c":2},"requests":{"cpu":"3"}}}]}}`,
			[]string{`spec.containers[0].resources.limits[a.b/c]=2`, "spec.containers[0].resources.requests[cpu]=3", "spec.overhead[cpu]=1"}},
		{"single ones", `{"volumes":[{"emptyDir":{"sizeLimit":"1Gi","medium":""}}],"env":[{"valueFrom":{"resourceFieldRef":{"divisor":"1","resource":"limits.cpu"}}}]}`,
			[]string{"env[0].valueFrom.resourceFieldRef.divisor=1", "volumes[0].emptyDir.sizeLimit=1Gi"}},
		{"the same names elsewhere", `{"csi":{"volumeAttributes":{"sizeLimit":"a","divisor":"b"}},"labels":{"limits":"c","max":"d"},"max":{"x":"not of a pod"},"requests":[true,null]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			decoder := json.NewDecoder(strings.NewReader(c.pod))
			decoder.UseNumber()
			var tree any
			if err := decoder.Decode(&tree); err != nil {
				t.Fatal(err)
			}
			var got []string
			for at, text := range InPod(tree, (*field.Path)(nil)) {
				got = append(got, at.String()+"="+text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for range InPod(tree, nil) {
				break // it stops when nobody wants more
			}
		})
	}
}

// TestMayBeHostile: MayBeHostile misses nothing that Hostile finds.
func TestMayBeHostile(t *testing.T) {
	for _, c := range []struct {
		text    string
		hostile bool
	}{
		{"1", false}, {"12E", false}, {"1e10", false}, {"1e-99", false}, {"1e100", true}, {"1E+100", true}, {".5e-500", true},
		{strings.Repeat("1", 64), false}, {strings.Repeat("1", 65), true}, {"e500", true}, {"", false},
	} {
		tree, raw := map[string]any{"hard": map[string]any{"x": c.text}}, []byte(`{"hard":{"x":"`+c.text+`"}}`)
		found := Hostile(tree, Place{}) != ""
		if found != c.hostile || found && c.text != "e500" && !MayBeHostile(raw) {
			t.Errorf("%s: hostile %v, may be %v", c.text, found, MayBeHostile(raw))
		}
		if allocated := map[string]any{"allocatedResources": map[string]any{"x": c.text}}; (Hostile(allocated, Place{}) != "") != c.hostile {
			t.Errorf("%s in a status", c.text)
		}
		if elsewhere := map[string]any{"labels": map[string]any{"x": c.text}}; Hostile(elsewhere, Place{}) != "" {
			t.Errorf("%s in a label", c.text)
		}
	}
}
