package strategic

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"usher.dev/usher/test/seed"
)

// shape describes random pods and patches at one place.
type shape struct {
	members map[string]shape // of an object; nil: no object
	key     string           // of a list of objects that is merged by it
	of      *shape           // of a list
	merged  bool             // a list of plain values is merged
	texts   bool             // a map of texts
	retains bool             // patches retain keys here
}

var plainShape = shape{}

func listOf(key string, of shape) shape { return shape{key: key, of: &of} }
func textList(merged bool) shape        { return shape{of: &plainShape, merged: merged} }

var containerShape = shape{members: map[string]shape{
	"image": plainShape, "args": textList(false),
	"env":             listOf("name", shape{members: map[string]shape{"value": plainShape, "valueFrom": {members: map[string]shape{"secretKeyRef": {members: map[string]shape{"key": plainShape}}}}}}),
	"volumeMounts":    listOf("mountPath", shape{members: map[string]shape{"name": plainShape, "subPath": plainShape}}),
	"envFrom":         listOf("", shape{members: map[string]shape{"prefix": plainShape, "secretRef": {members: map[string]shape{"name": plainShape}}}}),
	"securityContext": {retains: true, members: map[string]shape{"procMount": plainShape, "capabilities": {members: map[string]shape{"add": textList(false), "drop": textList(false)}}, "seLinuxOptions": {members: map[string]shape{"level": plainShape, "user": plainShape}}}},
	"lifecycle":       {retains: true, members: map[string]shape{"preStop": {members: map[string]shape{"httpGet": {members: map[string]shape{"path": plainShape, "host": plainShape}}}}}},
	"resources":       {members: map[string]shape{"claims": listOf("", shape{members: map[string]shape{"name": plainShape, "request": plainShape}})}},
}}

var podShape = shape{members: map[string]shape{
	"metadata": {members: map[string]shape{"labels": {texts: true}, "annotations": {texts: true}, "finalizers": textList(true)}},
	"spec": {members: map[string]shape{
		"containers": listOf("name", containerShape), "initContainers": listOf("name", containerShape),
		"volumes": listOf("name", shape{retains: true, members: map[string]shape{
			"hostPath": {members: map[string]shape{"path": plainShape}}, "emptyDir": {members: map[string]shape{"medium": plainShape}},
			"ephemeral": {members: map[string]shape{"volumeClaimTemplate": {members: map[string]shape{"metadata": {members: map[string]shape{"labels": {texts: true}, "finalizers": textList(true)}}}}}}}}),
		"nodeSelector": {texts: true}, "hostname": plainShape,
		"tolerations":     listOf("", shape{members: map[string]shape{"key": plainShape, "value": plainShape}}),
		"hostAliases":     listOf("ip", shape{members: map[string]shape{"hostnames": textList(false)}}),
		"securityContext": {members: map[string]shape{"seLinuxOptions": {members: map[string]shape{"level": plainShape}}, "sysctls": listOf("", shape{members: map[string]shape{"name": plainShape}})}},
		"affinity": {members: map[string]shape{"nodeAffinity": {members: map[string]shape{"requiredDuringSchedulingIgnoredDuringExecution": {members: map[string]shape{
			"nodeSelectorTerms": listOf("", shape{members: map[string]shape{"matchFields": listOf("", shape{members: map[string]shape{"key": plainShape}})}})}}}}}},
	}},
}}

// random returns a random value of a shape; with directives, part of a patch.
func (s shape) random(r *rand.Rand, directives bool) any {
	switch {
	case s.texts:
		return s.marked(r, randomMap(r, !directives), directives)
	case s.of != nil && s.of.members == nil:
		return randomTexts(r)
	case s.of != nil:
		return s.randomList(r, directives)
	case s.members == nil:
		return randomName(r)
	}
	o := object{}
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		member := s.members[name]
		if r.IntN(3) > 0 && len(s.members) > 2 {
			continue
		}
		if directives && r.IntN(12) == 0 {
			o[name] = nil
		} else {
			o[name] = member.random(r, directives)
		}
		if list, ok := o[name].([]any); ok && directives {
			member.direct(r, o, name, list)
		}
	}
	if s.retains && directives && r.IntN(2) == 0 {
		o[retainDirective] = append(texts(slices.Sorted(maps.Keys(o))), "name")
	}
	return s.marked(r, o, directives)
}

func texts(names []string) (list []any) {
	for _, name := range names {
		list = append(list, name)
	}
	return list
}

// marked adds a directive about the whole object.
func (s shape) marked(r *rand.Rand, o object, directives bool) object {
	if directives && r.IntN(6) == 0 && s.members["metadata"].members == nil && s.members["containers"].of == nil {
		o[wholeDirective] = []string{replaceWhole, replaceWhole, deleteWhole}[r.IntN(3)]
		delete(o, retainDirective)
	}
	return o
}

func (s shape) randomList(r *rand.Rand, directives bool) []any {
	list := []any{}
	for _, i := range r.Perm(5)[:r.IntN(4)] {
		o := s.of.random(r, directives).(object)
		if delete(o, wholeDirective); s.key != "" {
			o[s.key] = string(rune('a' + i))
		}
		if directives && r.IntN(6) == 0 {
			o[wholeDirective] = []string{deleteWhole, deleteWhole, replaceWhole}[r.IntN(3)]
		}
		list = append(list, o)
	}
	if directives && r.IntN(6) == 0 {
		list = slices.Insert(list, 0, any(object{wholeDirective: replaceWhole})) // Kubernetes refuses one after an element that is ordered last
	}
	return list
}

// direct adds directives next to a list.
func (s shape) direct(r *rand.Rand, o object, name string, list []any) {
	if s.of.members == nil && r.IntN(2) == 0 {
		o[deleteDirective+name] = randomTexts(r)
	}
	if r.IntN(3) > 0 || s.of.members == nil && !s.merged || s.of.members != nil && s.key == "" {
		return
	}
	order := []any{}
	for _, element := range list {
		part, isObject := element.(object)
		switch {
		case !isObject:
			order = append(order, element)
		case part[wholeDirective] == nil:
			order = append(order, object{s.key: part[s.key]})
		}
	}
	if len(order) > 0 {
		o[orderDirective+name] = order
	}
}

// asDocumented rewrites a patch so that the merge of Kubernetes yields the result that usher documents. Values that are
// both added and deleted are not added, and new parts are first merged, also by Kubernetes, into an empty object.
func (s shape) asDocumented(t *testing.T, patch, have object) object {
	p := maps.Clone(patch)
	for name, value := range patch {
		member, there := s.members[name], have[name] != nil
		switch value := value.(type) {
		case object:
			if part, ok := have[name].(object); ok && value[wholeDirective] == nil {
				p[name] = member.asDocumented(t, value, part)
			} else if value[wholeDirective] == replaceWhole || !there {
				if p[name] = any(member.asNew(t, value)); value[wholeDirective] == deleteWhole {
					delete(p, name)
				} else if there {
					p[name].(object)[wholeDirective] = replaceWhole
				}
			}
		case []any:
			if isDirective(name) {
				continue
			}
			old, _ := have[name].([]any)
			p[name] = member.listAsDocumented(t, value, old, patch[deleteDirective+name])
			if len(old) == 0 || slices.ContainsFunc(value, func(e any) bool { part, _ := e.(object); return part[wholeDirective] == replaceWhole }) {
				delete(p, orderDirective+name)
			}
		}
	}
	for name := range p {
		if list, ok := strings.CutPrefix(name, orderDirective); ok && have[list] == nil {
			delete(p, name)
		}
	}
	return p
}

func (s shape) listAsDocumented(t *testing.T, list, old []any, deleted any) []any {
	out, gone, replaced := []any{}, map[any]bool{}, slices.ContainsFunc(list, func(e any) bool { return s.key != "" && e.(object)[wholeDirective] == replaceWhole })
	if replaced && len(old) > 0 {
		out = append(out, object{wholeDirective: replaceWhole})
	}
	for _, value := range asList(deleted) {
		gone[value] = true
	}
	for _, element := range list {
		part, ok := element.(object)
		mate := slices.IndexFunc(old, func(o any) bool { return ok && s.key != "" && o.(object)[s.key] == part[s.key] })
		switch {
		case !ok && !gone[element]:
			out = append(out, element)
		case !ok:
		case s.key != "" && len(old) > 0 && part[wholeDirective] == deleteWhole:
			out = append(out, part)
		case part[wholeDirective] == deleteWhole || len(part) == 1 && part[wholeDirective] == replaceWhole:
		case mate >= 0 && !replaced:
			out = append(out, s.of.asDocumented(t, part, old[mate].(object)))
		default:
			out = append(out, s.of.asNew(t, part))
		}
	}
	return out
}

func asList(value any) []any { list, _ := value.([]any); return list }

// asNew merges part of a patch, by Kubernetes, into an empty object that has empty objects and elements for everything
// it names.
func (s shape) asNew(t *testing.T, patch object) object {
	part, base := maps.Clone(patch), object{}
	if delete(part, wholeDirective); s.texts {
		maps.DeleteFunc(part, func(_ string, value any) bool { return value == nil })
		return part
	}
	for name, value := range part {
		member := s.members[name]
		switch value := value.(type) {
		case object:
			if delete(part, name); value[wholeDirective] != deleteWhole {
				base[name] = member.asNew(t, value)
			}
		case []any:
			if !isDirective(name) {
				delete(part, name)
				base[name] = member.listAsDocumented(t, value, nil, part[deleteDirective+name])
			}
		}
	}
	maps.DeleteFunc(part, func(name string, _ any) bool { return isDirective(name) }) // there is nothing to retain, order or delete
	meta, err := strategicpatch.NewPatchMetaFromStruct(corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(base, part, meta)
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

// TestMergeCarriesOutDirectives: patches with every directive, at places where pods have something or nothing, have the
// same result as the merge of Kubernetes, except for the documented differences; a second merge changes nothing.
func TestMergeCarriesOutDirectives(t *testing.T) {
	first := seed.Value(t)
	for i := range uint64(600) {
		r := rand.New(rand.NewPCG(first, i))
		pod, patch := podShape.random(r, false).(object), podShape.random(r, true).(object)
		raw, merge := string(encode(pod)), string(encode(patch))
		name := fmt.Sprintf("USHER_SEED=%d, case %d: %s into %s", first, i, merge, raw)
		p, err := Parse([]byte(merge), corev1.Pod{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := parse(t, raw)
		if err := Merge(d.Root(), p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := patched(t, d, raw)
		var got, want, typed corev1.Pod
		var have, documented object
		_ = json.Unmarshal([]byte(raw), &typed)
		_ = json.Unmarshal(encode(typed), &have)
		_ = json.Unmarshal([]byte(merge), &documented)
		documented = podShape.asDocumented(t, documented, have)
		merged, err := strategicpatch.StrategicMergePatch(encode(typed), encode(documented), corev1.Pod{})
		if err != nil {
			t.Fatalf("%s, as documented %s: %v", name, encode(documented), err)
		}
		if err := json.Unmarshal(merged, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(after), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s (-kubernetes +document), as documented %s:\n%s", name, encode(documented), diff)
		}
		if strings.Contains(after, `"$`) {
			t.Fatalf("%s: a directive is left in %s", name, after)
		}
		again := parse(t, after)
		if err := Merge(again.Root(), p); err != nil || again.Edits() > 0 {
			t.Fatalf("%s, merged again: %v, %s", name, err, patchText(again))
		}
	}
}
