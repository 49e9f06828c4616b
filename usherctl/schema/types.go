package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Words are the names that the program knows, such as those of its steps, by the word that tags have for them.
type Words map[string][]string

// generator makes nodes of types.
type generator struct {
	words       Words
	definitions map[string]*Node // types of Kubernetes, which refer to each other
}

// own is implemented by types that decode themselves.
type own interface{ JSONSchema() string }

// known are the schemas of types of Kubernetes that decode themselves, or whose values are few.
var known = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():               `{"type":["string","number"],"minimum":0,"pattern":"^[+]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*$"}`,
	reflect.TypeFor[intstr.IntOrString]():              `{"type":["string","integer"]}`,
	reflect.TypeFor[metav1.Time]():                     `{"type":"string"}`,
	reflect.TypeFor[metav1.LabelSelectorOperator]():    `{"enum":["In","NotIn","Exists","DoesNotExist"]}`,
	reflect.TypeFor[corev1.TolerationOperator]():       `{"enum":["Equal","Exists"]}`,
	reflect.TypeFor[corev1.TaintEffect]():              `{"enum":["NoSchedule","PreferNoSchedule","NoExecute"]}`,
	reflect.TypeFor[corev1.PullPolicy]():               `{"enum":["Always","IfNotPresent","Never"]}`,
	reflect.TypeFor[corev1.Protocol]():                 `{"enum":["TCP","UDP","SCTP"]}`,
	reflect.TypeFor[corev1.TerminationMessagePolicy](): `{"enum":["File","FallbackToLogsOnError"]}`,
}

// checkedFields are rules of the API server for fields of Kubernetes that the types themselves do not tell.
var checkedFields = map[string]reflect.StructTag{
	"v1.LabelSelector.matchLabels":       `schema:"keys=label-key,is=label-value"`,
	"v1.LabelSelectorRequirement.key":    `schema:"is=label-key"`,
	"v1.LabelSelectorRequirement.values": `schema:"is=label-value"`,
	"v1.Toleration.key":                  `schema:"is=label-key"`,
	"v1.Toleration.value":                `schema:"is=label-value"`,
	"v1.Container.name":                  `schema:"is=dns-label"`,
	"v1.Container.image":                 `schema:"required,is=name"`,
	"v1.Container.restartPolicy":         `schema:"enum=Always|OnFailure|Never"`,
	"v1.ContainerPort.containerPort":     `schema:"min=1,max=65535"`,
	"v1.EnvVar.name":                     `schema:"is=name"`,
	"v1.Volume.name":                     `schema:"is=dns-label"`,
	"v1.ContainerPort.name":              `schema:"is=port-name"`,
	"v1.VolumeMount.name":                `schema:"is=dns-label"`,
	"v1.VolumeMount.mountPath":           `schema:"is=name"`,
	"v1.LocalObjectReference.name":       `schema:"required,is=object-name"`,
}

// of returns the node of a type, with what a tag says.
func (g *generator) of(t reflect.Type, tag reflect.StructTag) *Node {
	n := g.plain(t)
	g.tagged(n, tag)
	return n
}

// plain returns the node of a type.
func (g *generator) plain(t reflect.Type) *Node {
	if t.Kind() == reflect.Pointer {
		return g.plain(t.Elem())
	}
	n := &Node{Kind: t}
	switch text, isKnown := known[t]; {
	case isKnown:
		return n.read(text)
	case t.Implements(reflect.TypeFor[own]()):
		return n.read(reflect.Zero(t).Interface().(own).JSONSchema())
	case decodesItself(t):
		return n // anything
	}
	switch t.Kind() {
	case reflect.Struct:
		return g.structure(n, t)
	case reflect.Map:
		n.Type, n.Each = "object", g.plain(t.Elem())
		n.Additional = n.Each
	case reflect.Slice:
		if n.Type, n.Items = "array", nil; t.Elem().Kind() == reflect.Uint8 {
			n.Type = "string" // base64
		} else {
			n.Items = g.plain(t.Elem())
		}
	case reflect.Bool:
		n.Type = "boolean"
	case reflect.Float64:
		n.Type = "number"
	case reflect.Int, reflect.Int32, reflect.Int64:
		n.Type = "integer"
	case reflect.String:
		n.Type = "string"
	}
	return n
}

// read reads a schema that a type has itself.
func (n *Node) read(text string) *Node {
	if err := json.Unmarshal([]byte(text), n); err != nil {
		panic(fmt.Sprintf("the schema of %s: %v", n.Kind, err))
	}
	return n
}

func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// structure fills the node of a struct. Types of Kubernetes are described by themselves, and become definitions.
func (g *generator) structure(n *Node, t reflect.Type) *Node {
	if !strings.HasPrefix(t.PkgPath(), "k8s.io/") {
		g.addFields(n, t, nil)
		return n
	}
	name := path.Base(path.Dir(t.PkgPath())) + "." + t.Name()
	if g.definitions[name] == nil {
		d := &Node{Kind: t}
		g.definitions[name] = d
		g.addFields(d, t, docsOf(t, map[string]string{}))
	}
	n.Ref = "#/definitions/" + name
	return n
}

// addFields adds the fields of a struct, and of those that are embedded in it. docs describe fields of Kubernetes.
func (g *generator) addFields(n *Node, t reflect.Type, docs map[string]string) {
	n.Type, n.Additional = "object", false
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Name == "_":
			defer n.either(f.Tag)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "" && f.Anonymous:
			g.addFields(n, f.Type, docsOf(f.Type, docs))
			continue
		}
		tag := f.Tag
		if docs != nil {
			tag = checkedFields[path.Base(t.PkgPath())+"."+t.Name()+"."+name]
		}
		child := g.of(f.Type, tag)
		if docs != nil {
			child.Description = firstSentence(docs[name])
		}
		if docs != nil && !strings.Contains(options, "omit") || slices.Contains(rules(tag), "required") {
			n.Required = append(n.Required, name)
		}
		n.add(name, child)
	}
}

// docsOf returns the descriptions of the fields of a type of Kubernetes, or other ones if it has none itself.
func docsOf(t reflect.Type, docs map[string]string) map[string]string {
	if described, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok && docs != nil {
		return described.SwaggerDoc()
	}
	return docs
}

func firstSentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// add adds a property.
func (n *Node) add(name string, child *Node) {
	if n.Properties == nil {
		n.Properties = map[string]*Node{}
	}
	n.Properties[name] = child
	n.Fields = append(n.Fields, name)
}
