package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"usher.dev/usher/e2e/kubetest"
)

// sample is a sample review and its golden file.
type sample struct {
	name    string // such as mutate-pods/bare
	path    string // such as /mutate-pods
	version string // of the review: v1 or v1beta1
	policy  string // the policy of samples/policies that it is for; "": the default policy
	request *admissionv1.AdmissionRequest
	golden  golden
}

// golden is the expected answer to a sample.
type golden struct {
	code     int // of HTTP
	allowed  bool
	status   metav1.Status
	warnings []string
	audit    map[string]string
	patched  bool
	object   []byte // JSON, after the patch; absent without a patch
}

// readSamples reads all samples, those in samples/ and the others.
func readSamples(root string) (all []*sample, err error) {
	var files []string
	for _, dir := range []string{"samples", "test/testdata"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "reviews", "*", "*.json"))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no samples in %s: %w", dir, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		s, err := readSample(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func readSample(file string) (*sample, error) {
	route := filepath.Base(filepath.Dir(file))
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	s := &sample{name: route + "/" + name, path: "/" + route, policy: kubetest.PolicyOf(name)}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return nil, err
	}
	s.version, s.request = strings.TrimPrefix(review.APIVersion, "admission.k8s.io/"), review.Request
	text, err = os.ReadFile(strings.TrimSuffix(file, ".json") + ".golden")
	if err != nil {
		return nil, err
	}
	s.golden, err = parseGolden(string(text))
	return s, err
}

// parseGolden parses a golden file written by test/promises of the main module: lines of `key: value`, and indented
// blocks.
func parseGolden(text string) (g golden, err error) {
	g.audit = map[string]string{}
	blocks := map[string]*strings.Builder{"status:": {}, "patch:": {}, "object:": {}}
	var block *strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if indented, ok := strings.CutPrefix(line, "  "); ok && block != nil {
			block.WriteString(indented + "\n")
			continue
		}
		block = blocks[line]
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case key == "allowed":
			g.allowed = value == "true"
		case key == "warning":
			g.warnings = append(g.warnings, value)
		case key == "audit":
			name, text, _ := strings.Cut(value, ": ")
			g.audit[name] = text
		case strings.HasPrefix(line, "HTTP "):
			if g.code, err = strconv.Atoi(strings.TrimPrefix(line, "HTTP ")); err != nil {
				return g, err
			}
		}
	}
	if g.patched = blocks["patch:"].Len() > 0; g.patched {
		if g.object, err = yaml.YAMLToJSON([]byte(blocks["object:"].String())); err != nil {
			return g, err
		}
	}
	return g, yaml.Unmarshal([]byte(blocks["status:"].String()), &g.status)
}

// decoder converts a sample's object into an object of the API server.
type decoder func(raw []byte, kind schema.GroupVersionKind) (runtime.Object, error)

// asStored keeps all fields, as the API server does for custom resources, and as a newer API server does for its own
// fields.
func asStored(raw []byte, kind schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	o.SetGroupVersionKind(kind)
	return o, nil
}

// asTyped keeps the fields of the Go type, as the API server does for pods and nodes. Custom resources have no Go type.
func asTyped(raw []byte, kind schema.GroupVersionKind) (runtime.Object, error) {
	if !scheme.Scheme.Recognizes(kind) {
		return asStored(raw, kind)
	}
	o, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o, nil
}

// attributes rebuilds the API server's request before it called the webhook. object replaces the sample's object.
func (s *sample) attributes(decode decoder, object []byte) (admission.Attributes, error) {
	r := s.request
	kind := schema.GroupVersionKind(r.Kind)
	if r.Operation == admissionv1.Update && len(r.OldObject.Raw) == 0 {
		return nil, errors.New("an update has the old object")
	}
	now, err := decodeIfAny(decode, object, kind)
	if err != nil {
		return nil, err
	}
	before, err := decodeIfAny(decode, r.OldObject.Raw, kind)
	if err != nil {
		return nil, err
	}
	var options runtime.Object
	switch r.Operation {
	case admissionv1.Create:
		options = &metav1.CreateOptions{}
	case admissionv1.Update:
		options = &metav1.UpdateOptions{}
	case admissionv1.Delete:
		options = &metav1.DeleteOptions{}
	}
	dryRun := r.DryRun != nil && *r.DryRun
	return admission.NewAttributesRecord(now, before, kind, r.Namespace, r.Name, schema.GroupVersionResource(r.Resource),
		r.SubResource, admission.Operation(r.Operation), options, dryRun, s.user()), nil
}

func decodeIfAny(decode decoder, raw []byte, kind schema.GroupVersionKind) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil //nolint:nilnil // as admission.Attributes wants it
	}
	return decode(raw, kind)
}

func (s *sample) user() user.Info {
	sent := s.request.UserInfo
	extra := map[string][]string{}
	for key, values := range sent.Extra {
		extra[key] = values
	}
	return &user.DefaultInfo{Name: sent.Username, UID: sent.UID, Groups: sent.Groups, Extra: extra}
}
