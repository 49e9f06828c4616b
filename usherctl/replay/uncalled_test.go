package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"usher.dev/usher/internal/cli"
	"usher.dev/usher/routes"
	"usher.dev/usher/usherctl/review"
	"usher.dev/usher/usherctl/tool"
)

func web(name, namespace, image string) object {
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": namespace},
		"spec": object{"containers": []any{object{"name": "c", "image": image}}}}
}

const good = "registry.example.com/a:1"

// TestWithoutUsher: where usher was not called, requests are judged, and none counts as the same.
func TestWithoutUsher(t *testing.T) {
	s := newServer(t, "")
	for _, name := range []string{"offensive", "web"} {
		s.send(admissionv1.Create, "pods", web(name, "apps", good), nil)
	}
	s.send(admissionv1.Create, "pods", web("offensive", "free", good), nil)
	few := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "c", "namespace": "apps"}, "data": object{"a": "1"}}
	s.send(admissionv1.Create, "configmaps", few, nil)
	result, printed, err := reviewed(t, s.log.Bytes(), inForce, "")
	got := countsOf(result)
	if !errors.Is(err, cli.ErrDenied) || result.Same != 0 || result.NotCalled != 3 || result.Allowed != 1 || len(got) != 3 || result.Judged != 4 ||
		got["newly refused denied-names"] != 1 || got["newly changed environment"] != 1 || len(result.NotSent) != 1 {
		t.Errorf("%v %v\n%s", err, got, printed)
	}
	for _, traced := range []bool{false, true} { // what both policies refuse or change is the same
		log := s.log.String()
		if traced {
			with := newServer(t, inForce)
			with.send(admissionv1.Create, "pods", web("other", "apps", good), nil)
			log += with.log.String()
		}
		result, printed, err = reviewed(t, []byte(log), inForce, inForce)
		if err != nil || len(result.Groups) != 0 || result.Alike != 2 || result.Same < 2 || !traced && (result.Same != 2 || result.Allowed != 1) {
			t.Errorf("%v\n%s", err, printed)
		}
	}
	unknown := strings.ReplaceAll(strings.Split(s.log.String(), "\n")[0], `"apps"`, `"unknown"`)
	if result, printed, err = reviewed(t, []byte(unknown), inForce, ""); len(result.NotJudged) != 1 || err == nil || result.Same != 0 {
		t.Errorf("%v\n%s", err, printed)
	}
	other := strings.ReplaceAll(unknown, `"pods"`, `"leases"`)
	if _, printed, err = reviewed(t, []byte(other), inForce, ""); err == nil || !strings.Contains(err.Error(), "no request of the log is for usher") {
		t.Errorf("%v\n%s", err, printed)
	}
}

// TestSlips: what counts for nothing in --cluster-dir is named, and nothing is fine then.
func TestSlips(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"n.yaml": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labls": {"a": "b"}}}`, "policy": "{}", "log": ""} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, of := range map[string]error{"fine": nil, "refused": cli.ErrDenied} {
		var out bytes.Buffer
		command := review.Command(tool.Env{Suites: routes.Suites(), Streams: cli.Streams{Out: &out, Err: &out}},
			func(context.Context, tool.Env, review.AuditLogs) error { return of })
		command.SetArgs([]string{"--audit-log", filepath.Join(dir, "log"), "--config", filepath.Join(dir, "policy"), "--cluster-dir", dir})
		command.SilenceErrors, command.SilenceUsage = true, true
		err := command.ExecuteContext(t.Context())
		if !strings.Contains(out.String(), "warning: --cluster-dir: ") || !strings.Contains(out.String(), "did you mean labels?") || err == nil ||
			errors.Is(err, cli.ErrDenied) != (of != nil) {
			t.Errorf("%s: %v\n%s", name, err, &out)
		}
	}
}

// TestOtherReason: a refusal by another step or rule is a difference, but no new refusal.
func TestOtherReason(t *testing.T) {
	s := newServer(t, inForce)
	s.send(admissionv1.Create, "pods", web("offensive", "apps", good), nil)
	foreign := strings.Replace(inForce, "registry.example.com/**", "other.example.com/**", 1)
	for _, was := range []string{"", inForce} {
		for _, policy := range []string{foreign, strings.Replace(foreign, "[offensive]", "[rude]", 1)} {
			result, printed, err := reviewed(t, s.log.Bytes(), policy, was)
			if got := countsOf(result); err != nil || got["refused for another reason image-rules, rule sources"] != 1 || len(got) != 1 || result.Same != 0 {
				t.Errorf("%v\n%s", err, printed)
			}
		}
		if result, printed, err := reviewed(t, s.log.Bytes(), inForce, was); result.Same != 1 || err != nil {
			t.Error(err, printed)
		}
	}
}

// TestOverlap: a request that two logs have is one.
func TestOverlap(t *testing.T) {
	s := newServer(t, inForce)
	s.send(admissionv1.Create, "pods", web("offensive", "apps", good), nil)
	result, printed, err := reviewed(t, []byte(s.log.String()+s.log.String()), strings.Replace(inForce, "[offensive]", "[rude]", 1), "")
	if result.Requests != 1 || len(result.Groups) != 1 || result.Groups[0].Count != 1 {
		t.Errorf("%v\n%s", err, printed)
	}
}

// rewritten returns a log with a change in its last event.
func rewritten(t *testing.T, log string, change func(e object)) []byte {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	var e object
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &e))
	change(e)
	e["auditID"] = "changed"
	return []byte(strings.Join(append(lines[:len(lines)-1], string(text(e))), "\n") + "\n")
}

// TestPatch: a client's patch is judged if the object before is known, and the patch leads from it to what was stored.
func TestPatch(t *testing.T) {
	s := newServer(t, inForce)
	made := deployment(s.rng, 1, "apps")
	made["spec"].(object)["replicas"] = 1
	for i := range made["spec"].(object)["template"].(object)["spec"].(object)["containers"].([]any) {
		made["spec"].(object)["template"].(object)["spec"].(object)["containers"].([]any)[i].(object)["image"] = good
	}
	var next object
	stored := s.send(admissionv1.Create, "deployments", made, nil)
	created := s.log.String()
	must(t, json.Unmarshal(stored, &next))
	next["spec"].(object)["replicas"] = 4
	s.send(admissionv1.Update, "deployments", next, stored)
	policy := strings.Replace(inForce, "replicas <= 5", "replicas <= 3", 1)
	for _, c := range []struct {
		patch any
		want  string
	}{
		{object{"spec": object{"replicas": 4}}, ""},
		{[]any{object{"op": "replace", "path": "/spec/replicas", "value": 4}}, ""},
		{object{"apiVersion": "apps/v1", "kind": "Deployment", "spec": object{"replicas": 4}}, ""},
		{object{"spec": object{"replicas": 2}}, "does not become"},
		{object{"metadata": object{"labels": object{"a": "b"}}}, "does not become"},
	} {
		log := rewritten(t, s.log.String(), func(e object) { e["verb"], e["requestObject"] = "patch", c.patch })
		result, printed, err := reviewed(t, log, policy, "")
		refused := countsOf(result)["newly refused rules, rule few-replicas"] == 1 && errors.Is(err, cli.ErrDenied)
		if refused != (c.want == "") || c.want != "" && (len(result.NotJudged) != 1 || !strings.Contains(result.NotJudged[0].Reason, c.want)) {
			t.Errorf("%s: %v\n%s", text(c.patch), err, printed)
		}
		if result, printed, _ = reviewed(t, log, inForce, ""); c.want == "" && result.Same+result.Allowed != 2 {
			t.Errorf("%s: %s", text(c.patch), printed)
		}
	}
	applied := rewritten(t, created, func(e object) { e["verb"] = "patch"; e["responseStatus"] = object{"code": 201} })
	if result, printed, _ := reviewed(t, applied, strings.Replace(inForce, "replicas <= 5", "replicas < 1", 1), ""); len(result.Groups) != 1 {
		t.Errorf("server-side apply: %s", printed)
	}
}

// TestDelete: a deletion is judged if its answer has the object.
func TestDelete(t *testing.T) {
	s := newServer(t, inForce)
	stored := s.send(admissionv1.Create, "pods", web("web", "apps", good), nil)
	policy := inForce + "- name: kept\n  match: {apiGroups: [''], resources: [pods], operations: [DELETE]}\n" +
		"  validations: [{expression: \"oldObject.metadata.name != 'web' || has(oldObject.metadata.deletionTimestamp)\", message: keep}]\n"
	for name, answer := range map[string]func(is object) object{
		"at once": func(is object) object { return is },
		"gracefully": func(is object) object {
			is["metadata"].(object)["resourceVersion"] = "2000"
			is["metadata"].(object)["deletionTimestamp"] = "2026-11-28T00:00:00Z"
			return is
		},
		"status": func(object) object {
			return object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Success"}
		},
	} {
		log := rewritten(t, s.log.String()+s.log.String(), func(e object) {
			var is object
			must(t, json.Unmarshal(stored, &is))
			e["verb"], e["annotations"], e["requestObject"], e["responseObject"] = "delete", object{}, object{"kind": "DeleteOptions"}, answer(is)
		})
		result, printed, err := reviewed(t, log, policy, "")
		if judged := name != "status"; (countsOf(result)["newly refused rules, rule kept"] == 1) != judged || (len(result.NotJudged) == 0) != judged || err == nil {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
		if _, printed, err = reviewed(t, log, strings.Replace(policy, "!= 'web'", "!= 'app'", 1), ""); (err == nil) != (name != "status") {
			t.Errorf("%s, allowed: %v\n%s", name, err, printed)
		}
	}
}
