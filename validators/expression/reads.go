package expression

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"usher.dev/usher/admit/document"
)

// reads describes what an expression reads, itself and through variables.
type reads struct {
	object    [][]string // the parts of object, as paths of fields; an empty path is all of it
	oldObject bool
	request   bool
	namespace bool
}

// kept returns the parts of object that an update must leave unchanged for a violation of the expression to pass: those
// that the expression and the match conditions read. It returns nil if no violation passes: an expression that reads
// oldObject judges the change, one that reads nothing of object judges something else, and who may do something is asked
// again at each request.
func (r *reads) kept(conditions reads) [][]string {
	if r.oldObject || r.request || conditions.request || len(r.object) == 0 {
		return nil
	}
	return slices.Concat(r.object, conditions.object)
}

// isSame reports whether two objects have the same value at a path of fields, and the same parents of it.
func isSame(a, b document.Raw, path []string) bool {
	for _, name := range path {
		if a.Kind() != document.Object || b.Kind() != document.Object {
			break
		}
		a, b = a.Member(name), b.Member(name)
	}
	return document.SameRaw(a, b)
}

// merge adds what another expression reads.
func (r *reads) merge(of reads) {
	r.object = append(r.object, of.object...)
	r.oldObject = r.oldObject || of.oldObject
	r.request = r.request || of.request
	r.namespace = r.namespace || of.namespace
}

// finder finds what a syntax tree reads.
type finder struct {
	*reads
	variables map[string]*compiled
	local     []string // the names that the expression itself has given to something
}

// find adds what a syntax tree reads. path are the fields that are selected from its value.
func (f finder) find(e ast.Expr, path []string) {
	switch e.Kind() {
	case ast.IdentKind:
		f.name(e.AsIdent(), path)
	case ast.SelectKind:
		f.find(e.AsSelect().Operand(), append([]string{e.AsSelect().FieldName()}, path...))
	case ast.CallKind:
		call := e.AsCall()
		if key, ok := selected(call); ok {
			f.find(call.Args()[0], append([]string{key}, path...))
			return
		}
		if call.IsMemberFunction() {
			f.all(call.Target())
		}
		f.all(call.Args()...)
	case ast.ListKind:
		f.all(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f.all(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			f.all(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		f.all(c.IterRange(), c.AccuInit())
		f.local = slices.Concat(f.local, []string{c.IterVar(), c.IterVar2(), c.AccuVar()})
		f.all(c.LoopCondition(), c.LoopStep(), c.Result())
	}
}

func (f finder) all(of ...ast.Expr) {
	for _, e := range of {
		f.find(e, nil)
	}
}

// name adds what a name stands for. A dot before it says that it is none of the local ones.
func (f finder) name(name string, path []string) {
	if slices.Contains(f.local, name) {
		return
	}
	switch strings.TrimPrefix(name, ".") {
	case objectName:
		f.object = append(f.object, path)
	case oldObjectName:
		f.oldObject = true
	case requestName:
		f.request = true
	case namespaceName:
		f.namespace = true
	case variablesName:
		for name, variable := range f.variables {
			if len(path) == 0 || path[0] == name {
				f.merge(variable.reads)
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
