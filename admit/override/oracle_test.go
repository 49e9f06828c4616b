package override

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
	"usher.dev/usher/test/seed"
)

// ruled is an override as the oracle reads it: selectors are lists of conditions.
type ruled struct {
	admit.Override
	space, object []metav1.LabelSelectorRequirement
}

// asked is a request as the oracle reads it.
type asked struct {
	op            admissionv1.Operation
	kind          string
	namespace     string
	name          string
	user          string
	groups        []string
	is, was       map[string]string // labels; nil: there is no such object
	owner         string            // a ReplicaSet, or empty
	now           time.Time
	space         map[string]string
	known, absent bool // absent: the namespace has not arrived
}

// naively returns the mode of a step and the override that sets it, with straight loops over everything.
func naively(all []ruled, step string, base admit.Mode, q asked) (mode admit.Mode, name string, failed bool) {
	for i := range all {
		o := &all[i]
		concerned := false
		for _, s := range o.Steps {
			concerned = concerned || s == step
		}
		if !concerned || !o.Until.IsZero() && !q.now.Before(o.Until) {
			continue
		}
		space := q.namespace
		if q.kind == "Namespace" {
			space = q.name
		}
		if len(o.Namespaces) > 0 && !isOneOf(space, o.Namespaces) {
			continue
		}
		if len(o.Users)+len(o.Groups) > 0 {
			mine := isOneOf(q.user, o.Users)
			for _, g := range q.groups {
				mine = mine || isOneOf(g, o.Groups)
			}
			if !mine {
				continue
			}
		}
		if o.object != nil {
			fits := holds(o.object, q.is) || holds(o.object, q.was)
			if q.is != nil && q.was != nil && mayLoosen(all, i, step, base) {
				fits = holds(o.object, q.is) && holds(o.object, q.was)
			}
			if !fits {
				continue
			}
		}
		if o.space != nil {
			switch {
			case space == "" || q.kind == "Node":
				continue
			case q.kind == "Namespace":
				if q.was == nil || !holds(o.space, q.was) {
					continue
				}
			case q.absent:
				return base, "", true
			case q.known && !holds(o.space, q.space), !q.known && !holds(o.space, map[string]string{}):
				continue
			}
		}
		if mode = o.Mode; o.EnforcePercent > 0 && drawn(o.Name, q) < o.EnforcePercent {
			mode = admit.Enforce
		}
		return mode, o.Name, false
	}
	return base, "", false
}

func isOneOf(text string, list []string) bool {
	for _, one := range list {
		if text == one {
			return true
		}
	}
	return false
}

// holds reports whether labels meet all conditions. No object meets none.
func holds(conditions []metav1.LabelSelectorRequirement, labels map[string]string) bool {
	if labels == nil {
		return false
	}
	for _, c := range conditions {
		value, found := labels[c.Key]
		ok := map[metav1.LabelSelectorOperator]bool{
			metav1.LabelSelectorOpIn: found && isOneOf(value, c.Values), metav1.LabelSelectorOpNotIn: !found || !isOneOf(value, c.Values),
			metav1.LabelSelectorOpExists: found, metav1.LabelSelectorOpDoesNotExist: !found,
		}[c.Operator]
		if !ok {
			return false
		}
	}
	return true
}

// strength orders the modes for the oracle.
var strength = map[admit.Mode]int{admit.Enforce: 3, admit.Warn: 2, admit.DryRun: 1, admit.Off: 0}

func mayLoosen(all []ruled, i int, step string, base admit.Mode) bool {
	most := strength[base]
	for n := i + 1; n < len(all); n++ {
		if !isOneOf(step, all[n].Steps) {
			continue
		}
		most = max(most, strength[all[n].Mode])
		if all[n].EnforcePercent > 0 {
			most = strength[admit.Enforce]
		}
	}
	return strength[all[i].Mode] < most
}

// drawn is the number of a workload by the library's hash.
func drawn(override string, q asked) int {
	kind, name := q.kind, q.name
	if kind == "Deployment" {
		kind = "ReplicaSet"
	}
	if q.owner != "" {
		kind, name = "ReplicaSet", q.owner[:strings.LastIndex(q.owner, "-")]
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(override + "/" + q.namespace + "/" + kind + "/" + name))
	return int(h.Sum64() % 100)
}

// object returns the JSON of an object with labels.
func (q asked) object(t *testing.T, labels map[string]string) *document.Document {
	t.Helper()
	if labels == nil {
		return nil
	}
	meta := map[string]any{"name": q.name, "labels": labels}
	if q.owner != "" {
		meta["ownerReferences"] = []any{map[string]any{"kind": "ReplicaSet", "name": q.owner, "controller": true}}
	}
	raw, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		t.Fatal(err)
	}
	d, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// request returns the request.
func (q asked) request(t *testing.T) *admit.Request {
	req := &admit.Request{
		Operation: q.op, Kind: metav1.GroupVersionKind{Version: "v1", Kind: q.kind}, Namespace: q.namespace, Name: q.name,
		UserInfo: authenticationv1.UserInfo{Username: q.user, Groups: q.groups},
		Object:   q.object(t, q.is), OldObject: q.object(t, q.was),
	}
	if q.kind == "Deployment" {
		req.Kind.Group = "apps"
	}
	return req
}

// around returns the override context of the request that q points to.
func around(q *asked) Context {
	return Context{Now: func() time.Time { return q.now }, Namespace: func(name string) (admit.Namespace, bool, error) {
		if q.absent {
			return admit.Namespace{}, false, fmt.Errorf("%s: %w", name, admit.ErrNotReady)
		}
		return admit.Namespace{Labels: q.space}, q.known, nil
	}}
}

// noted returns a check that passes.
func noted(name string) admit.Validator[admit.Pod] {
	return admit.Validator[admit.Pod]{Name: name, Run: func(context.Context, *admit.Request, *admit.Pod) (field.ErrorList, error) { return nil, nil }}
}

// TestOverridesAgainstOracle compares the modes of random requests under random overrides with the results of plain
// loops.
func TestOverridesAgainstOracle(t *testing.T) {
	requests := seed.Rounds(100_000)
	if testing.Short() {
		requests /= 10
	}
	r := seed.Random(t)
	used, failures, edges := 0, 0, 0
	for done := 0; done < requests; {
		all, modes := randomOverrides(r), admit.Modes{"one": admit.AllModes[r.IntN(4)], "two": admit.AllModes[r.IntN(4)], "three": admit.Enforce}
		list := make([]admit.Override, len(all))
		for i := range all {
			list[i] = all[i].Override
		}
		chain := admit.Validate(admit.AsPod, []admit.Validator[admit.Pod]{noted("one"), noted("two"), noted("three")}).WithModes(modes)
		var q asked
		in := around(&q)
		for range 50 {
			q = randomAsked(r)
			of := in
			if q.kind == "Node" {
				of = Context{Now: in.Now}
			}
			compareEffective(t, Modes(chain.Steps(), list, of, q.request(t)), all, modes, q)
			if compareWithOracle(t, chain.WithOverrides(Of(list, of)), all, modes, q, &used, &failures) {
				return
			}
			for i := range all {
				if !all[i].Until.IsZero() && q.now.Sub(all[i].Until).Abs() <= time.Second {
					edges++
				}
			}
			done++
		}
	}
	if used < requests/4 || failures < requests/200 || edges < requests/100 {
		t.Errorf("of %d requests only %d used an override, %d waited for a namespace, %d were within a second of an end", requests, used, failures, edges)
	}
}

// compareEffective compares the modes that are known before a request runs with those of the oracle.
func compareEffective(t *testing.T, effective []Effective, all []ruled, modes admit.Modes, q asked) {
	t.Helper()
	for i, e := range effective {
		mode, name, failed := naively(all, e.Name, modes.Of(e.Name), q)
		if len(e.Perhaps) > 0 || failed != (e.Err != nil) || !failed && (e.Mode != mode || (e.Override == nil) != (name == "") || name != "" && e.Override.Name != name) {
			t.Errorf("step %d is in mode %s by %v (%v), and the oracle says %s by %s\nrequest %+v", i, e.Mode, e.Override, e.Err, mode, name, q)
		}
	}
}

// compareWithOracle reports whether the chain and the oracle disagree about a request.
func compareWithOracle(t *testing.T, chain admit.Chain, all []ruled, modes admit.Modes, q asked, used, failures *int) (differ bool) {
	req := q.request(t)
	result, err := chain.Run(t.Context(), req, nil)
	got := map[string]string{}
	for _, s := range result.Steps {
		got[s.Name] = string(s.Mode)
		if s.Override != nil {
			got[s.Name] += " by " + s.Override.Name
			*used++
			if note := req.AuditAnnotations()["override."+s.Name]; note != s.Override.Name {
				t.Errorf("the audit annotation of %s is %q", s.Name, note)
			}
		}
	}
	for _, step := range []string{"one", "two", "three"} {
		mode, name, failed := naively(all, step, modes.Of(step), q)
		if failed {
			*failures++
			if !errors.Is(err, admit.ErrNotReady) || !strings.HasPrefix(err.Error(), step+": override ") {
				t.Errorf("step %s should wait for the namespace: %v", step, err)
			}
			return t.Failed()
		}
		want := string(mode)
		if name != "" {
			want += " by " + name
		} else if mode == admit.Off {
			want = ""
		}
		if got[step] != want {
			t.Errorf("step %s is %q, and the oracle says %q\nrequest %+v\noverrides %+v\nmodes %v", step, got[step], want, q, all, modes)
			return true
		}
	}
	if err != nil {
		t.Errorf("%v\nrequest %+v\noverrides %+v", err, q, all)
	}
	return t.Failed()
}

var (
	oracleEpoch  = time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	oracleKeys   = []string{"app", "team", "stage"}
	oracleValues = []string{"a", "b", "c"}
	oracleSpaces = []string{"n0", "n1", "n2", "n3"}
	oracleUsers  = []string{"u0", "u1", "u2"}
	oracleGroups = []string{"g0", "g1", "g2"}
)

func randomOverrides(r *rand.Rand) []ruled {
	all := make([]ruled, 1+r.IntN(12))
	for i := range all {
		o := &all[i]
		o.Name = fmt.Sprint("o", i)
		o.Steps = some(r, []string{"one", "two", "three"}, 1)
		o.Mode = admit.AllModes[r.IntN(4)]
		if r.IntN(5) == 0 {
			o.EnforcePercent, o.Mode = 1+r.IntN(100), admit.AllModes[1+r.IntN(3)]
		}
		if r.IntN(2) == 0 {
			o.Until = oracleEpoch.Add(time.Duration(r.IntN(4)) * time.Second)
		}
		switch r.IntN(4) {
		case 0:
			o.Namespaces = some(r, oracleSpaces, 1)
		case 1:
			o.space = randomConditions(r)
			o.NamespaceSelector = asSelector(o.space)
		}
		if r.IntN(2) == 0 {
			o.object = randomConditions(r)
			o.Selector = asSelector(o.object)
		}
		if r.IntN(3) == 0 {
			o.Users, o.Groups = some(r, oracleUsers, 0), some(r, oracleGroups, 0)
		}
	}
	return all
}

func randomAsked(r *rand.Rand) asked {
	q := asked{op: admissionv1.Create, kind: "Pod", namespace: oracleSpaces[r.IntN(4)], name: fmt.Sprint("x", r.IntN(50)),
		user: oracleUsers[r.IntN(3)], groups: some(r, oracleGroups, 0), is: randomLabels(r), known: r.IntN(8) > 0, absent: r.IntN(12) == 0,
		now: oracleEpoch.Add(time.Duration(r.IntN(6)-1) * time.Second)}
	switch r.IntN(8) {
	case 0:
		q.kind, q.namespace = "Node", ""
	case 1:
		q.kind, q.name = "Namespace", oracleSpaces[r.IntN(4)]
		q.namespace = q.name
	case 2:
		q.kind = "Deployment"
	case 3:
		q.owner = fmt.Sprint("web", r.IntN(50), "-5d4f8")
	}
	switch r.IntN(3) {
	case 0:
		q.op, q.was = admissionv1.Update, randomLabels(r)
	case 1:
		q.op, q.is, q.was = admissionv1.Delete, nil, q.is
	}
	if q.kind != "Namespace" && q.known {
		q.space = randomLabels(r)
	}
	return q
}

func some(r *rand.Rand, from []string, least int) (list []string) {
	for _, one := range from {
		if r.IntN(3) == 0 {
			list = append(list, one)
		}
	}
	if len(list) < least {
		list = append(list, from[r.IntN(len(from))])
	}
	return list
}

func randomLabels(r *rand.Rand) map[string]string {
	labels := map[string]string{}
	for _, key := range oracleKeys {
		if r.IntN(2) == 0 {
			labels[key] = oracleValues[r.IntN(3)]
		}
	}
	return labels
}

func randomConditions(r *rand.Rand) (conditions []metav1.LabelSelectorRequirement) {
	for range 1 + r.IntN(2) {
		c := metav1.LabelSelectorRequirement{Key: oracleKeys[r.IntN(3)]}
		switch r.IntN(6) {
		case 0:
			c.Operator = metav1.LabelSelectorOpExists
		case 1:
			c.Operator = metav1.LabelSelectorOpDoesNotExist
		case 2:
			c.Operator, c.Values = metav1.LabelSelectorOpNotIn, some(r, oracleValues, 1)
		default:
			c.Operator, c.Values = metav1.LabelSelectorOpIn, some(r, oracleValues, 1)
		}
		conditions = append(conditions, c)
	}
	return conditions
}
