package expression

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"usher.dev/usher/admit/document"
)

// reads describes what an expression reads, itself and through variables.
type reads struct {
	object    [][]string // the parts of object, as paths of fields; an empty path is all of it
	oldObject bool
	namespace bool
}

// unchanged reports whether both objects have the same in all parts that the expression reads.
func (r *reads) unchanged(object, old document.Raw) bool {
	return !slices.ContainsFunc(r.object, func(path []string) bool {
		return !document.SameRaw(within(object, path), within(old, path))
	})
}

// within returns the value at a path of fields, as far as there are objects.
func within(r document.Raw, path []string) document.Raw {
	for _, name := range path {
		if r.Kind() != document.Object {
			break
		}
		r = r.Member(name)
	}
	return r
}

// merge adds what a variable reads.
func (r *reads) merge(of reads) {
	r.object = append(r.object, of.object...)
	r.oldObject = r.oldObject || of.oldObject
	r.namespace = r.namespace || of.namespace
}

// find adds what a syntax tree reads. path are the fields that are selected from its value.
func (r *reads) find(e ast.Expr, path []string, variables map[string]*compiled) {
	all := func(of ...ast.Expr) {
		for _, e := range of {
			r.find(e, nil, variables)
		}
	}
	switch e.Kind() {
	case ast.IdentKind:
		r.name(e.AsIdent(), path, variables)
	case ast.SelectKind:
		r.find(e.AsSelect().Operand(), append([]string{e.AsSelect().FieldName()}, path...), variables)
	case ast.CallKind:
		call := e.AsCall()
		if key, ok := selected(call); ok {
			r.find(call.Args()[0], append([]string{key}, path...), variables)
			return
		}
		if call.IsMemberFunction() {
			all(call.Target())
		}
		all(call.Args()...)
	case ast.ListKind:
		all(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			all(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			all(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		all(c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
}

// name adds what a name stands for.
func (r *reads) name(name string, path []string, variables map[string]*compiled) {
	switch name {
	case objectName:
		r.object = append(r.object, path)
	case oldObjectName:
		r.oldObject = true
	case namespaceName:
		r.namespace = true
	case variablesName:
		for name, variable := range variables {
			if len(path) == 0 || path[0] == name {
				r.merge(variable.reads)
			}
		}
	}
}

// selected returns the key of object["key"] and of object.?key, which select a field like object.key.
func selected(call ast.CallExpr) (key string, ok bool) {
	if !slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, call.FunctionName()) || len(call.Args()) != 2 {
		return "", false
	}
	literal := call.Args()[1]
	if literal.Kind() != ast.LiteralKind {
		return "", false
	}
	key, ok = literal.AsLiteral().Value().(string)
	return key, ok
}
