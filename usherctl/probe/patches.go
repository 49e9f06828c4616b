package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // by which the API server applies patches
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func noPatch(r *run) {
	if r.hook.Mutates {
		r.skip("it is a mutating webhook")
		return
	}
	for _, a := range r.answered() {
		if len(a.Review.Response.Patch) > 0 || a.Review.Response.PatchType != nil {
			r.fail(a.Exchange, "it is a validating webhook, and sends a patch")
			return
		}
	}
}

func patchType(r *run) {
	if !r.hook.Mutates {
		r.skip("it is a validating webhook")
		return
	}
	for _, a := range r.answered() {
		patch, of := a.Review.Response.Patch, a.Review.Response.PatchType
		switch {
		case len(patch) > 0 && of == nil:
			r.fail(a.Exchange, "there is a patch, and no patchType")
		case len(patch) == 0 && of != nil:
			r.fail(a.Exchange, "there is a patchType, and no patch: leave out both if nothing changes")
		case of != nil && *of != "JSONPatch":
			r.fail(a.Exchange, "patchType is %q: the API server knows only JSONPatch", *of)
		default:
			continue
		}
		return
	}
}

// patched sends a review and returns the object with the patch of the answer; nil if there was no answer, a refusal, or a patch that does not
// apply, which is the matter of other tests.
func (r *run) patched(review Review) (object map[string]any, x *Exchange) {
	a, x := r.client.review(r, review)
	if a == nil || !a.Review.Response.Allowed {
		return nil, x
	}
	object, err := apply(review, a.Review.Response.Patch)
	if err != nil {
		return nil, x
	}
	return object, x
}

// unpatched says why patched returned no object.
func unpatched(x *Exchange) string {
	if a := x.read(); a != nil && a.Review.Response.Allowed {
		return "the patch does not apply: " + short(string(a.Review.Response.Patch))
	}
	return "there is no changed form: " + x.Outcome()
}

// apply returns the object of a review with a patch.
func apply(review Review, patch []byte) (object map[string]any, err error) {
	document, err := json.Marshal(review.object())
	if err != nil {
		return nil, err
	}
	if len(patch) > 0 {
		decoded, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, fmt.Errorf("it is no JSON patch: %w", err)
		}
		if document, err = decoded.Apply(document); err != nil {
			return nil, err
		}
	}
	err = utiljson.Unmarshal(document, &object)
	return object, err
}

// changes reports whether the webhook changes a sample. If not, it says why its patches are not tested.
func (r *run) changes() bool {
	if !r.hook.Mutates {
		r.skip("it is a validating webhook")
		return false
	}
	if !r.changed() {
		why := "it changes none of the samples: pass an object that it changes with --sample FILE"
		if r.hook.unregistered {
			why += ", or --type validating"
		}
		r.notJudged("%s", why)
		return false
	}
	return true
}

// changed reports whether the API server stores one of the samples in another form than without the webhook, or cannot apply its patch.
func (r *run) changed() bool {
	for i, a := range r.plain {
		if a == nil || len(a.Review.Response.Patch) == 0 {
			continue
		}
		s := r.hook.Samples[i]
		if now, err := a.applied(); err != nil || !s.same(r, s.Review.object(), now) {
			return true
		}
	}
	return false
}

// same reports whether the API server stores two forms of the object of a sample in the same form.
func (s Sample) same(ctx context.Context, one, other map[string]any) bool {
	return reflect.DeepEqual(one, other) || reflect.DeepEqual(s.stored(ctx, one), s.stored(ctx, other))
}

// stored returns an object as the API server stores it, as far as that is known, without nulls and what it sets itself.
func (s Sample) stored(ctx context.Context, object map[string]any) any {
	if now, _, _ := s.Judge(ctx, object); now != nil {
		object = now
	}
	if object == nil { // of a deletion
		return nil
	}
	object = runtime.DeepCopyJSON(object)
	for _, key := range []string{"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"} {
		delete(at(object, "metadata"), key)
	}
	if text(s.Review.request(), "operation") == "CREATE" {
		delete(object, "status")
	}
	return withoutNulls(object)
}

// withoutNulls returns a value without nulls, and without objects that held nothing else.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		had := len(value)
		for key, v := range value {
			if value[key] = withoutNulls(v); value[key] == nil {
				delete(value, key)
			}
		}
		if had > 0 && len(value) == 0 {
			return nil
		}
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

func patchApplies(r *run) {
	for _, s := range r.hook.Samples {
		for _, fields := range [][]string{{"annotations"}, {"labels", "annotations"}, nil} {
			what, review := "without "+strings.Join(fields, " and "), s.Review.without(fields...)
			if fields == nil {
				what = "as it is"
			}
			a, x := r.client.review(r, review)
			if a == nil {
				if !x.unsent() {
					r.fail(x, "%s %s is not answered: %s", s.Source, what, x.Outcome())
				}
				return
			}
			if _, err := apply(review, a.Review.Response.Patch); err != nil && len(r.result.Failures) == 0 {
				r.fail(x, "the patch for %s %s does not apply: %v\n%s", s.Source, what, err, short(string(a.Review.Response.Patch)))
			}
		}
	}
}

// kept is the value of the fields that unknownFields adds.
const kept = "kept"

// unknownFields adds fields to the object wherever it has some, and looks for them afterwards.
func unknownFields(r *run) {
	const key, ofOthers = "probeField", "probe.example.com-kept"
	looked := false
	for _, s := range r.hook.Samples {
		review := s.Review.withObject(func(object map[string]any) {
			object[key] = kept
			at(object, "metadata", "labels")[ofOthers] = kept
			at(object, "metadata", "annotations")[ofOthers] = kept
			if spec, is := object["spec"].(map[string]any); is {
				spec[key] = map[string]any{"a": kept}
			}
			_, all := containers(object)
			for _, c := range all {
				if c, is := c.(map[string]any); is {
					c[key] = []any{kept}
				}
			}
		})
		object, x := r.patched(review)
		if object == nil {
			continue
		}
		looked = true
		fields := map[bool][]string{} // whether the test added them
		for _, path := range lost("", review.object(), object) {
			added := strings.Contains(path, key) || strings.Contains(path, ofOthers)
			fields[added] = append(fields[added], path)
		}
		if len(fields[true]) == 0 {
			continue // what is lost of the sample may have been removed on purpose
		}
		text := fields[true][0] + ", which the test added"
		if own := fields[false]; len(own) > 0 {
			text = strings.Join(own[:min(len(own), 5)], ", ") + ", and " + text
		}
		r.fail(x, "%s loses %s: patch what you change, and not what you have decoded", s.Source, text)
		return
	}
	if !looked {
		r.notJudged("no sample with fields that no version of Kubernetes has is allowed, with a patch that applies")
	}
}

// lost returns the paths of the fields that are in a value and not in another one, in order, and of values that the test added and that are others.
func lost(path string, before, after any) (all []string) {
	switch before := before.(type) {
	case map[string]any:
		now, _ := after.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(before)) {
			value := before[key]
			switch is := now[key]; {
			case is != nil:
				all = append(all, lost(path+"/"+key, value, is)...)
			case withoutNulls(runtime.DeepCopyJSONValue(value)) != nil && !reflect.DeepEqual(value, map[string]any{}):
				all = append(all, path+"/"+key)
			}
		}
	case []any:
		now, _ := after.([]any)
		for i, value := range before {
			at := fmt.Sprintf("%s/%d", path, i)
			if is := named(now, value, i); is != nil {
				all = append(all, lost(at, value, is)...)
			} else {
				all = append(all, at)
			}
		}
	case string:
		if before == kept && after != kept {
			all = append(all, path)
		}
	}
	return all
}

// named returns the element of a list that has the name of another one, or else the i-th.
func named(list []any, like any, i int) any {
	if like, is := like.(map[string]any); is && like["name"] != nil {
		for _, e := range list {
			if e, is := e.(map[string]any); is && e["name"] == like["name"] {
				return e
			}
		}
		return nil
	}
	if i < len(list) {
		return list[i]
	}
	return nil
}

// otherContainers puts a container before and one behind those of the sample.
func otherContainers(r *run) {
	if _, all := containers(r.sample.Review.object()); len(all) == 0 {
		r.skip("the object has no containers")
		return
	}
	plain, x := r.patched(r.sample.Review)
	if plain == nil {
		r.notJudged("of the object as it is, %s", unpatched(x))
		return
	}
	foreign := func(name string) map[string]any {
		return map[string]any{"name": name, "image": "registry.example.com/" + name + ":1", "env": []any{map[string]any{"name": "PROBE", "value": name}}}
	}
	review := r.sample.Review.withObject(func(object map[string]any) {
		spec, all := containers(object)
		spec["containers"] = append(append([]any{foreign("probe-before")}, all...), foreign("probe-behind"))
	})
	object, x := r.patched(review)
	if a := x.read(); object == nil && a != nil && a.Review.Response.Allowed {
		r.fail(x, "with containers of somebody else before and behind it, %s", unpatched(x))
		return
	} else if object == nil {
		r.notJudged("of the object with two more containers, %s", unpatched(x))
		return
	}
	_, now := containers(object)
	for _, name := range []string{"probe-before", "probe-behind"} {
		c, _ := named(now, map[string]any{"name": name}, 0).(map[string]any)
		if c == nil || c["image"] != foreign(name)["image"] {
			r.fail(x, "the container %s, which somebody else added, is lost or is another one", name)
		}
	}
	_, before := containers(plain)
	for _, c := range before {
		if c, is := c.(map[string]any); is && len(r.result.Failures) == 0 && !reflect.DeepEqual(named(now, c, 0), any(c)) {
			r.fail(x, "with a container of somebody else before it, the container %v is changed in another way", c["name"])
		}
	}
}

func idempotent(r *run) {
	for _, s := range r.hook.Samples {
		if object, _ := r.patched(s.Review); object != nil {
			r.unchanged(s, s.Source, s.Review.with(func(q map[string]any) { q["object"] = object }), object)
		}
	}
}

// unchanged fails unless a review of an object that was changed already is allowed and changes nothing.
func (r *run) unchanged(s Sample, source string, review Review, object map[string]any) {
	a, x := r.client.review(r, review)
	switch {
	case len(r.result.Failures) > 0, x.unsent():
		return
	case a == nil:
		r.fail(x, "%s, changed already, is not answered: %s", source, x.Outcome())
		return
	case !a.Review.Response.Allowed:
		r.fail(x, "%s, changed already, is %s", source, a.verdict())
		return
	}
	again, err := apply(review, a.Review.Response.Patch)
	switch {
	case err != nil:
		r.fail(x, "%s, changed already, gets a patch that does not apply: %v", source, err)
	case !s.same(r, again, object):
		r.fail(x, "%s, changed already, is changed again: %s", source, short(string(a.Review.Response.Patch)))
	}
}

// rounds sends the object as the API server stores it, under another name.
func rounds(r *run) {
	judged := false
	for _, s := range r.hook.Samples {
		object, _ := r.patched(s.Review)
		if object == nil {
			continue
		}
		now, _, _ := s.Judge(r, object)
		if now == nil {
			continue // see valid
		}
		judged = true
		review := s.Review.with(func(q map[string]any) { q["object"] = now }).named("probe-renamed")
		r.unchanged(s, s.Source+", as it is stored under another name", review, review.object())
	}
	if !judged {
		r.notJudged("of none of the samples it is known how the API server stores it")
	}
}

func valid(r *run) {
	why := "of none of the samples it is known what the API server says of it"
	for _, s := range r.hook.Samples {
		object, x := r.patched(s.Review)
		if object == nil {
			continue
		}
		if _, refused, unknown := s.Judge(r, object); refused != "" {
			r.fail(x, "the API server refuses %s as it was changed: %s", s.Source, refused)
			return
		} else if unknown == "" {
			why = ""
		} else {
			why = unknown
		}
	}
	if why != "" {
		r.notJudged("%s", why)
	}
}
