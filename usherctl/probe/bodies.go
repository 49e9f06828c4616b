package probe

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// nonsense returns a test of a body that is no review: it must be refused as the client's mistake, with HTTP 4xx.
func nonsense(what string, body func(Review) []byte) func(*run) {
	return func(r *run) {
		x := r.client.send(r, &Exchange{Body: body(r.sample.Review)})
		r.refuses(what, x)
	}
}

// refuses fails unless an exchange was refused as the client's mistake. An answer that does not allow is one as well.
func (r *run) refuses(what string, x *Exchange) {
	a := x.read()
	switch {
	case x.unsent(), x.Err == nil && x.Code >= 400 && x.Code < 500, a != nil && !a.Review.Response.Allowed:
	case a != nil:
		r.fail(x, "%s is %s: it must be refused with HTTP 4xx, because nothing was looked at", what, a.verdict())
	default:
		r.fail(x, "%s: %s; want HTTP 4xx", what, x.Outcome())
	}
}

// survives returns a test of a review that is unusual: it may be decided upon or refused, but not fail as if the webhook were at fault.
func survives(what string, change func(Review) Review) func(*run) {
	return func(r *run) {
		_, x := r.client.review(r, change(r.sample.Review))
		if !x.unsent() && (x.Err != nil || x.Code >= 500) {
			r.fail(x, "%s: %s; want an answer, or HTTP 4xx", what, x.Outcome())
		}
	}
}

func otherKind(r Review) []byte {
	object := r.object()
	if object == nil {
		object = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "probe"}}
	}
	return Review(object).JSON()
}

// wrongTypes replaces each field below spec, or else each field but the names of the type, with a number.
func wrongTypes(r Review) Review {
	return r.withObject(func(object map[string]any) {
		fields, is := object["spec"].(map[string]any)
		if !is {
			fields = object
		}
		for key := range fields {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata"}, key) {
				fields[key] = int64(7)
			}
		}
	})
}

func nulls(r Review) Review {
	return r.withObject(func(object map[string]any) {
		metadata := at(object, "metadata")
		metadata["labels"], metadata["annotations"] = nil, nil
		if spec, all := containers(object); len(all) > 0 {
			spec["containers"] = append([]any{nil}, all...)
		}
	})
}

func deep(r *run) {
	const levels = 100_000
	body := r.sample.Review.withObject(func(object map[string]any) { object["probe"] = "DEEP" }).JSON()
	nested := strings.Repeat("[", levels) + strings.Repeat("]", levels)
	x := r.client.send(r, &Exchange{Body: bytes.Replace(body, []byte(`"DEEP"`), []byte(nested), 1)})
	if a := x.read(); a != nil && a.same(r.was) || x.Err == nil && x.Code < 500 || x.unsent() {
		return
	}
	r.fail(x, "JSON of %d nested lists: %s; want HTTP 4xx", levels, x.Outcome())
}

// large sends an object with much in an annotation that nobody reads, as kubectl keeps the last applied configuration.
func large(r *run) {
	review := r.sample.Review.withObject(func(object map[string]any) {
		at(object, "metadata", "annotations")["probe.example.com/large"] = strings.Repeat("x", 1<<20)
	})
	r.sameVerdict("with 1 MiB in an annotation", review)
}

// endless sends blanks after which a review would come.
func endless(r *run) {
	blanks := strings.Repeat(" ", 1<<20)
	var parts []io.Reader
	for range 32 {
		parts = append(parts, strings.NewReader(blanks))
	}
	x := &Exchange{before: "head -c 33554432 /dev/zero | tr '\\0' ' '", Body: r.sample.Review.JSON()}
	r.client.stream(r, x, io.MultiReader(append(parts, bytes.NewReader(x.Body))...))
	switch a := x.read(); {
	case a != nil && (a.Review.Response.Allowed || a.verdict() == r.was.verdict()):
		r.fail(x, "a body of 32 MiB was read to its end: %s; limit what is read, as by http.MaxBytesReader of Go", a.verdict())
	case x.Err == nil && x.Code >= 500:
		r.fail(x, "a body of 32 MiB: %s; want HTTP 413: it is the client that is wrong", x.Outcome())
	}
}

func compressed(r *run) {
	var body bytes.Buffer
	to := gzip.NewWriter(&body)
	_, _ = to.Write(r.sample.Review.JSON())
	_ = to.Close()
	x := r.client.send(r, &Exchange{Body: body.Bytes(), Header: map[string]string{"Content-Encoding": "gzip"}})
	if a := x.read(); a == nil || !a.same(r.was) {
		r.refuses("a body that gzip compressed", x)
	}
}

func get(r *run) {
	x := r.client.send(r, &Exchange{Method: http.MethodGet})
	if x.Code != http.StatusNotImplemented { // which servers answer to methods that they do not have
		r.refuses("GET", x)
	}
}

// deletion returns the DELETE of the object.
func deletion(r Review) Review {
	return r.with(func(q map[string]any) {
		if q["object"] != nil {
			q["oldObject"] = q["object"]
		}
		q["object"], q["operation"] = nil, "DELETE"
		q["options"] = map[string]any{"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
	})
}

func connect(r Review) Review {
	return r.other("pods", "exec", "CONNECT", "", "v1", "PodExecOptions",
		`{"kind":"PodExecOptions","apiVersion":"v1","stdin":true,"container":"app","command":["sh"]}`)
}

func scale(r Review) Review {
	return r.other("deployments", "scale", "UPDATE", "autoscaling", "v1", "Scale",
		`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"web","namespace":"default"},"spec":{"replicas":3},"status":{"replicas":1}}`)
}

func lease(r Review) Review {
	return r.other("leases", "", "CREATE", "coordination.k8s.io", "v1", "Lease",
		`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"web","namespace":"default"},"spec":{"leaseDurationSeconds":40}}`)
}

// other returns a review of an object of another kind.
func (r Review) other(resource, subresource, operation, group, version, kind, object string) Review {
	return r.with(func(q map[string]any) {
		of := group
		if resource == "deployments" {
			of = "apps"
		}
		q["kind"] = map[string]any{"group": group, "version": version, "kind": kind}
		q["resource"] = map[string]any{"group": of, "version": "v1", "resource": resource}
		q["requestKind"], q["requestResource"] = q["kind"], q["resource"]
		q["subResource"], q["requestSubResource"], q["operation"], q["name"] = subresource, subresource, operation, "web"
		var decoded map[string]any
		if err := json.Unmarshal([]byte(object), &decoded); err != nil {
			panic(err) // it is a constant
		}
		q["object"], q["oldObject"] = decoded, nil
		if operation == "UPDATE" {
			q["oldObject"] = decoded
		}
	})
}

// sparse returns a review that has only what the API requires of an AdmissionRequest.
func sparse(r Review) Review {
	return r.with(func(q map[string]any) {
		for _, key := range []string{"requestKind", "requestResource", "requestSubResource", "options"} {
			delete(q, key)
		}
		q["userInfo"] = map[string]any{}
	})
}
