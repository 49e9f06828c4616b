package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/usherctl/engine"
)

// testCase is a request of a file.
type testCase struct {
	Operation   admissionv1.Operation
	SubResource string
	Of          *metav1.PartialObjectMetadata // the stored object
	Object      json.RawMessage
	Text        string          // the object, byte for byte
	Patch       json.RawMessage // merged into the stored object
	Strict      bool
	Differs     string // why the engine's answer is another one
}

func cases(t *testing.T, s *server, file string) (requests []drawn) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []testCase
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		r, err := c.request(s)
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, drawn{Request: r, what: fmt.Sprintf("%s %s", r.Operation, r.SubResource), differs: c.Differs})
	}
	return requests
}

func (c testCase) request(s *server) (engine.Request, error) {
	r := byJane(engine.Request{Operation: cmp.Or(c.Operation, admissionv1.Create), SubResource: c.SubResource, Object: c.Object, Strict: c.Strict})
	if c.Text != "" {
		r.Object = []byte(c.Text)
	}
	if c.Of == nil {
		return r, nil
	}
	r.Kind, r.Name, r.Namespace = schema.FromAPIVersionAndKind(c.Of.APIVersion, c.Of.Kind), c.Of.Name, c.Of.Namespace
	if c.Patch == nil {
		return r, nil
	}
	stored, err := s.named(r)
	if err != nil {
		return r, err
	}
	stored.SetManagedFields(nil)
	text, err := stored.MarshalJSON()
	if err != nil {
		return r, err
	}
	r.Object, err = jsonpatch.MergePatch(text, c.Patch)
	if r.SubResource == "" {
		r.Kind, r.Name = schema.GroupVersionKind{}, ""
	}
	return r, err
}

// named reads the stored object of a request.
func (s *server) named(r engine.Request) (*unstructured.Unstructured, error) {
	r.Operation, r.SubResource = admissionv1.Update, ""
	path, _, err := s.path(r)
	if err != nil {
		return nil, err
	}
	stored := &unstructured.Unstructured{}
	return stored, s.read(path, &stored.Object)
}

func TestCorners(t *testing.T) {
	s := theServer(t)
	cluster, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, s, engine.Cluster{Objects: cluster}, cases(t, s, "testdata/corners.yaml"))
}

func TestCustomResources(t *testing.T) {
	s := theServer(t)
	objects, err := documents("testdata/custom.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if err := eventually(func() error { return s.store(o) }); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := eventually(func() error { return s.serves(o) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.discover(); err != nil {
		t.Fatal(err)
	}
	cluster, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, s, engine.Cluster{Objects: cluster}, cases(t, s, "testdata/custom-cases.yaml"))
}

// serves reports an error until all versions of a definition are served.
func (s *server) serves(definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		if err := s.servesVersion(group, version["name"].(string), plural); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) servesVersion(group, version, plural string) error {
	if _, err := s.get("/apis/" + group + "/" + version + "/" + plural); err != nil {
		return err
	}
	code, _, body, err := s.do(http.MethodGet, "/apis/"+group+"/"+version, nil, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %s", code, body)
	}
	if err != nil {
		return err
	}
	return s.discover()
}
