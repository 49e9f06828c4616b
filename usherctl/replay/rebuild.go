package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"usher.dev/usher/usherctl/explain"
	"usher.dev/usher/usherctl/report"
	"usher.dev/usher/usherctl/requests"
	"usher.dev/usher/usherctl/review"
)

// object is an object as decoded JSON.
type object = map[string]any

// given are the members of metadata that the API server sets after mutating webhooks.
var given = []string{"name", "uid", "creationTimestamp", "generation", "resourceVersion"}

const astray = "the patches in the log do not lead to the stored object"

// rebuild returns the object before each call of mutating webhooks, and after the last. What plug-ins added before is known from the stored object:
// the patches of the log are undone in it, and must lead to it again. why says that they do not.
func rebuild(kind schema.GroupVersionKind, created bool, sent, stored object, calls []explain.Called) (documents []object, why string) {
	patched := slices.ContainsFunc(calls, func(c explain.Called) bool { return len(c.Patch) > 0 })
	switch {
	case stored == nil && created:
		return chained(kind, tolerant(kind, sent), calls, true)
	case stored == nil:
		return chained(kind, sent, calls, true)
	}
	var now any = stored
	for _, c := range slices.Backward(calls) {
		for _, o := range slices.Backward(c.Patch) {
			before, ok := edited(now, sent, explain.Tokens(o.Path), func(in, was any, key string) (any, bool) { return undone(in, was, key, o) })
			if o.Op == "move" || !ok && o.Op != "test" {
				return nil, astray
			} else if ok && o.Op != "test" {
				now = before
			}
		}
	}
	seen, want := asSent(now.(object), sent), asSent(stored, sent)
	for _, defaults := range []bool{false, true} { // few patches add what has defaults
		documents, why = chained(kind, seen, calls, defaults)
		if !patched || why != "" || reaches(documents[len(documents)-1], want, seen) {
			return documents, why
		}
	}
	return nil, astray
}

// chained returns an object, and what the patch of each call makes of it, with the API server's defaults if they are asked for.
func chained(kind schema.GroupVersionKind, seen object, calls []explain.Called, defaults bool) (documents []object, why string) {
	documents = []object{seen}
	for _, c := range calls {
		after, err := applied(documents[len(documents)-1], c.Patch)
		if err != nil {
			return nil, "the patches in the log do not apply to the object that was sent: what plug-ins added before is not in the log"
		}
		if defaults && slices.ContainsFunc(c.Patch, func(o report.Operation) bool { return !strings.HasPrefix(o.Path, "/metadata/") }) {
			after = decoded(defaulted(kind, encoded(after)))
		}
		documents = append(documents, after)
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
		if !slices.ContainsFunc(all, func(element any) bool {
			t, _ := element.(object)
			return slices.Contains([]any{nil, "", key}, t["key"]) && slices.Contains([]any{nil, "", string(corev1.TaintEffectNoExecute)}, t["effect"])
		}) {
			all = append(slices.Clip(all), object{"key": key, "operator": string(corev1.TolerationOpExists),
				"effect": string(corev1.TaintEffectNoExecute), "tolerationSeconds": json.Number("300")})
		}
	}
	return with(sent, "spec", with(spec, "tolerations", all))
}

// asSent returns an object with those members of another one that the API server sets later.
func asSent(now, sent object) object {
	now = maps.Clone(now)
	if metadata, is := now["metadata"].(object); is {
		metadata = maps.Clone(metadata)
		was, _ := sent["metadata"].(object)
		for _, key := range given {
			restore(metadata, was, key)
		}
		now["metadata"] = metadata
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
			added := old < 0 && review.Identity(w[at]) != "" && review.Identity(w[at]) == review.Identity(i[at])
			if !added && old < 0 && !reflect.DeepEqual(i[at], w[at]) || old >= 0 && !reaches(i[at], w[at], b[old]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(is, want)
}

// edited returns a value with an edit of what has the last token of a path in it; ok is false if there is none. was is the value as it was sent:
// elements of lists are the same by their names, or else their index. Nothing is changed in place.
func edited(now, was any, at []string, edit func(in, was any, key string) (any, bool)) (_ any, ok bool) {
	if len(at) == 1 {
		return edit(now, was, at[0])
	}
	switch in := now.(type) {
	case object:
		if len(at) > 0 {
			old, _ := was.(object)
			value, ok := edited(in[at[0]], old[at[0]], at[1:], edit)
			return with(in, at[0], value), ok
		}
	case []any:
		i, err := strconv.Atoi(at[0])
		if err != nil || i < 0 || i >= len(in) {
			return nil, false
		}
		old, _ := was.([]any)
		if was = nil; find(old, in[i], i) >= 0 {
			was = old[find(old, in[i], i)]
		}
		in = slices.Clone(in)
		in[i], ok = edited(in[i], was, at[1:], edit)
		return in, ok
	}
	return nil, false
}

// with returns an object with another member.
func with(of object, key string, value any) object {
	made := make(object, len(of)+1)
	maps.Copy(made, of)
	made[key] = value
	return made
}

// undone returns a value without the change by an operation on a member of it; ok is false if it is not known how. was is the value as it was sent.
func undone(now, was any, key string, o report.Operation) (_ any, ok bool) {
	if in, is := now.(object); is {
		old, _ := was.(object)
		if value, had := old[key]; had {
			return with(in, key, value), true
		}
		without, _ := done(in, key, "remove", nil)
		return without, o.Op == "add" || o.Op == "copy"
	}
	p, _ := now.([]any)
	value, _ := requests.DecodeJSON(o.Value)
	at, err := strconv.Atoi(key)
	if err != nil {
		at = len(p) - 1
	}
	if o.Op == "add" {
		if at >= len(p) || at < 0 || !holds(p[at], value) {
			at = slices.IndexFunc(p, func(element any) bool { return holds(element, value) })
		}
		return done(now, strconv.Itoa(at), "remove", nil)
	}
	old, _ := was.([]any)
	if at < 0 || at >= len(old) {
		return nil, false
	}
	return done(now, strconv.Itoa(at), map[string]string{"replace": "replace", "remove": "add"}[o.Op], old[at])
}

// find returns the index of an element in a list: of the one with its name, or without names of the one at its index; -1 if there is none.
func find(list []any, element any, at int) int {
	if name := review.Identity(element); name != "" {
		return slices.IndexFunc(list, func(other any) bool { return review.Identity(other) == name })
	}
	if at < len(list) && review.Identity(list[at]) == "" {
		return at
	}
	return -1
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
func applied(document object, patch []report.Operation) (object, error) {
	var now any = document
	for _, o := range patch {
		value, err := requests.DecodeJSON(o.Value)
		made, ok := edited(now, nil, explain.Tokens(o.Path), func(in, _ any, key string) (any, bool) { return done(in, key, o.Op, value) })
		if now = made; !ok || err != nil && o.Op != "remove" {
			raw, err := requests.Patched(encoded(document), patch)
			return decoded(raw), err
		}
	}
	return now.(object), nil
}

// done returns an object or list with an operation on a member of it; ok is false for what is not that simple, or wrong.
func done(now any, key, op string, value any) (_ any, ok bool) {
	switch in := now.(type) {
	case object:
		_, has := in[key]
		if in = with(in, key, value); op == "remove" {
			delete(in, key)
		}
		return in, op == "add" || has && (op == "replace" || op == "remove")
	case []any:
		i, err := strconv.Atoi(key)
		switch in = slices.Clone(in); {
		case op == "add" && key == "-":
			return append(in, value), true
		case err != nil || i < 0 || i > len(in) || i == len(in) && op != "add":
		case op == "add":
			return slices.Insert(in, i, value), true
		case op == "remove":
			return slices.Delete(in, i, i+1), true
		case op == "replace":
			in[i] = value
			return in, true
		}
	}
	return nil, false
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
