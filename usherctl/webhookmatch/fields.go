package webhookmatch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// typed returns the kinds of Kubernetes whose fields are known. Serving does not need them.
var typed = sync.OnceValue(func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme,
		rbacv1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, autoscalingv2.AddToScheme} {
		if err := add(kinds); err != nil {
			panic(fmt.Sprintf("kinds that do not go together: %v", err))
		}
	}
	return kinds
})

// typeOf returns the type of a kind of Kubernetes, or nil.
func typeOf(kind schema.GroupKind) reflect.Type {
	version := "v1"
	if kind.Group == autoscalingv2.GroupName {
		version = "v2"
	}
	object, err := typed().New(kind.WithVersion(version))
	if err != nil {
		return nil
	}
	return reflect.TypeOf(object).Elem()
}

// fieldsOf returns the types of the fields of a type, by their names in JSON; nil if it has none, or is written in another way.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && (name == "" || strings.Contains(options, "inline")):
			for inner, of := range fieldsOf(f.Type) {
				fields[inner] = of
			}
		case name != "" && name != "-":
			fields[name] = f.Type
		}
	}
	return fields
}

// strays reports whether a chain of fields leaves a type: no object of the type has the last one.
func strays(t reflect.Type, chain []string) bool {
	fields := fieldsOf(t)
	if len(chain) == 0 || fields == nil {
		return false
	}
	of, known := fields[chain[0]]
	return !known && len(chain) == 1 || known && strays(of, chain[1:])
}

// holding returns an object that has what chains of fields go through, and the fields beside them, of which nothing is known.
func holding(t reflect.Type, chains [][]string, root string, path ...string) (object map[string]any, unknown []*cel.AttributePatternType) {
	object = map[string]any{}
	for name, of := range fieldsOf(t) {
		var below [][]string
		for _, chain := range chains {
			if len(chain) > 1 && chain[0] == name {
				below = append(below, chain[1:])
			}
		}
		at := append(slices.Clone(path), name)
		if len(below) > 0 {
			inner, others := holding(of, below, root, at...)
			object[name], unknown = inner, append(unknown, others...)
			continue
		}
		unknown = append(unknown, attribute(root, at...))
	}
	return object, unknown
}

// chainsOf returns the chains of fields that an expression reads from a variable, such as spec, replicas, each also without its end. What
// has(...) asks for is not read.
func chainsOf(tree *cel.Ast, root string) (all [][]string) {
	if tree == nil {
		return nil
	}
	ast.PreOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if chain, is := chainOf(e, root); is && len(chain) > 0 {
			all = append(all, chain)
		}
	}))
	return all
}

// chainOf returns the fields between a variable and what an expression reads.
func chainOf(e ast.Expr, root string) (chain []string, is bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, e.AsIdent() == root
	case ast.SelectKind:
		if of := e.AsSelect(); !of.IsTestOnly() {
			chain, is = chainOf(of.Operand(), root)
			return append(chain, of.FieldName()), is
		}
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return nil, false
		}
		if name, text := call.Args()[1].AsLiteral().Value().(string); text {
			chain, is = chainOf(call.Args()[0], root)
			return append(chain, name), is
		}
	}
	return nil, false
}
