package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	applier "gopkg.in/evanphx/json-patch.v4"

	"usher.dev/usher/e2e/kubetest"
)

const namespace = "changes"

// pod returns a pod of a shape that depends on its number.
func pod(id string, n int) kubetest.Object {
	var containers, initContainers []any
	for i := range 1 + n%3 {
		c := kubetest.Object{"name": fmt.Sprintf("c%d", i), "image": "a"}
		if (n+i)%2 == 0 {
			c["env"] = []any{kubetest.Object{"name": "GREETING", "value": "s3cret-hello"}}
		}
		containers = append(containers, c)
	}
	if n%4 == 1 {
		initContainers = []any{kubetest.Object{"name": "init", "image": "a"}}
	}
	metadata := kubetest.Object{"name": id, "labels": kubetest.Object{"id": id}}
	if n%2 == 0 {
		metadata["labels"].(kubetest.Object)["acme.com/lifespan-requested"] = "7"
	}
	if n%5 == 0 {
		metadata["annotations"] = kubetest.Object{"note": "s3cret-note"}
	}
	if n%7 == 3 {
		delete(metadata, "name")
		metadata["generateName"] = id + "-"
	}
	spec := kubetest.Object{"schedulerName": "none", "containers": containers, "automountServiceAccountToken": false} // no scheduler writes its status
	if initContainers != nil {
		spec["initContainers"] = initContainers
	}
	return kubetest.Object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
}

// logging is the webhook that comes first: it sets LOG_LEVEL in each container, and the label team. It is called again
// for the container of the webhook that comes last.
func logging(object kubetest.Object) (patch []operation) {
	for i, c := range object.List("spec", "containers") {
		env, has := c.List("env"), false
		for _, v := range c.List("env") {
			has = has || v.String("name") == "LOG_LEVEL"
		}
		level := kubetest.Object{"name": "LOG_LEVEL", "value": "s3cret-level"}
		switch {
		case has:
		case len(env) == 0:
			patch = append(patch, operation{Op: "add", Path: fmt.Sprintf("/spec/containers/%d/env", i), Value: []any{level}})
		default:
			patch = append(patch, operation{Op: "add", Path: fmt.Sprintf("/spec/containers/%d/env/0", i), Value: level})
		}
	}
	if object.String("metadata", "labels", "team") == "" {
		patch = append(patch, operation{Op: "add", Path: "/metadata/labels/team", Value: "a"})
	}
	return patch
}

// proxying is the webhook that comes last: it adds a container in front, with a volume, and annotations as a whole.
func proxying(object kubetest.Object) (patch []operation) {
	for _, c := range object.List("spec", "containers") {
		if c.String("name") == "proxy" {
			return nil
		}
	}
	proxy := kubetest.Object{"name": "proxy", "image": "p", "env": []any{kubetest.Object{"name": "TOKEN", "value": "s3cret-token"}}}
	patch = append(patch, operation{Op: "add", Path: "/spec/containers/0", Value: proxy})
	if len(object.List("spec", "volumes")) == 0 {
		patch = append(patch, operation{Op: "add", Path: "/spec/volumes", Value: []any{kubetest.Object{"name": "certs", "emptyDir": kubetest.Object{}}}})
	}
	if object.At("metadata", "annotations") == nil {
		patch = append(patch, operation{Op: "add", Path: "/metadata/annotations", Value: kubetest.Object{"injected": "s3cret-annotation"}})
	} else {
		patch = append(patch, operation{Op: "copy", From: "/metadata/annotations/note", Path: "/metadata/annotations/copied"})
	}
	return patch
}

const first, last = "log.a.example.com", "proxy.z.example.com"

// TestAuthors: 50 pods go through a webhook of others, usher, and another one, after which the first is called again.
// Each operation has its author, and what is called exact equals what is stored.
func TestAuthors(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	cluster.MustApply(ctx, t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+namespace+`", "labels": {"admission-webhook": "enabled"}}}`)
	awaitAccount(ctx, t, namespace)
	a, z := &foreign{webhook: first, decide: logging}, &foreign{webhook: last, decide: proxying}
	a.register(ctx, t, "a-logging", namespace, "IfNeeded")
	z.register(ctx, t, "z-proxying", namespace, "Never")
	exact, again, operations := 0, 0, 0
	for n := range 50 {
		id := fmt.Sprintf("pod-%d", n)
		stored, err := cluster.Admin().Create(ctx, "/api/v1/namespaces/"+namespace+"/pods", pod(id, n))
		must(t, err)
		name := stored.String("metadata", "name")
		all := reports(ctx, t, "--audit-log="+cluster.AuditLog(), "--show-values", "--kind=pods", namespace+"/"+name)
		if len(all) != 1 || all[0].Operation != "CREATE" || all[0].Name != name {
			t.Fatalf("%s: %d reports", name, len(all))
		}
		operations += checkAuthors(t, all[0], a, z, id)
		exact += checkExact(t, all[0], stored)
		for _, c := range all[0].Calls {
			if c.Round == 2 {
				again++
			}
		}
		if n%5 == 0 { // the client removes a label, and the first webhook adds it again: nothing has changed
			delete(stored.At("metadata", "labels").(map[string]any), "team")
			updated, err := cluster.Admin().Update(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+name, stored)
			must(t, err)
			all = reports(ctx, t, "--audit-log="+cluster.AuditLog(), "--show-values", "--kind=pods", namespace+"/"+name)
			exact += checkExact(t, all[len(all)-1], updated)
		}
	}
	t.Logf("%d operations, %d exact, called again %d times", operations, exact, again)
	if exact == 0 || again < 50 || operations < 200 {
		t.Errorf("%d operations, %d exact, called again %d times: the test shows nothing", operations, exact, again)
	}
	out, _ := explain(ctx, t, "--audit-log="+cluster.AuditLog(), "--blame", "--documents", "-n", namespace)
	if strings.Contains(out, "s3cret") || !strings.Contains(out, "container proxy added") || !strings.Contains(out, "called again in round 2") {
		t.Errorf("%s", out[:min(len(out), 4000)])
	}
	if os.Getenv("USHER_SHOW") != "" {
		t.Log(out)
	}
}

// checkAuthors compares the patches of a report with what the webhooks sent, and usher's with what was seen before and
// after it. It returns the number of operations.
func checkAuthors(t *testing.T, r report, a, z *foreign, id string) (operations int) {
	t.Helper()
	patches := map[string][]string{}
	for _, c := range r.Calls {
		var list []any
		_ = json.Unmarshal(c.Patch, &list)
		operations += len(list)
		if len(list) > 0 {
			patches[c.Webhook] = append(patches[c.Webhook], string(c.Patch))
		}
		if len(list) == 0 != (len(c.Changes) == 0) {
			t.Errorf("%s: %s has %d operations and the changes %v", id, c.Webhook, len(list), c.Changes)
		}
	}
	for _, f := range []*foreign{a, z} {
		if !sameJSON(patches[f.webhook], f.patches(id)) {
			t.Errorf("%s: %s sent %v, and the report has %v", id, f.webhook, f.patches(id), patches[f.webhook])
		}
	}
	for webhook := range patches {
		if webhook != first && webhook != last && webhook != "mutate-pods.usher.dev" {
			t.Errorf("%s: %s has sent nothing", id, webhook)
		}
	}
	between(t, a.of(id)[0], append(a.patches(id)[:1:1], patches["mutate-pods.usher.dev"]...), z.of(id)[0])
	return operations
}

// between checks that patches lead from what one webhook saw to what another one saw.
func between(t *testing.T, from kubetest.Object, patches []string, to kubetest.Object) {
	t.Helper()
	document, _ := json.Marshal(from)
	for _, text := range patches {
		patch, err := applier.DecodePatch([]byte(text))
		must(t, err)
		document, err = patch.Apply(document)
		must(t, err)
	}
	var got, want any
	_ = json.Unmarshal(document, &got)
	raw, _ := json.Marshal(to)
	_ = json.Unmarshal(raw, &want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the patches lead to\n%s\nand the next webhook saw\n%s", document, raw)
	}
}

// checkExact counts the documents that are called exact, which must be what is stored.
func checkExact(t *testing.T, r report, stored kubetest.Object) (exact int) {
	t.Helper()
	var want any
	raw, _ := json.Marshal(stored)
	_ = json.Unmarshal(raw, &want)
	for _, c := range r.Calls {
		var got any
		if c.Known != "exact" {
			continue
		}
		exact++
		if _ = json.Unmarshal(c.After, &got); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, %s: called exact\n%s\nand stored is\n%s", r.Name, c.Webhook, c.After, raw)
		}
	}
	return exact
}

func sameJSON(a, b []string) bool {
	var left, right []any
	_ = json.Unmarshal([]byte("["+strings.Join(a, ",")+"]"), &left)
	_ = json.Unmarshal([]byte("["+strings.Join(b, ",")+"]"), &right)
	return len(a) == len(b) && reflect.DeepEqual(left, right)
}

// awaitAccount waits for the service account that pods of a namespace need.
func awaitAccount(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	must(t, kubetest.Eventually(ctx, func(ctx context.Context) error {
		_, err := cluster.Admin().Get(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default")
		return err
	}))
}
