package replay

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	applier "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
)

// object is an object as decoded JSON.
type object = map[string]any

// given are the members of metadata that the API server sets after mutating webhooks.
var given = []string{"name", "uid", "creationTimestamp", "generation", "resourceVersion"}

const astray = "the patches in the log do not lead to the stored object"

// rebuild returns the object before each call of mutating webhooks, and after the last. What plug-ins added before is known from the stored object:
// the patches of the log are undone in it, and must lead to it again. why says that they do not.
func rebuild(kind schema.GroupVersionKind, created bool, sent, stored object, calls []explain.Called) (documents []json.RawMessage, why string) {
	patched := slices.ContainsFunc(calls, func(c explain.Called) bool { return len(c.Patch) > 0 })
	switch {
	case stored == nil && created:
		return chained(kind, tolerant(kind, sent), calls, true)
	case stored == nil:
		return chained(kind, encoded(sent), calls, true)
	}
	var now any = runtime.DeepCopyJSON(stored)
	for _, c := range slices.Backward(calls) {
		for _, o := range slices.Backward(c.Patch) {
			before, ok := undone(now, sent, explain.Tokens(o.Path), o)
			if !ok {
				return nil, astray
			}
			now = before
		}
	}
	seen := asSent(now.(object), sent)
	for _, defaults := range []bool{false, true} { // few patches add what has defaults
		documents, why = chained(kind, encoded(seen), calls, defaults)
		if !patched || why != "" || reaches(decoded(documents[len(documents)-1]), asSent(runtime.DeepCopyJSON(stored), sent), seen) {
			return documents, why
		}
	}
	return nil, astray
}

// chained returns an object, and what the patch of each call makes of it, with the API server's defaults if they are asked for.
func chained(kind schema.GroupVersionKind, seen json.RawMessage, calls []explain.Called, defaults bool) (documents []json.RawMessage, why string) {
	documents = []json.RawMessage{seen}
	for _, c := range calls {
		after, err := applied(documents[len(documents)-1], c.Patch)
		if err != nil {
			return nil, "the patches in the log do not apply to the object that was sent: what plug-ins added before is not in the log"
		}
		if defaults && len(c.Patch) > 0 {
			after = defaulted(kind, after)
		}
		documents = append(documents, after)
	}
	return documents, ""
}

// tolerant returns a pod with the tolerations that the plug-in DefaultTolerationSeconds adds to each: of a request that was refused, the log has
// nothing that plug-ins added.
func tolerant(kind schema.GroupVersionKind, sent object) json.RawMessage {
	pod, raw := corev1.Pod{}, encoded(sent)
	if kind.GroupKind() != (schema.GroupKind{Kind: "Pod"}) || json.Unmarshal(raw, &pod) != nil {
		return raw
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == "" || t.Key == key) && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
		}) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))})
		}
	}
	return encoded(pod)
}

// asSent returns an object with those members of another one that the API server sets later.
func asSent(now, sent object) object {
	metadata, _ := now["metadata"].(object)
	was, _ := sent["metadata"].(object)
	for _, key := range given {
		restore(metadata, was, key)
	}
	restore(now, sent, "status")
	return now
}

func restore(in, from object, key string) {
	if value, has := from[key]; has && in != nil {
		in[key] = value
	} else {
		delete(in, key)
	}
}

// reaches reports whether an object is the wanted one. Plug-ins that are called again may have changed elements that patches added: those that the
// object did not have before.
func reaches(is, want, before any) bool {
	switch w := want.(type) {
	case object:
		i, ok := is.(object)
		b, _ := before.(object)
		ok = ok && len(i) == len(w)
		for key, value := range w {
			member, has := i[key]
			ok = ok && has && reaches(member, value, b[key])
		}
		return ok
	case []any:
		i, ok := is.([]any)
		b, _ := before.([]any)
		if !ok || len(i) != len(w) {
			return false
		}
		for at := range w {
			old := find(b, w[at], at)
			added := old < 0 && identity(w[at]) != "" && identity(w[at]) == identity(i[at])
			if !added && old < 0 && !reflect.DeepEqual(i[at], w[at]) || old >= 0 && !reaches(i[at], w[at], b[old]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(is, want)
}

// undone returns a value without the change by an operation at a path in it; ok is false if it is not known how. was is the value as it was sent:
// elements of lists are the same by their names, or else their index.
func undone(now, was any, at []string, o report.Operation) (_ any, ok bool) {
	if len(at) == 0 || o.Op == "test" || o.Op == "move" {
		return now, o.Op == "test"
	}
	switch in := now.(type) {
	case object:
		old, _ := was.(object)
		value, had := old[at[0]]
		switch {
		case len(at) > 1:
			in[at[0]], ok = undone(in[at[0]], value, at[1:], o)
			return in, ok
		case had:
			in[at[0]] = runtime.DeepCopyJSONValue(value)
		default:
			delete(in, at[0])
		}
		return in, had || o.Op == "add" || o.Op == "copy"
	case []any:
		old, _ := was.([]any)
		if len(at) == 1 {
			return undoneInList(in, old, o, at[0])
		}
		i, err := strconv.Atoi(at[0])
		if err != nil || i < 0 || i >= len(in) {
			return nil, false
		}
		if was = nil; find(old, in[i], i) >= 0 {
			was = old[find(old, in[i], i)]
		}
		in[i], ok = undone(in[i], was, at[1:], o)
		return in, ok
	}
	return nil, false
}

// undoneInList returns a list without the change by an operation on its element at an index.
func undoneInList(p, old []any, o report.Operation, index string) ([]any, bool) {
	value, _ := requests.DecodeJSON(o.Value)
	at, err := strconv.Atoi(index)
	if err != nil {
		at = len(p) - 1
	}
	switch {
	case o.Op == "add":
		if at >= len(p) || at < 0 || !holds(p[at], value) {
			at = slices.IndexFunc(p, func(element any) bool { return holds(element, value) })
		}
		if at < 0 {
			return nil, false
		}
		return slices.Delete(slices.Clone(p), at, at+1), true
	case at < 0 || at >= len(old):
		return nil, false
	case o.Op == "replace" && at < len(p):
		p[at] = runtime.DeepCopyJSONValue(old[at])
		return p, true
	case o.Op == "remove" && at <= len(p):
		return slices.Insert(slices.Clone(p), at, runtime.DeepCopyJSONValue(old[at])), true
	}
	return nil, false
}

// find returns the index of an element in a list: of the one with its name, or without names of the one at its index; -1 if there is none.
func find(list []any, element any, at int) int {
	if name := identity(element); name != "" {
		return slices.IndexFunc(list, func(other any) bool { return identity(other) == name })
	}
	if at < len(list) && identity(list[at]) == "" {
		return at
	}
	return -1
}

// identity returns the name of an element; of a mount with its path.
func identity(element any) string {
	fields, _ := element.(object)
	name, _ := fields["name"].(string)
	path, _ := fields["mountPath"].(string)
	return name + path
}

// holds reports whether a value has all of another one: defaults may have been added.
func holds(value, part any) bool {
	switch p := part.(type) {
	case object:
		v, ok := value.(object)
		for key := range p {
			ok = ok && (holds(v[key], p[key]) || p[key] == nil)
		}
		return ok
	case []any:
		v, ok := value.([]any)
		return ok && len(v) >= len(p) && !slices.ContainsFunc(p, func(part any) bool {
			return !slices.ContainsFunc(v, func(element any) bool { return holds(element, part) })
		})
	}
	return reflect.DeepEqual(value, part) || sameQuantity(value, part)
}

// sameQuantity reports whether two scalars are the same amount in other words, such as 500m and 0.5.
func sameQuantity(value, part any) bool {
	b, err := resource.ParseQuantity(fmt.Sprint(part))
	a, wrong := resource.ParseQuantity(fmt.Sprint(value))
	return err == nil && wrong == nil && a.Cmp(b) == 0
}

// applied returns an object with a patch.
func applied(document json.RawMessage, patch []report.Operation) (json.RawMessage, error) {
	if len(patch) == 0 {
		return document, nil
	}
	operations, err := applier.DecodePatch(encoded(patch))
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}

// defaulted returns an object as the API server decodes it after a patch.
func defaulted(kind schema.GroupVersionKind, document json.RawMessage) json.RawMessage {
	typed, err := legacyscheme.Scheme.New(kind)
	if err != nil || json.Unmarshal(document, typed) != nil { // a custom resource
		return document
	}
	legacyscheme.Scheme.Default(typed)
	return encoded(typed)
}

// decoded returns JSON that is known to be an object; nil if it is not.
func decoded(raw []byte) object {
	value, _ := requests.DecodeJSON(raw)
	fields, _ := value.(object)
	return fields
}

// encoded returns a value that was decoded from JSON as JSON.
func encoded(value any) json.RawMessage {
	raw, _ := json.Marshal(value)
	return raw
}
