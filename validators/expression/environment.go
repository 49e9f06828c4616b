// Package expression compiles and evaluates rules written in CEL, with the environment, the libraries and the cost
// limits that Kubernetes has for ValidatingAdmissionPolicies.
//
// Nothing of the library is set up before NewCompiler is called.
package expression

import (
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The variables of an expression.
const (
	objectName    = "object"
	oldObjectName = "oldObject"
	requestName   = "request"
	namespaceName = "namespaceObject"
	variablesName = "variables"
)

// names says which variables there are, for messages.
const names = "object, oldObject, request, namespaceObject and variables"

// Compiler compiles rules. Making one costs some milliseconds, so all rules of a policy share one.
type Compiler struct {
	env         *cel.Env // without variables
	plain       *cel.Env // for rules that have none: an environment of its own would be most of a rule's memory
	noVariables *apiservercel.DeclType
	overloads   overloads
	turns       turns
	patterns    *patternBudget // nil: they are not counted
	// onlyCheck leaves out what is needed to evaluate.
	onlyCheck bool
}

// NewCompiler returns a compiler. The error is a bug.
func NewCompiler() (*Compiler, error) {
	return compilerOf(environment.MustBaseEnvSet(version.MajorMinor(1, compatibleMinor)).StoredExpressionsEnv())
}

// compilerOf returns a compiler with the libraries of an environment.
func compilerOf(base *cel.Env) (*Compiler, error) {
	request, namespace := requestType(), namespaceType()
	env, err := extended(base, []*apiservercel.DeclType{request, namespace},
		cel.Variable(objectName, cel.DynType),
		cel.Variable(oldObjectName, cel.DynType),
		cel.Variable(requestName, request.CelType()),
		cel.Variable(namespaceName, namespace.CelType()))
	if err != nil {
		return nil, err
	}
	c := &Compiler{env: env, turns: newTurns()}
	if c.overloads, err = overloadsOf(env); err != nil {
		return nil, err
	}
	c.plain, c.noVariables, err = withVariables(env)
	return c, err
}

// withVariables returns an environment with the variable variables, an object of the returned type, to which a field is
// added for each variable that is compiled.
func withVariables(env *cel.Env) (*cel.Env, *apiservercel.DeclType, error) {
	of := objectType("kubernetes.variables", nil)
	with, err := extended(env, []*apiservercel.DeclType{of}, cel.Variable(variablesName, of.CelType()))
	return with, of, err
}

// extended returns an environment that knows more types and variables. One step for all of them, because each environment
// has a copy of what the one before it declares.
func extended(env *cel.Env, types []*apiservercel.DeclType, variables ...cel.EnvOption) (*cel.Env, error) {
	provider := apiservercel.NewDeclTypeProvider(types...)
	provider.SetRecognizeKeywordAsFieldName(true) // such as namespace
	options, err := provider.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	return env.Extend(append(options, variables...)...)
}

// fields are the fields of an object type and their types.
type fields map[string]*apiservercel.DeclType

func objectType(name string, fields fields) *apiservercel.DeclType {
	declared := make(map[string]*apiservercel.DeclField, len(fields))
	for field, of := range fields {
		declared[field] = apiservercel.NewDeclField(field, of, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, declared)
}

// requestType returns the type of request: the fields of an AdmissionRequest that policies of the API server have.
func requestType() *apiservercel.DeclType {
	text := apiservercel.StringType
	texts := apiservercel.NewListType(text, -1)
	kind := objectType("kubernetes.GroupVersionKind", fields{"group": text, "version": text, "kind": text})
	resource := objectType("kubernetes.GroupVersionResource", fields{"group": text, "version": text, "resource": text})
	extra := apiservercel.NewMapType(text, texts, -1)
	user := objectType("kubernetes.UserInfo", fields{"username": text, "uid": text, "groups": texts, "extra": extra})
	return objectType("kubernetes.AdmissionRequest", fields{
		"kind": kind, "resource": resource, "subResource": text, "requestKind": kind, "requestResource": resource, "requestSubResource": text,
		"name": text, "namespace": text, "operation": text, "userInfo": user, "dryRun": apiservercel.BoolType, "options": apiservercel.DynType,
	})
}

// namespaceType returns the type of namespaceObject: what usher keeps of a Namespace. An expression that reads more
// does not compile.
func namespaceType() *apiservercel.DeclType {
	text := apiservercel.StringType
	texts := apiservercel.NewMapType(text, text, -1)
	return objectType("kubernetes.Namespace", fields{
		"metadata": objectType("kubernetes.NamespaceMetadata", fields{"name": text, "labels": texts, "annotations": texts}),
		"status":   objectType("kubernetes.NamespaceStatus", fields{"phase": text}),
	})
}
