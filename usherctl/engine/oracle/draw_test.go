package oracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// drawer changes objects at random, as their schemas allow it, or not.
type drawer struct {
	*rand.Rand
	schemas map[string]spec.Schema
}

func newDrawer(seed, draw uint64) drawer { return drawer{rand.New(rand.NewPCG(seed, draw)), schemas} }

var schemas = definitions()

func definitions() map[string]spec.Schema {
	all := map[string]spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(spec.MustCreateRef) {
		all[name] = d.Schema
	}
	return all
}

// schemaOf returns the schema of a built-in kind.
func schemaOf(kind schema.GroupVersionKind) (spec.Schema, bool) {
	object, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		return spec.Schema{}, false
	}
	named, is := object.(interface{ OpenAPIModelName() string })
	if !is {
		return spec.Schema{}, false
	}
	s, has := schemas[named.OpenAPIModelName()]
	return s, has
}

// resolve follows a reference, and returns its name.
func (d drawer) resolve(s spec.Schema) (spec.Schema, string) {
	name := s.Ref.String()
	if name == "" && len(s.AllOf) == 1 {
		name = s.AllOf[0].Ref.String()
	}
	if name == "" {
		return s, ""
	}
	return d.schemas[name], name
}

func (d drawer) resolved(s spec.Schema) spec.Schema {
	s, _ = d.resolve(s)
	return s
}

func one[T any](d drawer, from ...T) T { return from[d.IntN(len(from))] }

func (d drawer) chance(percent int) bool { return d.IntN(100) < percent }

// value returns a plausible value of a field.
func (d drawer) value(s spec.Schema, field string, depth int) any {
	s, model := d.resolve(s)
	short := model[strings.LastIndex(model, ".")+1:]
	switch short {
	case "Quantity":
		return one[any](d, "1", "500m", "1Gi", "100Mi", "0", 2, "1.5", "3e2", "128974848")
	case "IntOrString":
		return one[any](d, 8080, "25%", 1, "http", 0, "50%")
	case "Time":
		return "2026-01-02T03:04:05Z"
	case "MicroTime":
		return "2026-01-02T03:04:05.000006Z"
	case "Duration":
		return one[any](d, "30s", "1m0s")
	case "RawExtension", "FieldsV1", "JSON", "JSONSchemaProps":
		return map[string]any{"a": int64(1)}
	}
	if len(s.Enum) > 0 {
		return one(d, s.Enum...)
	}
	switch kind := oneType(s); kind {
	case "string":
		return d.text(s, field)
	case "integer":
		return one[any](d, int64(1), int64(2), int64(3), int64(5), int64(10), int64(80), int64(8080), int64(600), int64(0), int64(30))
	case "number":
		return 1.5
	case "boolean":
		return d.chance(50)
	case "array":
		return d.array(s, field, depth)
	}
	return d.object(s, depth)
}

func oneType(s spec.Schema) string {
	if len(s.Type) == 0 {
		return "object"
	}
	return s.Type[0]
}

func (d drawer) array(s spec.Schema, field string, depth int) any {
	array := []any{}
	if s.Items == nil || s.Items.Schema == nil {
		return array
	}
	for range 1 + d.IntN(2) {
		array = append(array, d.value(*s.Items.Schema, strings.TrimSuffix(field, "s"), depth+1))
	}
	return array
}

func (d drawer) object(s spec.Schema, depth int) any {
	object := map[string]any{}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		key := one(d, "app", "tier", "cpu", "memory", "example.com/kind", "storage", "ephemeral-storage")
		object[key] = d.value(*s.AdditionalProperties.Schema, "", depth+1)
		return object
	}
	for _, name := range s.Required {
		object[name] = d.value(s.Properties[name], name, depth+1)
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	for range len(names) {
		name := one(d, names...)
		if len(object) > len(s.Required) && d.chance(40+20*depth) || depth > 9 {
			break
		}
		object[name] = d.value(s.Properties[name], name, depth+1)
	}
	return object
}

// texts are plausible values of fields by the ends of their names.
var texts = []struct {
	end  string
	from []string
}{
	{"image", []string{"example.com/app:1", "registry.example.com/team/app@sha256:" + strings.Repeat("a", 64), "nginx"}},
	{"priorityclassname", []string{"high", "system-node-critical", "low", "absent"}},
	{"runtimeclassname", []string{"sandboxed", "absent"}},
	{"storageclassname", []string{"fast", "absent", ""}},
	{"serviceaccountname", []string{"default", "builder", "absent"}},
	{"schedulername", []string{"default-scheduler", "other"}},
	{"ingressclassname", []string{"web", "absent"}},
	{"claimname", []string{"data", "absent"}},
	{"nodename", []string{"node1", "absent"}},
	{"path", []string{"/data", "/var/log/app", "/", "relative/path"}},
	{"ip", []string{"192.168.3.7", "10.96.0.12", "fd00::7"}},
	{"cidr", []string{"192.168.0.0/16", "10.1.0.0/24", "fd00::/64"}},
	{"url", []string{"https://example.com/path"}},
	{"key", []string{"app", "example.com/kind", "kubernetes.io/hostname"}},
	{"operator", []string{"In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt"}},
	{"effect", []string{"NoSchedule", "NoExecute", "PreferNoSchedule"}},
	{"topologykey", []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}},
	{"expression", []string{"true", "object.metadata.name != 'x'", "has(object.spec)", "self.size() > 0", "1 + 1", "nonsense("}},
	{"schedule", []string{"* * * * *", "@daily", "0 3 * * 1"}},
	{"timezone", []string{"Europe/Paris", "Nowhere/Town", "TZ"}},
	{"apiversion", []string{"v1", "apps/v1", "example.com/v1"}},
	{"kind", []string{"Pod", "Deployment", "ConfigMap", "Widget"}},
	{"apigroup", []string{"", "apps", "rbac.authorization.k8s.io", "example.com"}},
	{"verb", []string{"get", "create", "*"}},
	{"resource", []string{"pods", "deployments", "configmaps", "*"}},
	{"namespace", []string{"shop", "default", "absent"}},
	{"driver", []string{"example.com", "driver.example.com"}},
}

func (d drawer) text(s spec.Schema, field string) any {
	if s.Format == "byte" {
		return one(d, "ZGF0YQ==", "e30=")
	}
	lower := strings.ToLower(field)
	for _, t := range texts {
		if strings.HasSuffix(lower, t.end) {
			return one(d, t.from...)
		}
	}
	return one(d, "web", "alpha", "example.com/thing", "data", "a-1", "Always")
}

// place is a value in an object.
type place struct {
	path   string
	field  string
	schema spec.Schema
	value  any
	write  func(any) // replaces the value
	remove func()
}

// places returns all values of an object but its kind and version.
func (d drawer) places(s spec.Schema, value any, at place) []place {
	s, _ = d.resolve(s)
	at.schema, at.value = s, value
	all := []place{at}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if at.path == "" && (name == "kind" || name == "apiVersion" || name == "metadata" && d.chance(50)) {
				continue
			}
			next, known := s.Properties[name]
			if !known && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
				next = *s.AdditionalProperties.Schema
			}
			all = append(all, d.places(next, v[name], place{path: at.path + "." + name, field: name,
				write: func(x any) { v[name] = x }, remove: func() { delete(v, name) }})...)
		}
	case []any:
		for i := range v {
			next := spec.Schema{}
			if s.Items != nil && s.Items.Schema != nil {
				next = *s.Items.Schema
			}
			all = append(all, d.places(next, v[i], place{path: fmt.Sprintf("%s[%d]", at.path, i), field: strings.TrimSuffix(at.field, "s"),
				write: func(x any) { v[i] = x }, remove: func() { at.write(slices.Delete(v, i, i+1)) }})...)
		}
	}
	return all
}

// edit is a change of a place; it reports whether it changed something.
type edit struct {
	name string
	do   func(drawer, place) bool
}

var plausible = []edit{
	{"another field", addField}, {"another field", addField}, {"another field", addField}, {"another field", addField},
	{"another value", func(d drawer, p place) bool {
		if _, is := p.value.(map[string]any); is || p.path == ".metadata.name" || p.path == ".metadata.namespace" {
			return false
		}
		p.write(d.value(p.schema, p.field, 3))
		return true
	}},
	{"another element", func(d drawer, p place) bool {
		array, is := p.value.([]any)
		if !is || p.schema.Items == nil || p.schema.Items.Schema == nil {
			return false
		}
		p.write(append(array, d.value(*p.schema.Items.Schema, strings.TrimSuffix(p.field, "s"), 3)))
		return true
	}},
}

func addField(d drawer, p place) bool {
	object, is := p.value.(map[string]any)
	if !is || len(p.schema.Properties) == 0 {
		return false
	}
	for range 5 {
		name := one(d, slices.Sorted(maps.Keys(p.schema.Properties))...)
		if _, has := object[name]; !has && (p.path != "" || name != "status" && name != "kind" && name != "apiVersion") && name != "managedFields" {
			object[name] = d.value(p.schema.Properties[name], name, 2)
			return true
		}
	}
	return false
}

// ofLeaf returns an edit of values that are neither objects nor lists.
func ofLeaf(name string, values ...any) edit {
	return edit{name, func(d drawer, p place) bool {
		switch p.value.(type) {
		case map[string]any, []any:
			return false
		}
		p.write(one(d, values...))
		return true
	}}
}

func ofType[T any](name string, values ...any) edit {
	return edit{name, func(d drawer, p place) bool {
		if _, is := p.value.(T); !is || p.path == "" {
			return false
		}
		p.write(one(d, values...))
		return true
	}}
}

var faults = []edit{
	ofType[string]("wrong type of a text", int64(7), true, map[string]any{"a": "b"}, []any{"a"}),
	ofType[int64]("wrong type of a number", "seven", true, []any{int64(1)}, "7"),
	ofType[bool]("wrong type of a boolean", "true", int64(1)),
	ofType[map[string]any]("wrong type of an object", "text", []any{}, int64(1)),
	ofType[[]any]("wrong type of a list", "text", map[string]any{}, map[string]any{"0": "a"}),
	ofType[int64]("number out of range", int64(-1), int64(0), int64(65536), int64(1)<<40, 1.5, int64(101)),
	ofType[string]("bad text", "", "Not_Valid!", strings.Repeat("x", 300), "ünïcode", " space ", "UPPER", "a..b", "-dash", "a/b/c", "\u0000"),
	ofType[string]("bad quantity", "1GB", "-1", "1e", "0.0001", "99999999999999999999Ei", "NaN"),
	ofLeaf("null", nil),
	{"null", func(_ drawer, p place) bool { p.write(nil); return true }},
	{"empty", func(_ drawer, p place) bool {
		switch p.value.(type) {
		case map[string]any:
			p.write(map[string]any{})
		case []any:
			p.write([]any{})
		default:
			return false
		}
		return true
	}},
	{"unknown field", func(_ drawer, p place) bool {
		object, is := p.value.(map[string]any)
		if is {
			object["unknownField"] = "x"
		}
		return is
	}},
	{"missing field", func(_ drawer, p place) bool { p.remove(); return true }},
	{"missing field", func(_ drawer, p place) bool { p.remove(); return true }},
	{"element twice", func(_ drawer, p place) bool {
		array, is := p.value.([]any)
		if !is || len(array) == 0 {
			return false
		}
		p.write(append(array, runtime.DeepCopyJSONValue(array[0])))
		return true
	}},
	{"bad key", func(d drawer, p place) bool {
		object, is := p.value.(map[string]any)
		if is && p.schema.AdditionalProperties != nil {
			object[one(d, "", "not valid", strings.Repeat("k", 64), "a/b/c", "UPPER/x", "/x", "-")] = "1"
		}
		return is && p.schema.AdditionalProperties != nil
	}},
}

// change changes an object by one of the edits, and returns its name and place.
func (d drawer) change(s spec.Schema, object map[string]any, edits []edit) string {
	all := d.places(s, object, place{write: func(any) {}, remove: func() {}})
	for range 50 {
		p, e := one(d, all...), one(d, edits...)
		if p.path == "" && e.name != "another field" && e.name != "unknown field" {
			continue
		}
		if e.do(d, p) {
			return e.name + " at " + p.path
		}
	}
	return "nothing"
}
