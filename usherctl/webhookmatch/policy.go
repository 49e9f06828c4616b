package webhookmatch

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Decision is what a ValidatingAdmissionPolicy says of a request; the zero value is that it does not refuse it.
type Decision struct {
	Refuses bool
	Unknown bool   // it cannot be told
	Why     string // of a refusal, or why it cannot be told
}

// worse returns the decision that counts of two: first a refusal, then what cannot be told.
func (d Decision) worse(other Decision) Decision {
	if d.Refuses || d.Unknown && !other.Refuses {
		return d
	}
	return other
}

// Validate evaluates a policy without parameters, by the API server's own code, for a request that its rules and selectors match. changed says
// why the policy may see another object than that of the request; empty: it sees that one. denies reports that a binding denies what the
// policy refuses. Otherwise only an audit annotation without a result refuses the request.
func Validate(ctx context.Context, r Request, p registration.ValidatingAdmissionPolicySpec, changed string, denies bool) Decision {
	v, err := validationOf(r, p)
	if err != nil {
		return Decision{Unknown: true, Why: err.Error()}
	}
	switch d, decided := v.conditions(ctx, changed); {
	case decided && d.Refuses && !denies:
		return Decision{}
	case decided:
		return d
	}
	v.inNamespace = true
	worst := Decision{}
	for i, one := range p.Validations {
		if !denies || worst.Refuses {
			break
		}
		v.at = fmt.Sprintf("validations[%d]", i)
		d := v.decide(changed, v.evaluate(ctx, condition{Expression: one.Expression}))
		if d.Refuses && one.Message != "" {
			d.Why += " (" + oneLine(one.Message) + ")"
		}
		worst = worst.worse(d)
	}
	return worst.worse(v.annotations(ctx, changed))
}

// annotations decides by the audit annotations: with failurePolicy Fail one without a result refuses the request, whatever the bindings do.
func (v validation) annotations(ctx context.Context, changed string) (worst Decision) {
	if v.ignores() {
		return worst
	}
	for i, one := range v.policy.AuditAnnotations {
		v.at = fmt.Sprintf("auditAnnotations[%d]", i)
		worst = worst.worse(v.decide(changed, v.evaluate(ctx, annotation(one))))
	}
	return worst
}

// annotation adapts an audit annotation to the compiler.
type annotation registration.AuditAnnotation

func (a annotation) GetExpression() string    { return a.ValueExpression }
func (a annotation) ReturnTypes() []*cel.Type { return []*cel.Type{cel.StringType, cel.NullType} }

// conditions decides by the match conditions. A false one wins over one without a result.
func (v validation) conditions(ctx context.Context, changed string) (first Decision, decided bool) {
	for _, m := range v.policy.MatchConditions {
		v.at = "the match condition " + m.Name
		is := v.evaluate(ctx, condition(m))
		d := v.decide(changed, is)
		switch {
		case is.leaves && !d.Unknown:
			return Decision{}, true
		case !decided && (is.leaves || is.error != ""):
			first, decided = d, true
		}
	}
	return first, decided
}

// validation is a policy that is evaluated for a request.
type validation struct {
	Request
	policy     registration.ValidatingAdmissionPolicySpec
	compiler   *plugin.CompositedCompiler
	attributes *admission.VersionedAttributes
	as         Equivalent
	at         string // what is evaluated
	// inNamespace reports that expressions see the Namespace. Match conditions do not: namespaceObject is null.
	inNamespace bool
}

// result is the result of an expression: leaves reports that it is false, error says why it has none, and doubt why neither is certain.
type result struct {
	expression   string
	leaves       bool
	error, doubt string
}

// policyVariable adapts a variable of a policy to the compiler.
type policyVariable registration.Variable

func (v *policyVariable) GetName() string          { return v.Name }
func (v *policyVariable) GetExpression() string    { return v.Expression }
func (v *policyVariable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

var mayAsk = plugin.OptionalVariableDeclarations{HasAuthorizer: true}

func validationOf(r Request, p registration.ValidatingAdmissionPolicySpec) (v validation, err error) {
	h := Hook{ValidatingWebhook: registration.ValidatingWebhook{MatchPolicy: p.MatchConstraints.MatchPolicy, Rules: RulesOf(p.MatchConstraints)}}
	v.Request, v.policy = r.seenBy(h), p
	v.as, _ = v.meetsRules(h)
	if v.attributes, err = v.Request.attributes(v.as); err != nil {
		return v, fmt.Errorf("the object cannot be read: %w", err)
	}
	if v.compiler, err = plugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); err != nil {
		return v, err
	}
	for _, variable := range p.Variables {
		own := policyVariable(variable)
		v.compiler.CompileAndStoreVariables([]plugin.NamedExpressionAccessor{&own}, mayAsk, environment.StoredExpressions)
	}
	return v, nil
}

// namespaceField matches what an expression reads of the namespace; its group is empty if that is neither the labels nor the name.
var namespaceField = regexp.MustCompile(`\bnamespaceObject\b(\.metadata\.\??(labels|name)\b)?`)

// evaluate returns the result of an expression of the policy.
func (v validation) evaluate(ctx context.Context, own plugin.ExpressionAccessor) (is result) {
	is.expression = own.GetExpression()
	asked := &asking{answer: v.Authorize}
	request := plugin.CreateAdmissionRequest(v.attributes.Attributes, metav1.GroupVersionResource(v.attributes.GetResource()),
		metav1.GroupVersionKind(v.as.Kind))
	compiled := v.compiler.CompileCondition([]plugin.ExpressionAccessor{own}, mayAsk, environment.StoredExpressions)
	all, _, err := compiled.ForInput(ctx, v.attributes, request, plugin.OptionalVariableBindings{Authorizer: asked}, v.namespaceObject(),
		celconfig.RuntimeCELCostBudget)
	if err == nil {
		err = all[0].Error
	}
	if is.doubt = v.doubts(v.whole(is.expression), err); asked.failed != nil {
		is.doubt = asked.failed.Error()
	}
	if err != nil {
		is.error = reasonOf(err)
		return is
	}
	is.leaves = is.doubt == "" && all[0].EvalResult == celtypes.False
	if is.doubt != "" {
		is.error = is.doubt
	}
	return is
}

// doubts returns why an expression may have another result than err, or none, says.
func (v validation) doubts(text string, err error) string {
	switch others := namespaceField.FindAllStringSubmatch(text, -1); {
	case v.inNamespace && len(others) > 0 && v.InNamespace.Err != nil:
		return v.InNamespace.Err.Error()
	case v.inNamespace && slices.ContainsFunc(others, func(m []string) bool { return m[1] == "" }):
		return "it reads more of the namespace than its labels, which are all that is looked at"
	}
	return v.doubt(text, v.as, err)
}

// whole returns an expression with those of the variables that it may read.
func (v validation) whole(expression string) string {
	if !strings.Contains(expression, "variables") {
		return expression
	}
	for _, variable := range v.policy.Variables {
		expression += "\n" + variable.Expression
	}
	return expression
}

// namespaceObject returns the Namespace as far as it is known, or nil if the expression does not see it.
func (v validation) namespaceObject() *corev1.Namespace {
	if !v.inNamespace || v.Namespace == "" || v.InNamespace.Err != nil {
		return nil
	}
	return plugin.CreateNamespaceObject(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v.Namespace,
		Labels: named(v.InNamespace.Labels, v.Namespace)}})
}

// sent matches where an expression reads the object that is sent.
var sent = regexp.MustCompile(`\bobject\b`)

// setByPlugins matches the fields that admission plug-ins of the API server set before policies are asked, beside defaults.
var setByPlugins = regexp.MustCompile(`\b(serviceAccount|serviceAccountName|automountServiceAccountToken|imagePullSecrets|imagePullPolicy|volumes|` +
	`volumeMounts|priority|priorityClassName|preemptionPolicy|tolerations|resources|runtimeClassName|overhead|nodeSelector|storageClassName|` +
	`ingressClassName|finalizers)\b`)

// ignores reports whether an expression without a result refuses nothing.
func (v validation) ignores() bool {
	return v.policy.FailurePolicy != nil && *v.policy.FailurePolicy == registration.Ignore
}

// decide returns what the result of an expression means for the request.
func (v validation) decide(changed string, is result) Decision {
	if is.error == "" && !is.leaves {
		return Decision{}
	}
	d := Decision{Refuses: true, Why: fmt.Sprintf("%s, %s, is false", v.at, oneLine(is.expression))}
	switch {
	case is.doubt != "":
		return Decision{Unknown: true, Why: fmt.Sprintf("%s, %s: %s", v.at, oneLine(is.expression), is.doubt)}
	case is.error != "" && v.ignores():
		return Decision{}
	case is.error != "":
		d.Why = fmt.Sprintf("%s, %s, has no result: %s", v.at, oneLine(is.expression), is.error)
	}
	text := v.whole(is.expression)
	if plugged := setByPlugins.FindString(text); v.Unstored && changed == "" && plugged != "" {
		changed = "the API server may set " + plugged + " before"
	}
	if changed != "" && sent.MatchString(text) {
		return Decision{Unknown: true, Why: d.Why + " for the object as it was sent; " + changed}
	}
	return d
}
