package api

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/admit/quantity"
)

const crds = "../../deploy/crds"

// crd is the part of a CustomResourceDefinition that these tests read.
type crd struct {
	APIVersion, Kind string
	Metadata         struct {
		Name                string
		Annotations, Labels map[string]string
	}
	Spec struct {
		Group, Scope string
		Names        struct {
			Kind, ListKind, Plural, Singular string
			ShortNames                       []string
		}
		Versions []struct {
			Name                     string
			Served, Storage          bool
			Subresources             map[string]any
			AdditionalPrinterColumns []map[string]string
			Schema                   struct{ OpenAPIV3Schema property }
		}
	}
}

// property is a JSON schema. A keyword that these tests do not know is an error.
type property struct {
	Description           string              `json:"description"`
	Type                  string              `json:"type"`
	Format                string              `json:"format"`
	Default               any                 `json:"default"`
	Nullable              bool                `json:"nullable"`
	Enum                  []string            `json:"enum"`
	Pattern               string              `json:"pattern"`
	MinItems              int                 `json:"minItems"`
	MinLength             int                 `json:"minLength"`
	MaxLength             int                 `json:"maxLength"`
	MinProperties         int                 `json:"minProperties"`
	Required              []string            `json:"required"`
	AnyOf                 []map[string]string `json:"anyOf"`
	Properties            map[string]property `json:"properties"`
	AdditionalProperties  *property           `json:"additionalProperties"`
	Items                 *property           `json:"items"`
	PreserveUnknownFields bool                `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString           bool                `json:"x-kubernetes-int-or-string"`
	MapType               string              `json:"x-kubernetes-map-type"`
	ListType              string              `json:"x-kubernetes-list-type"`
	Validations           []map[string]string `json:"x-kubernetes-validations"`
}

func readCRD(t *testing.T, plural string) crd {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(crds, plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c crd
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// at returns a property of the only version of a CRD.
func (c crd) at(path ...string) property {
	p := c.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		if name == "[]" {
			p = *p.Items
		} else {
			p = p.Properties[name]
		}
	}
	return p
}

// kinds are the kinds that are shared with Koordinator.
var kinds = []struct {
	gvk            schema.GroupVersionKind
	gvr            schema.GroupVersionResource
	object         any
	scope          string
	shortNames     []string
	statusResource bool
}{
	{ClusterColocationProfileKind, ClusterColocationProfileResource, ClusterColocationProfile{}, "Cluster", nil, true},
	{ReservationKind, ReservationResource, Reservation{}, "Cluster", nil, true},
	{ElasticQuotaKind, ElasticQuotaResource, ElasticQuota{}, "Namespaced", nil, true},
	{ElasticQuotaProfileKind, ElasticQuotaProfileResource, ElasticQuotaProfile{}, "Namespaced", []string{"eqp"}, false},
}

func TestCRDNames(t *testing.T) {
	for _, k := range kinds {
		c := readCRD(t, k.gvr.Resource)
		names, v := c.Spec.Names, c.Spec.Versions
		if c.APIVersion != "apiextensions.k8s.io/v1" || c.Kind != "CustomResourceDefinition" || c.Metadata.Name != k.gvr.GroupResource().String() {
			t.Errorf("%s: %s %s %s", k.gvk.Kind, c.APIVersion, c.Kind, c.Metadata.Name)
		}
		if c.Spec.Group != k.gvk.Group || c.Spec.Scope != k.scope || names.Kind != k.gvk.Kind || names.ListKind != k.gvk.Kind+"List" ||
			names.Plural != k.gvr.Resource || names.Singular != strings.ToLower(k.gvk.Kind) || !slices.Equal(names.ShortNames, k.shortNames) {
			t.Errorf("%s: %+v", k.gvk.Kind, c.Spec)
		}
		if len(v) != 1 || v[0].Name != k.gvk.Version || !v[0].Served || !v[0].Storage {
			t.Fatalf("%s: versions %+v", k.gvk.Kind, v)
		}
		if _, ok := v[0].Subresources["status"]; ok != k.statusResource {
			t.Errorf("%s: status subresource %v", k.gvk.Kind, ok)
		}
		if approved := c.Metadata.Annotations["api-approved.kubernetes.io"] != ""; approved != strings.HasSuffix(k.gvk.Group, ".k8s.io") {
			t.Errorf("%s: approved %v, which the API server wants for groups under k8s.io", k.gvk.Kind, approved)
		}
		if len(c.Metadata.Labels) > 0 {
			t.Errorf("%s has labels: it may be Koordinator's as well", k.gvk.Kind)
		}
	}
}

// TestCRDsAreTheGoTypes: the schema of the CRDs matches the Go types, field by field.
func TestCRDsAreTheGoTypes(t *testing.T) {
	for _, k := range kinds {
		root := readCRD(t, k.gvr.Resource).at()
		if status, ok := root.Properties["status"]; ok && len(status.Properties) == 0 {
			delete(root.Properties, "status") // Koordinator's have an empty status, with nothing to read
		}
		compare(t, k.gvk.Kind, reflect.TypeOf(k.object), root)
	}
}

// leaves are the types whose JSON form differs from their Go fields.
var leaves = map[reflect.Type]property{
	reflect.TypeFor[metav1.ObjectMeta]():      {Type: "object"},
	reflect.TypeFor[metav1.Time]():            {Type: "string", Format: "date-time"},
	reflect.TypeFor[metav1.Duration]():        {Type: "string"},
	reflect.TypeFor[intstr.IntOrString]():     {IntOrString: true},
	reflect.TypeFor[corev1.PodTemplateSpec](): {Type: "object", PreserveUnknownFields: true},
	reflect.TypeFor[json.RawMessage]():        {Type: "object", PreserveUnknownFields: true},
}

func compare(t *testing.T, path string, goType reflect.Type, p property) {
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if want, ok := leaves[goType]; ok {
		got := property{Type: p.Type, Format: p.Format, IntOrString: p.IntOrString, PreserveUnknownFields: p.PreserveUnknownFields, Properties: p.Properties}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a %s is %+v", path, goType, got)
		}
		return
	}
	simple := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int32: "integer"}
	switch kind := goType.Kind(); {
	case goType == reflect.TypeFor[ResourceList]():
		if p.Type != "object" || p.AdditionalProperties == nil || !p.AdditionalProperties.IntOrString {
			t.Errorf("%s: quantities are %+v", path, p)
		}
	case kind == reflect.Struct:
		compareFields(t, path, goType, p)
	case kind == reflect.Map && p.Type == "object" && p.AdditionalProperties != nil:
		compare(t, path+"{}", goType.Elem(), *p.AdditionalProperties)
	case kind == reflect.Slice && p.Type == "array" && p.Items != nil:
		compare(t, path+"[]", goType.Elem(), *p.Items)
	case p.Type == "" || simple[kind] != p.Type || kind == reflect.Int32 && p.Format != "int32":
		t.Errorf("%s: a %s is %q %q", path, goType, p.Type, p.Format)
	}
}

func compareFields(t *testing.T, path string, goType reflect.Type, p property) {
	fields := jsonFields(goType)
	if p.Type != "object" {
		t.Errorf("%s is %q", path, p.Type)
	}
	if got, want := slices.Sorted(maps.Keys(p.Properties)), slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
		t.Errorf("%s has\n %v, the Go type\n %v", path, got, want)
	}
	for name, fieldType := range fields {
		compare(t, path+"."+name, fieldType, p.Properties[name])
	}
	for _, name := range p.Required {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s requires %s, which it does not have", path, name)
		}
	}
}

// jsonFields returns the JSON names of a struct's fields, including inlined structs.
func jsonFields(goType reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range goType.NumField() {
		name, options, _ := strings.Cut(goType.Field(i).Tag.Get("json"), ",")
		if name == "" && strings.Contains(options, "inline") {
			maps.Copy(fields, jsonFields(goType.Field(i).Type))
			continue
		}
		fields[name] = goType.Field(i).Type
	}
	return fields
}

func TestCRDsKeepMistakesOut(t *testing.T) {
	profile, reservation := readCRD(t, "clustercolocationprofiles"), readCRD(t, "reservations")
	qos := []string{""}
	for _, class := range QoSClasses() {
		qos = append(qos, string(class))
	}
	for _, c := range []struct {
		at        property
		got, want any
	}{
		{got: profile.at("spec", "qosClass").Enum, want: qos},
		{got: profile.at("spec", "patch").Nullable, want: true},
		{got: reservation.at("spec", "allocatePolicy").Enum, want: []string{string(AllocateAligned), string(AllocateRestricted)}},
		{got: reservation.at("spec", "preAllocationPolicy", "mode").Enum, want: []string{string(PreAllocationDefault), string(PreAllocationCluster)}},
		{got: reservation.at("spec", "preAllocationPolicy", "mode").Default, want: "Default"},
		{got: reservation.at("spec", "ttl").Default, want: "24h"},
		{got: reservation.at("spec", "allocateOnce").Default, want: true},
		{got: reservation.at("status", "phase").Default, want: string(ReservationPending)},
		{got: reservation.at("status").PreserveUnknownFields, want: true},
		{got: reservation.at("spec").Required, want: []string{"owners", "template"}},
		{got: reservation.at("spec", "owners").MinItems, want: 1},
		{got: reservation.at("spec", "owners", "[]").MinProperties, want: 1},
		{got: readCRD(t, "elasticquotaprofiles").at("spec").Required, want: []string{"quotaName", "nodeSelector"}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

// TestSelectorsAreOne: the selectors of all kinds are validated alike.
func TestSelectorsAreOne(t *testing.T) {
	profile := readCRD(t, "clustercolocationprofiles")
	selectors := []property{
		profile.at("spec", "namespaceSelector"), profile.at("spec", "selector"), readCRD(t, "elasticquotaprofiles").at("spec", "nodeSelector"),
		readCRD(t, "reservations").at("spec", "owners", "[]", "labelSelector"),
	}
	for _, s := range selectors {
		expression := s.Properties["matchExpressions"].Items
		operators := []string{string(metav1.LabelSelectorOpIn), string(metav1.LabelSelectorOpNotIn),
			string(metav1.LabelSelectorOpExists), string(metav1.LabelSelectorOpDoesNotExist)}
		if expression == nil || !slices.Equal(expression.Properties["operator"].Enum, operators) || len(expression.Validations) != 1 {
			t.Errorf("expressions are %+v", expression)
		}
		s.Description = selectors[0].Description
		if !reflect.DeepEqual(s, selectors[0]) {
			t.Errorf("%+v\n differs from\n%+v", s, selectors[0])
		}
	}
}

// TestStoredQuantitiesAreRead: the CRDs accept no quantity that ParseQuantity refuses.
func TestStoredQuantitiesAreRead(t *testing.T) {
	pattern := readCRD(t, "elasticquotas").at("spec", "max").AdditionalProperties.Pattern
	for _, other := range []property{
		readCRD(t, "elasticquotas").at("spec", "min"), readCRD(t, "elasticquotas").at("status", "used"),
		readCRD(t, "elasticquotas").at("status", "reserved"), readCRD(t, "elasticquotas").at("status", "limit"),
		readCRD(t, "reservations").at("status", "allocatable"), readCRD(t, "reservations").at("status", "allocated"),
	} {
		if got := other.AdditionalProperties.Pattern; got != pattern {
			t.Errorf("pattern %s, want %s", got, pattern)
		}
	}
	stored := regexp.MustCompile(pattern)
	digits := strings.Repeat("9", 19)
	for text, want := range map[string]bool{
		"1": true, "-1": true, "+1": true, "1500m": true, ".5": true, "1.": true, "1e3": true, "1E-3": true, "16Gi": true, "2k": true, "1E": true,
		digits + ".9" + digits + "e-99": true, "." + digits + "Ei": true,
		"": false, "1..2": false, ".": false, "1 ": false, "1Kib": false, "1e-5000000": false, "1e100": false, digits + "9": false, "m": false, "1mi": false,
	} {
		_, err := quantity.ParseQuantity(text)
		if stored.MatchString(text) != want || want && err != nil {
			t.Errorf("%q: stored %v, want %v; read: %v", text, !want, want, err)
		}
	}
}

// TestQuotaColumns: what kubectl get shows of a quota are fields of its schema.
func TestQuotaColumns(t *testing.T) {
	c := readCRD(t, "elasticquotas")
	var paths []string
	for _, column := range c.Spec.Versions[0].AdditionalPrinterColumns {
		paths = append(paths, column["jsonPath"])
	}
	if want := []string{".status.used", ".status.reserved", ".status.limit", ".status.binds", ".metadata.creationTimestamp"}; !slices.Equal(paths, want) {
		t.Errorf("columns %v, want %v", paths, want)
	}
	for _, path := range paths[:4] {
		if p := c.at(strings.Split(path, ".")[1:]...); p.Type != "object" {
			t.Errorf("%s is %+v", path, p)
		}
	}
}

func TestTTLPattern(t *testing.T) {
	ttl := regexp.MustCompile(readCRD(t, "reservations").at("spec", "ttl").Pattern)
	for text, want := range map[string]bool{"24h": true, "24h0m0s": true, "0": true, "0s": true, "1.5h": true, "3µs": true, "": false, "24": false, "1d": false, "-1h": false, "h": false} {
		var d metav1.Duration
		err := d.UnmarshalJSON([]byte(`"` + text + `"`))
		if ttl.MatchString(text) != want || want && err != nil {
			t.Errorf("%q: stored %v, want %v; read: %v", text, !want, want, err)
		}
	}
}

func TestKustomizationListsAll(t *testing.T) {
	var k struct {
		APIVersion, Kind string
		Resources        []string
	}
	text, err := os.ReadFile(filepath.Join(crds, "kustomization.yaml"))
	if err != nil || yaml.UnmarshalStrict(text, &k) != nil {
		t.Fatal(err, string(text))
	}
	files, _ := filepath.Glob(filepath.Join(crds, "*.yaml"))
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	files = slices.DeleteFunc(files, func(f string) bool { return f == "kustomization.yaml" })
	if !slices.Equal(k.Resources, files) || len(files) != len(kinds) {
		t.Errorf("lists %v, the folder has %v", k.Resources, files)
	}
}
