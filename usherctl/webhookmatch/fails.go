package webhookmatch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"usher.dev/usher/internal/resources"
)

// Failure is a match condition that has no result for some requests, which are refused then or not sent, as failurePolicy says.
type Failure struct {
	Condition registration.MatchCondition
	// Requests are those without a result, such as "CREATE of pods".
	Requests []string
	// Every reports that there is no result for any such request: it is not the object that lacks a field.
	Every       bool
	Foreign     bool // it is a field of other kinds, and the rule names none
	Why, Remedy string
}

// Failing returns the match conditions that have no result for some requests of rules: for a field that no object of the kind has, for the
// object that a deletion does not have, or for a request with no more than it must have. A request that another condition leaves out does
// not count. What mutates sees pods before the API server has made their names of generateName.
func Failing(conditions []registration.MatchCondition, rules []registration.RuleWithOperations, mutates bool) (found []Failure) {
	var read []expression
	for _, c := range conditions {
		read = append(read, expressionOf(c.Expression))
	}
	all := make([]Failure, len(conditions))
	for _, s := range samplesOf(rules, mutates) {
		errs, left := s.evaluate(read)
		for i := range read {
			why := s.always(read[i], errs[i])
			if left || why.Why == "" {
				continue
			}
			f := &all[i]
			if f.Why == "" || why.Every && !f.Every {
				*f = why
				f.Condition = conditions[i]
			}
			if why.Every == f.Every && (!s.wide || len(f.Requests) == 0) {
				f.Requests = append(f.Requests, fmt.Sprintf("%s of %s", s.operation, s.resource))
			}
		}
	}
	for _, f := range all {
		if f.Why != "" {
			f.Requests = slices.Compact(f.Requests)
			found = append(found, f)
		}
	}
	return found
}

// sample is a request for an object that has no more than the API server demands, and fills in.
type sample struct {
	partial
	kind           schema.GroupKind // empty: unknown
	operation      registration.OperationType
	resource       string
	object, before any  // nil: there is none
	inNamespace    bool // nothing is known of namespaceObject, which is null otherwise
	wide           bool // the rule names it by a *
}

// samplesOf returns a sample for each resource and operation of rules, apart from subresources that have objects of their own.
func samplesOf(rules []registration.RuleWithOperations, mutates bool) (all []sample) {
	for _, rule := range rules {
		operations := rule.Operations
		if slices.Contains(operations, registration.OperationAll) {
			operations = []registration.OperationType{registration.Create, registration.Update, registration.Delete}
		}
		for _, group := range rule.APIGroups {
			for _, name := range rule.Resources {
				base, sub, _ := strings.Cut(name, "/")
				for _, operation := range operations {
					own := sub == "" || sub == "*" || sub == "status" && operation == registration.Update
					if own && operation != registration.Connect {
						all = append(all, sampleOf(group, base, sub, operation, mutates))
					}
				}
				if sub == "" || sub == "*" {
					all = append(all, wideSamples(rule, group, base, operations, mutates)...)
				}
			}
		}
	}
	return all
}

// wideSamples returns samples for the resources of Kubernetes that a * of a rule stands for, apart from those that no webhook is asked about.
func wideSamples(rule registration.RuleWithOperations, group, base string, operations []registration.OperationType, mutates bool) (all []sample) {
	if group != "*" && base != "*" {
		return nil
	}
	for _, k := range resources.Kinds() {
		is, _ := meta.UnsafeGuessKindToResource(k.WithVersion(""))
		r := builtIn().Has([]string{is.Group}, is.Resource)
		if r == nil || !slices.Contains(r.Operations, registration.Update) || is.Group == registration.GroupName ||
			group != "*" && group != is.Group || base != "*" && base != is.Resource ||
			rule.Scope != nil && *rule.Scope != registration.AllScopes && (*rule.Scope == registration.ClusterScope) != k.ClusterScoped {
			continue
		}
		for _, operation := range operations {
			if operation != registration.Connect {
				s := sampleOf(is.Group, is.Resource, "", operation, mutates)
				s.wide = true
				all = append(all, s)
			}
		}
	}
	return all
}

var builtIn = sync.OnceValue(resources.BuiltIn)

func sampleOf(group, base, sub string, operation registration.OperationType, mutates bool) sample {
	name := base
	if sub == "status" {
		name += "/" + sub
	}
	s := sample{kind: schema.GroupKind{Group: group, Kind: KindOf(group, base)}, operation: operation, resource: name}
	object, absent := minimal(s.kind), []string(nil)
	metadata := object["metadata"].(map[string]any)
	if metadata["namespace"] == nil && s.kind.Kind != "Namespace" { // whose requests have its name there
		absent = append(absent, inRequest)
	}
	if s.kind == (schema.GroupKind{Kind: "Pod"}) && operation == registration.Create && mutates {
		delete(metadata, "name")
		metadata["generateName"], absent = "a-", append(absent, "name")
	}
	s.partial = requestOf(group, name, operation, absent...)
	if operation != registration.Delete {
		s.object = object
	}
	if operation != registration.Create {
		s.before = object
	}
	return s
}

// evaluate returns the errors of conditions that have no result, whatever is not known, and whether any condition leaves the request out.
func (s sample) evaluate(all []expression) (errs []error, left bool) {
	errs = make([]error, len(all))
	for i, e := range all {
		unknown := slices.Concat(s.unknown, s.user, others)
		if s.inNamespace {
			unknown = append(unknown, namespace...)
		}
		known := map[string]any{"object": s.object, "oldObject": s.before}
		for root, object := range known {
			if object != nil {
				unknown = append(unknown, unknownOf(root, s.kind, e)...)
			}
		}
		known["request"], known[namespaceObject] = s.known, nil
		result, err := e.evaluate(known, unknown)
		errs[i], left = err, left || err == nil && result == celtypes.False
	}
	return errs, left
}

// inRequest is the member of a request with the Namespace of its object.
const inRequest = "namespace"

// askFirst is the remedy for most failures.
const askFirst = "Ask first whether a field is there: has(...), or object.metadata.?labels['KEY'].orValue('')."

// always returns why a condition has no result for a sample, and whether it has none for any such request; no reason if it has one, or may have.
func (s sample) always(e expression, err error) Failure {
	if field := outside(e, s.kind); field != "" {
		return Failure{Every: true, Foreign: s.wide, Why: fmt.Sprintf("no %s has the field %s", s.kind.Kind, field), Remedy: askFirst}
	}
	if err == nil {
		return Failure{}
	}
	without, other := "the request of a deletion has no object, but an oldObject", s
	if s.operation == registration.Create {
		without = "the request of a creation has no oldObject"
	}
	if other.before = minimal(s.kind); s.object == nil {
		other.object = other.before
	}
	if errs, _ := other.evaluate([]expression{e}); errs[0] == nil {
		return Failure{Every: true, Why: without, Remedy: askFirst}
	}
	for _, lacking := range [][2]string{{inRequest, "the request for an object that is in no namespace has no namespace"},
		{"subResource", "the request for an object itself has no subResource"}} {
		member, why := lacking[0], lacking[1]
		other = s
		other.unknown = append(slices.Clone(s.unknown), attribute("request", member))
		if errs, _ := other.evaluate([]expression{e}); errs[0] == nil {
			return Failure{Every: true, Why: why, Remedy: "Ask first: has(request." + member + ")."}
		}
	}
	other = s
	other.inNamespace = true
	if errs, _ := other.evaluate([]expression{e}); errs[0] == nil {
		return Failure{Every: true, Why: "namespaceObject is null in match conditions, also for objects in namespaces",
			Remedy: "Select namespaces by namespaceSelector, or by request.namespace."}
	}
	return Failure{Why: reasonOf(err), Remedy: askFirst}
}

// objectsOf are objects with what the API server demands, and the defaults that it fills in, beside their metadata.
var objectsOf = map[schema.GroupKind]string{
	{Kind: "ConfigMap"}:      `{}`,
	{Kind: "Secret"}:         `{"type": "Opaque"}`,
	{Kind: "ServiceAccount"}: `{}`,
	{Kind: "Namespace"}:      `{"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}`,
	{Kind: "Pod"}: `{"spec": {"containers": [{"name": "a", "image": "a", "resources": {}, "imagePullPolicy": "Always",
		"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
		"volumeMounts": [{"name": "t", "mountPath": "/t", "readOnly": true}]}],
		"volumes": [{"name": "t", "projected": {"sources": [], "defaultMode": 420}}],
		"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
		"serviceAccount": "default", "securityContext": {}, "schedulerName": "default-scheduler", "enableServiceLinks": true, "priority": 0,
		"preemptionPolicy": "PreemptLowerPriority",
		"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]},
		"status": {"phase": "Pending", "qosClass": "BestEffort"}}`,
	{Group: "apps", Kind: "Deployment"}: `{"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
		"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a", "resources": {},
		"imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
		"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
		"schedulerName": "default-scheduler"}},
		"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}, "revisionHistoryLimit": 10,
		"progressDeadlineSeconds": 600}, "status": {}}`,
}

// minimal returns an object of a kind with no more than it must have, as far as that is known.
func minimal(kind schema.GroupKind) map[string]any {
	object := map[string]any{}
	if body, known := objectsOf[kind]; known {
		_ = json.Unmarshal([]byte(body), &object) // it is JSON
		object["kind"], object["apiVersion"] = kind.Kind, strings.TrimPrefix(kind.Group+"/v1", "/")
	}
	metadata := map[string]any{"name": "a", "namespace": "a", "uid": "a", "creationTimestamp": "2000-01-01T00:00:00Z", "managedFields": []any{}}
	if kind.Kind == "Namespace" || kind.Kind == "Node" { // which have some by themselves
		metadata["labels"] = map[string]any{corev1.LabelMetadataName: "a", "kubernetes.io/hostname": "a", "kubernetes.io/os": "linux",
			"kubernetes.io/arch": "amd64"}
	}
	if slices.ContainsFunc(resources.Kinds(), func(k resources.Kind) bool { return k.GroupKind == kind && k.ClusterScoped }) {
		delete(metadata, "namespace")
	}
	object["metadata"] = metadata
	return object
}

// unknownOf returns the members of an object of a kind of which nothing is known, as far as an expression reads them.
func unknownOf(root string, kind schema.GroupKind, e expression) (all []*cel.AttributePatternType) {
	if _, known := objectsOf[kind]; known {
		return nil
	}
	for _, chain := range chainsOf(e.tree, root) {
		if chain[0] != "metadata" {
			all = append(all, attribute(root, chain[0]))
		}
	}
	return all
}

// outside returns the field that no object of a kind has, and for which an expression has no result whatever an object holds; "" if there is none.
func outside(e expression, kind schema.GroupKind) (field string) {
	is := typeOf(kind)
	if is == nil || e.program == nil {
		return ""
	}
	known := map[string]any{}
	unknown := slices.Concat([]*cel.AttributePatternType{cel.AttributePattern("request")}, others, namespace)
	for _, root := range []string{"object", "oldObject"} {
		stray := slices.DeleteFunc(chainsOf(e.tree, root), func(chain []string) bool { return !strays(is, chain) })
		if len(stray) == 0 {
			unknown = append(unknown, cel.AttributePattern(root))
			continue
		}
		field = strings.Join(stray[0], ".")
		object, others := holding(is, stray, root)
		known[root], unknown = object, append(unknown, others...)
	}
	if field == "" {
		return ""
	}
	if _, err := e.evaluate(known, unknown); err == nil {
		return ""
	}
	return field
}
