package oracle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/samples"
	"usher.dev/usher/test/harness"
	"usher.dev/usher/usherctl/engine"
)

// usherCase is a case of usherctl test, as far as an API server knows of it.
type usherCase struct {
	Manifest, Review, Old json.RawMessage // a file, or the object
	Config, Cluster       string
	Request               struct {
		Operation                    admissionv1.Operation
		User, SubResource, Namespace string
		Groups                       []string
	}
	Defaults *usherCase
}

// folders are where files of a case are, the first that has it.
type folders []string

func (f folders) find(name string) string {
	for _, folder := range f {
		if file := filepath.Join(folder, name); name != "" && exists(file) {
			return file
		}
	}
	return ""
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

// object returns a file, or what is given instead.
func (f folders) object(given json.RawMessage) *unstructured.Unstructured {
	var name string
	if json.Unmarshal(given, &name) == nil && name != "" {
		text, _ := os.ReadFile(f.find(name))
		given, _ = yaml.YAMLToJSON(text)
	}
	u := &unstructured.Unstructured{}
	if u.UnmarshalJSON(given) != nil {
		return nil
	}
	return u
}

// clusterFiles returns the files of a cluster's folder: one of the first folders hides one of the same name in the others.
func (f folders) clusterFiles(t *testing.T, name string) string {
	files := map[string]string{}
	for _, folder := range slices.Backward(f) {
		for _, file := range glob(t, filepath.Join(folder, name, "*.yaml")) {
			files[filepath.Base(file)] = file
		}
	}
	var all []string
	for _, file := range files {
		if !strings.HasPrefix(file, "samples/cluster/") { // they are there
			all = append(all, file)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// scenes returns the requests of the tree.
func (s *server) scenes(t *testing.T) map[scene][]drawn {
	t.Helper()
	all := map[scene][]drawn{}
	for _, sample := range samples.Shelf() {
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(sample.Review), &review); err != nil {
			t.Fatal(err)
		}
		s.add(all, scene{policy: sample.Policy}, s.reviewed(review.Request), sample.Name)
	}
	for _, file := range glob(t, "samples/manifests/*.yaml", "samples/smallest/*.yaml", "samples/tests/*/*.yaml", "deploy/demo/*.yaml") {
		s.addManifests(all, scene{}, file)
	}
	for _, file := range glob(t, "samples/tests/*/*case.yaml", "test/testdata/recipes/*case.yaml") {
		s.addCases(t, all, folders{filepath.Dir(file)}, caseDocuments(t, file), file)
	}
	for _, lesson := range glob(t, "usherctl/learn/lessons/*/lesson.yaml") {
		var checks struct{ Checks []struct{ Case *usherCase } }
		if err := yaml.Unmarshal([]byte(harness.ReadFile(t, lesson)), &checks); err != nil {
			t.Fatal(err)
		}
		var cases []usherCase
		for _, c := range checks.Checks {
			if c.Case != nil {
				cases = append(cases, *c.Case)
			}
		}
		at := filepath.Dir(lesson)
		for _, f := range []folders{{at + "/start", at + "/check"}, {at + "/solution", at + "/start", at + "/check"}} {
			s.addCases(t, all, f, cases, lesson)
			policy, _ := os.ReadFile(f.find("policy.yaml"))
			in := scene{string(policy), f.clusterFiles(t, "cluster")}
			for _, file := range glob(t, f[0]+"/*.yaml") {
				s.addManifests(all, in, file)
			}
			for _, file := range glob(t, f[0]+"/cluster/*.yaml") {
				s.addManifests(all, scene{}, file)
				s.addStored(all, in, file)
			}
		}
	}
	return all
}

// add adds a request, if its kind is served.
func (s *server) add(all map[scene][]drawn, at scene, r drawn, what string) {
	if _, served := s.kinds[cmp.Or(r.Kind, kindIn(r.Object))]; served && r.Operation != admissionv1.Connect {
		r.what = what
		var u unstructured.Unstructured
		_ = json.Unmarshal(r.Object, &u.Object)
		s.assume(cmp.Or(u.GetNamespace(), r.Namespace))
		if r.old != nil {
			s.assume(r.old.GetNamespace())
		}
		all[at] = append(all[at], r)
	}
}

func kindIn(text []byte) schema.GroupVersionKind {
	var u unstructured.Unstructured
	_ = json.Unmarshal(text, &u.Object)
	return u.GroupVersionKind()
}

// addManifests adds the creation of each object of a file.
func (s *server) addManifests(all map[scene][]drawn, at scene, file string) {
	objects, _ := documents(file) // up to one that is no object, as in a policy
	for _, o := range objects {
		s.add(all, at, request(o, ""), file)
	}
}

// addStored adds an update that changes nothing, and the deletion, of each object of a file.
func (s *server) addStored(all map[scene][]drawn, at scene, file string) {
	objects, _ := documents(file)
	for _, o := range objects {
		text, _ := o.MarshalJSON()
		s.add(all, at, drawn{Request: byJane(engine.Request{Operation: admissionv1.Update, Object: text})}, "UPDATE of "+file)
		r := removal(o)
		r.Object = nil
		s.add(all, at, drawn{Request: byJane(r)}, "DELETE of "+file)
	}
}

func caseDocuments(t *testing.T, file string) (all []usherCase) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(harness.ReadFile(t, file))), 4096)
	for {
		c := usherCase{}
		if len(all) > 0 && all[0].Defaults != nil {
			c = *all[0].Defaults
		}
		if decoder.Decode(&c) != nil {
			return all
		}
		all = append(all, c)
	}
}

func (s *server) addCases(t *testing.T, all map[scene][]drawn, f folders, cases []usherCase, what string) {
	t.Helper()
	for _, c := range cases {
		policy, _ := os.ReadFile(f.find(c.Config))
		at := scene{cmp.Or(string(policy), recipe(t, c.Config)), f.clusterFiles(t, cmp.Or(c.Cluster, "none"))}
		if review := f.object(c.Review); review != nil {
			var r admissionv1.AdmissionReview
			text, _ := review.MarshalJSON()
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(what, err)
			}
			s.add(all, at, s.reviewed(r.Request), what)
		} else if o := f.object(c.Manifest); o != nil {
			s.add(all, at, s.sent(c, o, f.object(c.Old)), what)
		}
	}
}

// recipe returns the policy of a recipe by its anchor.
func recipe(t *testing.T, file string) string {
	for _, section := range strings.Split(harness.ReadFile(t, "docs/recipes.md"), "\n## ")[1:] {
		block := regexp.MustCompile("(?s)\n```yaml\n(.*?)```").FindStringSubmatch(section)
		if block != nil && harness.Anchors("# " + section)[0]+".yaml" == file {
			return block[1]
		}
	}
	return ""
}

// sent returns the request of a case with a manifest.
func (s *server) sent(c usherCase, o, old *unstructured.Unstructured) drawn {
	r := byJane(engine.Request{Operation: cmp.Or(c.Request.Operation, admissionv1.Create), SubResource: c.Request.SubResource,
		Namespace: c.Request.Namespace})
	r.User, r.Groups = cmp.Or(c.Request.User, r.User), slices.Concat(r.Groups, c.Request.Groups)
	if r.Object, _ = o.MarshalJSON(); r.Operation != admissionv1.Create || r.SubResource != "" {
		r.Kind, r.Name, r.Namespace = o.GroupVersionKind(), o.GetName(), cmp.Or(o.GetNamespace(), r.Namespace)
		if old == nil {
			old = o
		}
	}
	if r.Operation == admissionv1.Delete {
		r.Object = nil
	}
	return drawn{Request: r, old: old}
}

// reviewed returns the request that an AdmissionReview is about.
func (s *server) reviewed(review *admissionv1.AdmissionRequest) drawn {
	r := engine.Request{Operation: review.Operation, SubResource: review.SubResource, Object: review.Object.Raw, Namespace: review.Namespace,
		User: cmp.Or(review.UserInfo.Username, "jane"), Groups: review.UserInfo.Groups, DryRun: true}
	var old *unstructured.Unstructured
	if len(review.OldObject.Raw) > 0 {
		old = &unstructured.Unstructured{}
		_ = old.UnmarshalJSON(review.OldObject.Raw)
	}
	for kind, resource := range s.kinds {
		of := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource.Name}
		if of == schema.GroupVersionResource(review.Resource) && (review.Operation != admissionv1.Create || review.SubResource != "") {
			r.Kind, r.Name = kind, review.Name
		}
	}
	if review.Operation == admissionv1.Delete {
		r.Object = review.Options.Raw
	}
	if old == nil && r.SubResource != "" && r.Kind.Kind == "Pod" {
		old = made("v1", "Pod", r.Name, r.Namespace, object{"spec": object{"containers": list(object{"name": "a", "image": "b"})}})
	}
	return drawn{Request: r, old: old}
}

// over returns the stored object that a request brings.
func (r drawn) over() []byte {
	if r.old == nil {
		return nil
	}
	text, _ := r.old.MarshalJSON()
	return text
}

// over stores the object that a request is about, and returns the request as one over it.
func (s *server) over(r drawn) (engine.Request, error) {
	old := r.old.DeepCopy()
	if old.GetNamespace() == "" && s.kinds[old.GroupVersionKind()].Namespaced {
		old.SetNamespace(orDefault(r.Namespace))
	}
	stored, err := &unstructured.Unstructured{}, s.store(old)
	if err == nil {
		stored, err = s.stored(old)
	}
	if err != nil {
		return r.Request, err
	}
	var u unstructured.Unstructured
	if r.Operation == admissionv1.Update && json.Unmarshal(r.Object, &u.Object) == nil && u.GetKind() == stored.GetKind() {
		u.SetResourceVersion(stored.GetResourceVersion())
		u.SetUID(stored.GetUID())
		r.Object, err = u.MarshalJSON()
	}
	text, e := stored.MarshalJSON()
	r.Old = text
	return r.Request, errors.Join(err, e)
}
