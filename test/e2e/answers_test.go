package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// golden is usher's expected answer to a sample, read from its golden file.
type golden struct {
	http           string
	allowed        bool
	status, object kubetest.Object
	warnings       []string
	audit          map[string]string
}

// readGolden parses a file written by test/promises: a line for each fact, and indented YAML below "status:" and
// "object:".
func readGolden(t *testing.T, file string) golden {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := golden{audit: map[string]string{}}
	var section *strings.Builder
	sections := map[string]*strings.Builder{"status": {}, "object": {}, "patch": {}}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case strings.HasPrefix(line, " "):
			section.WriteString(line)
		case strings.HasPrefix(line, "HTTP "):
			g.http = strings.TrimSpace(line)
		case key == "allowed":
			g.allowed = value == "true"
		case key == "warning":
			g.warnings = append(g.warnings, value)
		case key == "audit":
			name, said, _ := strings.Cut(value, ": ")
			g.audit[name] = said
		default:
			section = sections[strings.TrimSuffix(key, ":")]
		}
	}
	for name, into := range map[string]*kubetest.Object{"status": &g.status, "object": &g.object} {
		if err := yaml.Unmarshal([]byte(sections[name].String()), into); err != nil {
			t.Fatalf("%s, %s: %v", file, name, err)
		}
	}
	return g
}

// Every sample of the core suite that an API server can store is sent through it. The API server's checks of an answer
// (uid, version, patch type, a patch that applies: see TestBrokenAnswersAreFound) pass, and the result for the user, in
// etcd and in the audit log equals the golden file.
func TestSamplesThroughTheAPIServer(t *testing.T) {
	ctx := cluster.Within(t, 2*time.Minute)
	setPolicy(ctx, t, edited(t, "capacity: keep", "capacity: raise")) // the embedded policy, with which the golden files were written
	namespace(ctx, t, "samples", kubetest.Object{optIn: "enabled"})
	for route, send := range map[string]func(context.Context, *testing.T, sample) (*kubetest.Response, string){
		"mutate-pods": sendPod, "validate-pods": sendPod, "mutate-nodes": sendNode,
	} {
		shelf, _ := filepath.Glob("../../samples/reviews/" + route + "/*.json")
		others, _ := filepath.Glob("../testdata/reviews/" + route + "/*.json")
		files := slices.Concat(shelf, others)
		if len(shelf) == 0 || len(others) == 0 {
			t.Fatalf("%d samples of %s on the shelf, %d others", len(shelf), route, len(others))
		}
		skipped := 0
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			if kubetest.PolicyOf(name) != "" {
				continue // of another policy: the oracle sends it, and usecases has a test of its step
			}
			t.Run(route+"/"+name, func(t *testing.T) {
				t.Cleanup(func() {
					if t.Skipped() {
						skipped++
					}
				})
				s := readSample(t, route, name, file)
				response, verb := send(ctx, t, s)
				s.check(t, response, lastEvent(t, verb, s))
			})
		}
		if skipped == len(files) {
			t.Errorf("none of %d samples of %s could be sent", skipped, route)
		}
	}
}

// sample is the request of a review.
type sample struct {
	route, webhook string
	golden         golden

	Operation, Name, SubResource string
	UserInfo                     struct {
		Username string
		Groups   []string
	}
	Object, OldObject kubetest.Object
	DryRun            bool
}

func readSample(t *testing.T, route, name, file string) sample {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var review struct{ Request sample }
	if err := json.Unmarshal(text, &review); err != nil {
		t.Fatal(err)
	}
	s := review.Request
	s.route, s.webhook, s.golden = route, route+".usher.dev", readGolden(t, strings.TrimSuffix(file, ".json")+".golden")
	if s.golden.http != "HTTP 200" {
		t.Skip("no review that an API server sends: ", s.golden.http)
	}
	for _, object := range []kubetest.Object{s.Object, s.OldObject} {
		if metadata, ok := object.At("metadata").(map[string]any); ok {
			for _, server := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
				delete(metadata, server) // set by the API server
			}
		}
	}
	return s
}

func (s sample) query() string { return dry("?dryRun=All", s.DryRun) }

func sendPod(ctx context.Context, t *testing.T, s sample) (*kubetest.Response, string) {
	if s.Operation != "CREATE" {
		t.Skip("usher is asked about new pods only")
	}
	if strings.HasPrefix(s.UserInfo.Username, "system:node:") {
		t.Skip("a kubelet's own pods need its node: TestMirrorPods of package quota stores them")
	}
	metadata, spec := s.Object.At("metadata").(map[string]any), s.Object.At("spec").(map[string]any)
	if metadata["generateName"] != nil && !s.golden.allowed {
		t.Skip("the API server makes the name before it asks: see TestGeneratedNames")
	}
	delete(spec, "priority") // set by the API server from the class, as is the next
	delete(spec, "preemptionPolicy")
	metadata["namespace"] = "default"
	plain, err := cluster.Admin().Create(ctx, podPath("default", "")+"?dryRun=All", s.Object)
	if err != nil {
		t.Skip("no API server stores this, with usher or without: ", err)
	}
	metadata["namespace"] = "samples"
	r, err := cluster.Admin().Do(ctx, "POST", podPath("samples", "")+s.query(), "application/json", s.Object)
	if err != nil {
		t.Fatal(err)
	}
	if object, _ := r.Object(); r.Err() == nil {
		cluster.DeleteAfter(t, podPath("samples", object.String("metadata", "name")))
		checkTwins(t, object, plain)
	}
	return r, "create"
}

func sendNode(ctx context.Context, t *testing.T, s sample) (*kubetest.Response, string) {
	if s.OldObject == nil {
		t.Skip("an API server always sends the old object")
	}
	cluster.DeleteAfter(t, nodePath(s.Name))
	node, err := cluster.Admin().Create(ctx, "/api/v1/nodes", s.OldObject)
	if err != nil {
		t.Fatal(err)
	}
	cached := func(ctx context.Context) error { // an update beside a stale cache is admitted twice, and the audit log has the annotations of both
		seen, err := cluster.Admin().Get(ctx, nodePath(s.Name)+"?resourceVersion=0")
		if err == nil && seen.String("metadata", "uid") != node.String("metadata", "uid") {
			err = errors.New("the API server's cache has the node of another sample")
		}
		return err
	}
	if err := kubetest.Eventually(ctx, cached); err != nil {
		t.Fatal(err)
	}
	s.Object["spec"] = node["spec"] // the API server taints a new node, and a kubelet may not remove the taint
	user := cluster.User(s.UserInfo.Username, s.UserInfo.Groups...)
	if s.UserInfo.Username == "admin" {
		user = cluster.Admin()
	}
	path := nodePath(s.Name)
	if s.SubResource != "" {
		path += "/" + s.SubResource
	}
	r, err := user.Do(ctx, "PUT", path+s.query(), "application/json", s.Object)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status == 400 {
		t.Skip("no API server decodes this, with usher or without: ", r.Err())
	}
	return r, "update"
}

// lastEvent returns the audit event of the last request.
func lastEvent(t *testing.T, verb string, s sample) kubetest.AuditEvent {
	t.Helper()
	resource := map[string]string{"create": "pods", "update": "nodes"}[verb]
	events, err := cluster.Audit(func(e kubetest.AuditEvent) bool {
		return e.Stage == "ResponseComplete" && e.Verb == verb && e.ObjectRef.Resource == resource &&
			e.ObjectRef.Namespace != "default" && e.ObjectRef.Subresource == s.SubResource
	})
	if err != nil || len(events) == 0 {
		t.Fatalf("no audit event: %v", err)
	}
	return events[len(events)-1]
}

func (s sample) check(t *testing.T, response *kubetest.Response, event kubetest.AuditEvent) {
	t.Helper()
	s.checkVerdict(t, response.Err())
	if failure := failedOpen(event); failure != "" {
		t.Errorf("the API server does not take the answer: %s", failure)
	}
	checkPatches(t, event)
	said := map[string]string{}
	for key, value := range event.Annotations {
		if key, ours := strings.CutPrefix(key, s.webhook+"/"); ours {
			said[key] = value
		}
	}
	if id := said["refusal"]; id != "" { // it depends on the namespace, which is another one here
		checkSays(t, response.Err(), "(refusal "+id+")")
		said["refusal"] = s.golden.audit["refusal"]
	}
	if !maps.Equal(said, s.golden.audit) {
		t.Errorf("the audit log has %q\nwant %q", said, s.golden.audit)
	}
	for _, warning := range s.golden.warnings {
		if !slices.Contains(response.Warnings, warning) {
			t.Errorf("the user is not warned: %q\nbut of %q", warning, response.Warnings)
		}
	}
	if object, _ := response.Object(); response.Err() == nil {
		s.checkObject(t, object)
	}
}

func (s sample) checkVerdict(t *testing.T, err error) {
	t.Helper()
	denial := fmt.Sprintf("admission webhook %q denied the request: ", s.webhook)
	if !s.golden.allowed {
		message, _, _ := strings.Cut(s.golden.status.String("message"), "(refusal ")
		checkSays(t, err, denial+message)
		if got, want := code(err), s.golden.status.At("code"); float64(got) != want {
			t.Errorf("HTTP %d, want %v", got, want)
		}
		return
	}
	// Another route may refuse what this one allows; nothing else may.
	if err != nil && (strings.Contains(err.Error(), denial) || !strings.Contains(err.Error(), "denied the request")) {
		t.Errorf("the API server refuses what usher allows: %v", err)
	}
}

// checkObject compares the fields that usher changes. fields_test.go checks the others, which include defaults of the
// API server.
func (s sample) checkObject(t *testing.T, object kubetest.Object) {
	t.Helper()
	want := s.golden.object
	if want == nil {
		return // no patch
	}
	if s.route == "mutate-nodes" {
		if got, want := sizeOf(object), sizeOf(want); got != want {
			t.Errorf("the node shows %s\nwant %s", got, want)
		}
		return
	}
	for _, list := range []string{"initContainers", "containers"} {
		for i, container := range want.List("spec", list) {
			if got, want := environment(object.List("spec", list)[i]), environment(container); got != want {
				t.Errorf("%s %s has the environment %q, want %q", list, container.String("name"), got, want)
			}
		}
	}
	if got, want := days(object), days(want); got != want {
		t.Errorf("tolerated days %q, want %q", got, want)
	}
}

// Warnings are shown to the user of kubectl.
func TestWarningsInKubectl(t *testing.T) {
	ctx := cluster.Within(t, time.Minute)
	setPolicy(ctx, t, edited(t, "denied-names: enforce", "denied-names: warn"))
	cluster.DeleteAfter(t, podPath("apps", "offensive-pod"))
	_, err := cluster.Kubectl(ctx, "apply", "--warnings-as-errors", "-f", "deploy/demo/offensive-pod.yaml")
	checkSays(t, err, "Warning: ", `denied-names: metadata.name: Forbidden: "offensive-pod" contains "offensive"`)
	checkSeated(t, stored(ctx, t, podPath("apps", "offensive-pod")), "any") // a warning does not deny

	newNode(ctx, t, "warned") // without a record, and not by its kubelet
	_, err = cluster.Kubectl(ctx, "patch", "node", "warned", "--warnings-as-errors", "--subresource=status", "--type=merge",
		"-p", `{"status": {"capacity": {"cpu": "16"}, "allocatable": {"cpu": "15900m"}}}`)
	checkSays(t, err, "Warning: cpu left as it is", amplified)
	checkSize(t, stored(ctx, t, nodePath("warned")), size{"15900m", "16", ""})
}
