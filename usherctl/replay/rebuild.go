package replay

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	applier "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
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

// rebuild returns the object before each call of mutating webhooks, and after the last. What plug-ins added before is known from the stored object:
// the patches of the log are undone in it, and must lead to it again. why says that they do not.
func rebuild(kind schema.GroupVersionKind, created bool, sent, stored object, calls []explain.Called) (documents []json.RawMessage, why string) {
	seen, patched := sent, slices.ContainsFunc(calls, func(c explain.Called) bool { return len(c.Patch) > 0 })
	if stored != nil {
		u := undoing{now: copied(stored), sent: sent}
		for _, c := range slices.Backward(calls) {
			for _, o := range slices.Backward(c.Patch) {
				if !u.undo(o) {
					return nil, "the patches in the log do not lead to the stored object"
				}
			}
		}
		seen = asSent(u.now, sent)
	} else if created {
		seen = tolerant(kind, sent)
	}
	documents = []json.RawMessage{encoded(seen)}
	for _, c := range calls {
		after, err := applied(documents[len(documents)-1], c.Patch)
		if err != nil {
			return nil, "the patches in the log do not apply to the object that was sent: what plug-ins added before is not in the log"
		}
		if len(c.Patch) > 0 {
			after = defaulted(kind, after)
		}
		documents = append(documents, after)
	}
	if patched && stored != nil && !reaches(decoded(documents[len(documents)-1]), asSent(copied(stored), sent), seen) {
		return nil, "the patches in the log do not lead to the stored object"
	}
	return documents, ""
}

// tolerant returns a pod with the tolerations that the plug-in DefaultTolerationSeconds adds to each: of a request that was refused, the log has
// nothing that plug-ins added.
func tolerant(kind schema.GroupVersionKind, sent object) object {
	spec, is := sent["spec"].(object)
	if kind.GroupKind() != (schema.GroupKind{Kind: "Pod"}) || !is {
		return sent
	}
	all, _ := spec["tolerations"].([]any)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(all, func(element any) bool {
			t, _ := element.(object)
			effect, hasEffect := t["effect"].(string)
			of, hasKey := t["key"].(string)
			return (!hasKey || of == key) && (!hasEffect || effect == string(corev1.TaintEffectNoExecute))
		})
		if !tolerated {
			all = append(all, object{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": json.Number("300")})
		}
	}
	sent, spec = maps.Clone(sent), maps.Clone(spec)
	sent["spec"], spec["tolerations"] = spec, all
	return sent
}

// asSent returns an object with those members of another one that the API server sets later.
func asSent(now, sent object) object {
	metadata, is := now["metadata"].(object)
	was, _ := sent["metadata"].(object)
	if is {
		for _, key := range given {
			restore(metadata, was, key)
		}
	}
	restore(now, sent, "status")
	return now
}

func restore(in, from object, key string) {
	if value, has := from[key]; has {
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
		for key := range i {
			if _, has := w[key]; !has {
				return false
			}
		}
		for key, value := range w {
			if ok = ok && reaches(i[key], value, b[key]); !ok {
				return false
			}
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

// undoing takes operations of patches back.
type undoing struct{ now, sent object }

// undo takes an operation back; it returns false if it is not known how.
func (u *undoing) undo(o report.Operation) bool {
	at := tokens(o.Path)
	if len(at) == 0 || o.Op == "test" || o.Op == "move" {
		return o.Op == "test"
	}
	parent, was, ok := u.lookUp(at[:len(at)-1])
	last := at[len(at)-1]
	switch p := parent.(type) {
	case object:
		old, _ := was.(object)
		value, had := old[last]
		if had {
			p[last] = copied(value)
		} else {
			delete(p, last)
		}
		return ok && (had || o.Op == "add" || o.Op == "copy")
	case []any:
		list, done := undoInList(p, was, o, last)
		return ok && done && u.set(at[:len(at)-1], list)
	}
	return false
}

// undoInList returns a list without the change by an operation on its element at an index.
func undoInList(p []any, was any, o report.Operation, index string) ([]any, bool) {
	value, _ := requests.DecodeJSON(o.Value)
	at, err := strconv.Atoi(index)
	if err != nil {
		at = len(p) - 1
	}
	old, _ := was.([]any)
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
		p[at] = copied(old[at])
		return p, true
	case o.Op == "remove" && at <= len(p):
		return slices.Insert(slices.Clone(p), at, copied(old[at])), true
	}
	return nil, false
}

// lookUp returns the value at a path, and that of the object that was sent: elements of lists are the same by their names, or else their index.
func (u *undoing) lookUp(path []string) (now, was any, ok bool) {
	now, was = any(u.now), any(u.sent)
	for _, token := range path {
		switch in := now.(type) {
		case object:
			old, _ := was.(object)
			now, was = in[token], old[token]
		case []any:
			at, err := strconv.Atoi(token)
			if err != nil || at < 0 || at >= len(in) {
				return nil, nil, false
			}
			old, _ := was.([]any)
			if was = nil; find(old, in[at], at) >= 0 {
				was = old[find(old, in[at], at)]
			}
			now = in[at]
		default:
			return nil, nil, false
		}
	}
	return now, was, true
}

// set sets the list at a path.
func (u *undoing) set(path []string, list []any) bool {
	if len(path) == 0 {
		return false
	}
	parent, _, _ := u.lookUp(path[:len(path)-1])
	last := path[len(path)-1]
	switch p := parent.(type) {
	case object:
		p[last] = list
		return true
	case []any:
		at, err := strconv.Atoi(last)
		if err == nil && at < len(p) {
			p[at] = list
		}
		return err == nil && at < len(p)
	}
	return false
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
	return reflect.DeepEqual(value, part) || isQuantity(value, part)
}

// isQuantity reports whether two scalars may be the same amount in other words: the patches must lead to the stored object anyway.
func isQuantity(value, part any) bool {
	text, isText := value.(string)
	_, isNumber := part.(json.Number)
	other, isOther := part.(string)
	digit := func(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }
	return isText && digit(text) && (isNumber || isOther && digit(other))
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

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// tokens returns the parts of a JSON pointer.
func tokens(pointer string) (all []string) {
	if pointer == "" {
		return nil
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		all = append(all, unescape.Replace(token))
	}
	return all
}

func copied[T any](value T) T {
	switch v := any(value).(type) {
	case object:
		made := make(object, len(v))
		for key, member := range v {
			made[key] = copied(member)
		}
		return any(made).(T)
	case []any:
		made := make([]any, len(v))
		for i, element := range v {
			made[i] = copied(element)
		}
		return any(made).(T)
	}
	return value
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
